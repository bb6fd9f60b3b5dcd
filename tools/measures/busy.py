"""Busy and idle time: the one reading of the table `busy` that every skill shares, so that no two disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...contracts.units import Exact, ratio
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..result import AbstentionError
from .graphs import hidden_in_busy
from .work import work_recorded


@dataclass(frozen=True, slots=True)
class Busy:
    """How a device, or several together, spent the window. All in ns.

    compute + exposed_comm + copy_only + idle = span, exactly.

    Attributes:
        span: the length of the window; of several devices, times their number.
        compute: time with a kernel that is no collective, or with a CUDA graph traced as a whole.
        comm: time with a collective.
        kernel: time with either.
        work: time with a kernel, graph, copy or set.
        compute_copy: time with both compute and a copy or set.
    """

    span: int
    compute: int
    comm: int
    kernel: int
    work: int
    compute_copy: int

    @property
    def overlap(self) -> int:
        """Time with compute and a collective."""
        return self.compute + self.comm - self.kernel

    @property
    def exposed_comm(self) -> int:
        """Time with a collective and no compute."""
        return self.kernel - self.compute

    @property
    def copy_only(self) -> int:
        """Time with copies or sets and no kernel."""
        return self.work - self.kernel

    @property
    def idle(self) -> int:
        """Time without a kernel, graph, copy or set."""
        return self.span - self.work

    @property
    def idle_share(self) -> Exact | None:
        """Idle time as a share of the span; None of an empty window."""
        return ratio(self.idle, self.span)


_KINDS = ("compute", "comm", "kernel", "work", "compute_copy")
"""The kinds of the table `busy`."""


def busy_of_devices(call: Call[Any]) -> dict[int, Busy]:
    """Busy time of every selected device in the window, an idle one too, by `gpu`, in the order of the devices."""
    # Merged intervals have a length, so that this is `call.in_window`, in a form that passes over what lies outside.
    in_window = f'start < {call.window.end_ns} AND "end" > {call.window.start_ns}'
    rows = call.sql(
        f"SELECT gpu, kind, sum({call.clipped}) FROM busy WHERE {call.on_devices} AND {in_window} GROUP BY gpu, kind"
    )
    lengths = {(gpu, kind): int(length) for gpu, kind, length in rows}
    span = call.window.span_ns
    return {
        device.gpu: Busy(span, **{kind: lengths.get((device.gpu, kind), 0) for kind in _KINDS})
        for device in call.devices
    }


def busy_together(devices: Mapping[int, Busy]) -> Busy:
    """The sums over devices."""
    return Busy(*(sum(getattr(busy, name) for busy in devices.values()) for name in Busy.__slots__))


def work_holes(call: Call[Any]) -> list[str]:
    """Notes on what keeps busy and idle time from being the whole truth: any of them makes an answer partial.

    Raises:
        AbstentionError: no kind of GPU work was recorded.
    """
    if not work_recorded(call):
        kinds = ["kernels", "copies", "sets"]
        raise AbstentionError("GPU work was not recorded in this capture", kinds, CAPTURE_HINTS["kernels"])
    notes = []
    if not compute_known(call):
        notes.append(
            "GPU kernels were not recorded: busy is the time of copies and sets alone, and kernels may have run in "
            "what counts as idle"
        )
    return notes + hidden_in_busy(call)


def basis_notes(call: Call[Any]) -> list[str]:
    """What busy and idle time are of: the physical GPU where the capture maps device ids, else (process, device)."""
    bases = sorted({device.basis for device in call.devices if device.pids})
    told = {
        "physical GPU": "busy and idle time are of the physical GPU, over all processes that use it",
        "process and device": "busy and idle time are per process and device: the capture does not map them to GPUs",
    }
    if len(bases) > 1:
        return ["busy and idle time are of the physical GPU where the capture maps it, else per process and device"]
    return [told[basis] for basis in bases]


def compute_known(call: Call[Any]) -> bool:
    """Whether the capture recorded kernels, each or within graphs traced as a whole, which count as compute."""
    return call.profile.recorded("kernels") or call.profile.recorded("graphs")


def comm_known(call: Call[Any]) -> bool:
    """Whether the capture recorded each kernel: graphs traced as a whole do not tell their collectives."""
    return call.profile.recorded("kernels")
