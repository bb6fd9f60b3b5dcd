"""Busy and idle time of generated captures by the slow and obvious method, and captures with CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from nsys_evidence.contracts.window import Window
from nsys_evidence.ingest.synthetic import Capture, GraphLaunch, Kernel
from nsys_evidence.ingest.synthetic.truth import Interval, intersection, is_comm, length
from tests.strategies import Span, Timed, all_work, captures, device_key, ends

DeviceKey = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Parts:
    """How a device spent a window, ns."""

    span: int
    compute: int
    comm: int
    overlap: int
    exposed: int
    copy_only: int
    idle: int
    copy: int
    sync: int


def clipped(events: Iterable[Timed], window: Span) -> list[Interval]:
    """The parts of the events that lie in the window."""
    parts = [(max(start, window.start), min(end, window.end)) for start, end in map(ends, events)]
    return [(start, end) for start, end in parts if start < end]


def slow_parts(capture: Capture, window: Span) -> dict[DeviceKey, Parts]:
    """Every device with work anywhere in the capture, in the order of results."""
    found = {}
    for key in sorted({device_key(capture, work) for work in all_work(capture)}, key=lambda k: (k[0], k[1] or 0)):
        kernels = [k for k in capture.kernels if device_key(capture, k) == key]
        graphs = [g for g in capture.graph_launches if graph_key(capture, g) == key]
        moved = [w for w in (*capture.copies, *capture.sets) if device_key(capture, w) == key]
        pids = {work.pid for work in all_work(capture) if device_key(capture, work) == key}
        syncs = [call for call in capture.calls if call.pid in pids and "Synchronize" in call.name]
        compute = clipped([*(k for k in kernels if not is_comm(k)), *graphs], window)
        comm = clipped((k for k in kernels if is_comm(k)), window)
        copy = clipped(moved, window)
        span, busy = window.end - window.start, length((*compute, *comm, *copy))
        overlap = length(intersection(compute, comm))
        found[key] = Parts(
            span=span,
            compute=length(compute),
            comm=length(comm),
            overlap=overlap,
            exposed=length(comm) - overlap,
            copy_only=busy - length((*compute, *comm)),
            idle=span - busy,
            copy=length(copy),
            sync=length(clipped(syncs, window)),
        )
    return found


def graph_key(capture: Capture, graph: GraphLaunch) -> DeviceKey:
    """The device of a graph launch, which `with_graphs` put where its process has other work."""
    place = Kernel(graph.start, graph.end, graph.device, graph.context, graph.stream, None, graph.pid, "")
    return device_key(capture, place)


@st.composite
def with_graphs(draw: st.DrawFn) -> Capture:
    """A generated capture, sometimes with CUDA graphs traced as a whole, where a process has other work."""
    capture = draw(captures())
    for work in draw(st.lists(st.sampled_from(all_work(capture)), max_size=2)):
        start, end = ends(work)
        later, longer = draw(st.integers(-10, 10)), draw(st.integers(0, 3))
        begin = start + later
        capture.graph_launches.append(
            GraphLaunch(
                begin, begin + longer * (end - start + 1), work.device, work.context, work.stream, None, work.pid, 1
            )
        )
    return capture


def work_span(capture: Capture) -> Span:
    """The GPU window, with graphs."""
    times = [ends(work) for work in (*all_work(capture), *capture.graph_launches)]
    return Span(min(start for start, _ in times), max(end for _, end in times), includes_end=True)


def as_window(span: Span) -> Window:
    """The same window for a skill."""
    return Window(span.start, span.end, "trim", span.includes_end)


def halves(span: Span, at: int) -> tuple[Span, Span]:
    """Two windows that make up the span."""
    return replace(span, end=at, includes_end=False), replace(span, start=at)
