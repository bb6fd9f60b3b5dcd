"""What bounds each device: the host, compute, communication or copies."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ...contracts.columns import Row, column
from ...contracts.envelope import MAX_ROWS, Status
from ...contracts.units import Count, Exact, Id, Ms, Pct, Text, ratio
from ..call import Call
from ..measures.busy import Busy, basis_notes, busy_of_devices, busy_together
from ..measures.graphs import hidden_in_busy
from ..registry import NoParams, skill
from ..result import Result, Table
from ..thresholds.system import MIXED_POINTS, TOP_NAMES


class CriticalPathRow(Row):
    """One device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    span_ms: Ms = column("length of the window")
    compute_ms: Ms = column("time with a kernel that is no collective")
    exposed_comm_ms: Ms = column("time with a collective and no compute")
    copy_only_ms: Ms = column("time with copies or sets and no kernel")
    host_ms: Ms = column("time without any GPU work, put down to the host")
    compute_pct: Pct | None = column("compute_ms", of="span_ms")
    exposed_comm_pct: Pct | None = column("exposed_comm_ms", of="span_ms")
    copy_only_pct: Pct | None = column("copy_only_ms", of="span_ms")
    host_pct: Pct | None = column("host_ms", of="span_ms")
    bound: Text | None = column(
        "the part with the largest share: cpu (host_ms), compute, comm or copy; mixed when the first two are within "
        "five percentage points; null for a window of no length"
    )
    margin_pct: Pct | None = column("the largest part less the second: percentage points", of="span_ms")


class CriticalPathTotals(Row):
    """All selected devices: sums over devices."""

    devices: Count = column("selected devices")
    span_ms: Ms = column("length of the window times devices")
    compute_ms: Ms = column("sum over devices")
    exposed_comm_ms: Ms = column("sum over devices")
    copy_only_ms: Ms = column("sum over devices")
    host_ms: Ms = column("sum over devices")
    bound: Text | None = column("the same of the sums; devices may differ")
    margin_pct: Pct | None = column("the largest sum less the second: percentage points", of="span times devices")


class PathKernelRow(Row):
    """One of the compute kernels of a device that take most time."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    kernel: Text = column("short unique label of the demangled name")
    instances: Count = column("launches that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window; what runs meanwhile is not taken off")
    share_pct: Pct | None = column("its part of the total", of="kernel time of the device, collectives left out")


class PathCollectiveRow(Row):
    """One of the collectives of a device that take most time."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    collective: Text = column("collective, by kernel name")
    instances: Count = column("launches that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window; what compute hides is not taken off")
    share_pct: Pct | None = column("its part of the total", of="time of collectives on the device")


@skill(
    title="Critical path",
    when="To see what bounds each GPU: the host, compute, exposed communication or copies.",
    row=CriticalPathRow,
    totals=CriticalPathTotals,
    tables={"kernels": PathKernelRow, "collectives": PathCollectiveRow},
    needs=("kernels",),
    next=("gpu_idle_gaps", "overlap_breakdown", "top_kernels"),
)
def critical_path(call: Call[NoParams]) -> Result:
    """One row per selected device, an idle one too: compute + exposed_comm + copy_only + host = span.

    The four parts are those of overlap_breakdown, and host is its idle time: the device runs nothing, mostly since no
    work has reached it, sometimes since queued work waits for another stream or device. gpu_idle_gaps shows what the
    host did meanwhile. bound names the largest part and margin_pct how far it leads; with mixed, taking away one part
    alone helps little. These are shares of time, no analysis of dependencies.

    Table kernels has the three compute kernels of each device with most time in the window, and table collectives the
    three collectives. Their times are sums of durations: concurrent ones add up, and time that something else hides is
    part of them.
    """
    holes = hidden_in_busy(call)
    busy = busy_of_devices(call)
    whole = busy_together(busy)
    rows = [(*call.device_of(gpu), *_figures(of)) for gpu, of in busy.items()]
    kernels, names = _kernels(call)
    notes = [*holes, *basis_notes(call)]
    if whole.comm:
        notes.append("communication is told by kernel names, and its time includes waiting for peers")
    bound, margin = _bound(whole)
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={
            "devices": len(rows),
            "span_ms": whole.span,
            "compute_ms": whole.compute,
            "exposed_comm_ms": whole.exposed_comm,
            "copy_only_ms": whole.copy_only,
            "host_ms": whole.idle,
            "bound": bound,
            "margin_pct": margin,
        },
        tables={"kernels": kernels, "collectives": _collectives(call)},
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
        names=names,
    )


def _parts(of: Busy) -> tuple[int, int, int, int]:
    return of.compute, of.exposed_comm, of.copy_only, of.idle


_BOUNDS = ("compute", "comm", "copy", "cpu")
"""What a device is bound by, in the order of its parts."""


def _figures(of: Busy) -> tuple[object, ...]:
    parts = _parts(of)
    return (of.span, *parts, *(ratio(part, of.span) for part in parts), *_bound(of))


def _bound(of: Busy) -> tuple[str | None, Exact | None]:
    """What bounds the device, and by how much of the span; None of an empty window."""
    if not of.span:
        return None, None
    parts = sorted(zip(_parts(of), _BOUNDS, strict=True), reverse=True)
    (largest, name), (second, _) = parts[:2]
    margin = Fraction(largest - second, of.span)
    return "mixed" if margin * 100 <= MIXED_POINTS.value else name, margin


def _kernels(call: Call[NoParams]) -> tuple[Table, dict[str, str]]:
    """The compute kernels of each device with most time, and the full names of their labels."""
    shown, found = _most(call, "name", "kernels WHERE NOT comm")
    texts = call.kernel_labels(name for _, name, *_ in shown)
    return _table(call, [(gpu, texts[name][0], *rest) for gpu, name, *rest in shown], found), dict(texts.values())


def _collectives(call: Call[NoParams]) -> Table:
    """The collectives of each device with most time."""
    return _table(call, *_most(call, "collective", "kernels JOIN kernel_names USING (name) WHERE comm"))


def _most(call: Call[NoParams], key: str, kernels: str) -> tuple[list[tuple[Any, ...]], int]:
    """The few groups of kernels of each device with most time, and how many there are.

    Each is (gpu, key, instances, total, total of all groups of the device); the first by total, then by key.
    """
    groups = call.sql(
        f"""SELECT gpu, {key}, instances, total, sum(total) OVER (PARTITION BY gpu), place, count(*) OVER ()
        FROM (
            SELECT *, row_number() OVER (PARTITION BY gpu ORDER BY total DESC, {key}) AS place
            FROM (
                SELECT gpu, {key}, count(*) AS instances, sum({call.clipped}) AS total
                FROM {kernels} AND {call.on_devices} AND {call.in_window} GROUP BY gpu, {key}
            )
        )
        QUALIFY place <= {TOP_NAMES.value} ORDER BY gpu, place"""
    )
    return [group[:5] for group in groups], groups[0][6] if groups else 0


def _table(call: Call[NoParams], groups: Sequence[tuple[Any, ...]], found: int) -> Table:
    rows = [
        (*call.device_of(gpu), name, instances, total, ratio(total, whole))
        for gpu, name, instances, total, whole in groups[:MAX_ROWS]
    ]
    return Table(rows, total_rows=found)
