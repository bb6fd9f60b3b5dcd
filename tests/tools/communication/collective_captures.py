"""Generated captures with many kinds of collectives, and what their names say, written down by hand."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Capture, Kernel
from tests.strategies import Span, has_length, trims
from tests.tools.slow_busy import with_graphs, work_span

STORAGE = "(ncclDevKernelArgsStorage<(unsigned long)4096>)"
NAMES = {
    f"ncclDevKernel_AllReduce_Sum_bf16_RING_LL{STORAGE}": ("AllReduce", "Sum_bf16"),
    f"ncclDevKernel_AllReduce_Sum_bf16_TREE_LL{STORAGE}": ("AllReduce", "Sum_bf16"),
    f"ncclDevKernel_AllReduce_Max_f32_RING_LL{STORAGE}": ("AllReduce", "Max_f32"),
    f"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL{STORAGE}": ("ReduceScatter", "Sum_bf16"),
    f"ncclDevKernel_SendRecv{STORAGE}": ("SendRecv", None),
}
"""Demangled name: the collective and its variant."""


@st.composite
def with_collectives(draw: st.DrawFn) -> Capture:
    """A generated capture with kernels, about half of them collectives of several kinds; sometimes with graphs."""
    capture = draw(with_graphs().filter(lambda found: bool(found.kernels)))
    names = st.one_of(st.none(), st.sampled_from(list(NAMES)))
    renamed = [(kernel, draw(names)) for kernel in capture.kernels]
    capture.kernels[:] = [replace(kernel, name=name or "scale") for kernel, name in renamed]
    return capture


def is_collective(kernel: Kernel) -> bool:
    """Whether the name is one of those above."""
    return kernel.name in NAMES


def some_window(data: st.DataObject, capture: Capture) -> Span:
    """The GPU window or a trim."""
    return data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
