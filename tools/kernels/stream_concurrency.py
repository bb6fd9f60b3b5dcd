"""Whether streams run together."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, Id, Ms, ratio
from ..call import Call
from ..measures.busy import Busy, basis_notes, busy_of_devices, busy_together
from ..measures.graphs import hidden_in_busy
from ..registry import NoParams, skill
from ..result import Result


class StreamConcurrencyRow(Row):
    """One device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    streams: Count = column("streams with a kernel, graph, copy or set that takes time in the window")
    max_concurrent: Count = column("most kernels that ran at once")
    kernels_0_ms: Ms = column("time without a kernel; copies and sets may have run; the four parts add up to the span")
    kernels_1_ms: Ms = column("time with exactly one kernel")
    kernels_2_ms: Ms = column("time with exactly two kernels")
    kernels_3plus_ms: Ms = column("time with three kernels or more")
    mean_concurrency: Factor | None = column(
        "sum of kernel durations over time with a kernel: kernels at once while any ran; null without kernels"
    )
    compute_with_copy_ms: Ms | None = column(
        "time with both a kernel that is no collective and a copy or set; null where neither copies nor sets were "
        "recorded"
    )


class StreamConcurrencyTotals(Row):
    """All selected devices."""

    devices: Count = column("selected devices")
    streams: Count = column("sum over devices")
    max_concurrent: Count = column("most kernels that ran at once on one device")
    kernels_0_ms: Ms = column("sum over devices")
    kernels_1_ms: Ms = column("sum over devices")
    kernels_2_ms: Ms = column("sum over devices")
    kernels_3plus_ms: Ms = column("sum over devices")
    mean_concurrency: Factor | None = column("sum of kernel durations over time with a kernel, over devices")
    compute_with_copy_ms: Ms | None = column("sum over devices")


@dataclass(frozen=True, slots=True)
class _Overlaps:
    """The time in which two or more kernels ran at once on a device, or on several together. Times in ns.

    Attributes:
        most: the most that ran at once; 0 where no two did.
        two: time with exactly two.
        more: time with three or more.
        extra: what kernels ran beyond the first of them, summed.
    """

    most: int = 0
    two: int = 0
    more: int = 0
    extra: int = 0


@skill(
    title="Stream concurrency",
    when="To see whether the streams of a GPU run together or one after the other.",
    row=StreamConcurrencyRow,
    totals=StreamConcurrencyTotals,
    needs=("kernels",),
    next=("kernel_launch_pattern", "overlap_breakdown"),
)
def stream_concurrency(call: Call[NoParams]) -> Result:
    """One row per selected device, an idle one too: kernels_0 + kernels_1 + kernels_2 + kernels_3plus = span.

    Kernels count wherever they come from, collectives and those of other processes on the GPU too. One that ends where
    another starts does not run with it, and one of no length does not run. kernels_0_ms is not idle time: copies and
    sets may run in it (pipeline_bubble_metrics has the idle time). Kernels of one stream overlap only in CUDA graphs
    and by programmatic dependent launch, so that max_concurrent above 1 mostly means several streams. A CUDA graph
    traced as a whole counts as one kernel, which is the least that ran in it.
    """
    holes = hidden_in_busy(call)
    busy, overlaps, streams = busy_of_devices(call), _overlaps(call), _streams(call)
    copies = any(call.profile.recorded(kind) for kind in ("copies", "sets"))
    rows = [
        (*call.device_of(gpu), *_figures(of, overlaps.get(gpu, _Overlaps()), streams.get(gpu, 0), copies))
        for gpu, of in busy.items()
    ]
    together = _Overlaps(
        max((of.most for of in overlaps.values()), default=0),
        *(sum(getattr(of, name) for of in overlaps.values()) for name in ("two", "more", "extra")),
    )
    unknown = [] if copies else ["copies and sets were not recorded: compute_with_copy_ms is unknown"]
    whole = _figures(busy_together(busy), together, sum(streams.values()), copies)
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals=dict(zip(StreamConcurrencyTotals.model_fields, (len(rows), *whole), strict=True)),
        notes=[*holes, *basis_notes(call), *unknown],
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


def _figures(busy: Busy, overlaps: _Overlaps, streams: int, copies: bool) -> tuple[object, ...]:
    return (
        streams,
        max(overlaps.most, 1 if busy.kernel else 0),
        busy.span - busy.kernel,
        busy.kernel - overlaps.two - overlaps.more,
        overlaps.two,
        overlaps.more,
        ratio(busy.kernel + overlaps.extra, busy.kernel),
        busy.compute_copy if copies else None,
    )


def _overlaps(call: Call[NoParams]) -> dict[int, _Overlaps]:
    """The devices on which two or more kernels ran at once in the window, by `gpu`."""
    rows = call.sql(
        f"""SELECT gpu, max(depth), sum(time) FILTER (depth = 2), sum(time) FILTER (depth > 2), sum(time * (depth - 1))
        FROM (SELECT gpu, depth, {call.clipped} AS time FROM kernel_overlaps WHERE {call.on_devices} AND {_runs(call)})
        GROUP BY gpu"""
    )
    return {gpu: _Overlaps(most, int(two or 0), int(more or 0), int(extra)) for gpu, most, two, more, extra in rows}


def _streams(call: Call[NoParams]) -> dict[int, int]:
    """How many streams have work of some length in the window, by `gpu`."""
    rows = call.sql(
        f"SELECT gpu, count(DISTINCT stream) FROM stream_busy WHERE {call.on_devices} AND {_runs(call)} GROUP BY gpu"
    )
    return dict(rows)


def _runs(call: Call[NoParams]) -> str:
    """SQL condition: an interval that has a length has some of it in the window."""
    return f'start < {call.window.end_ns} AND "end" > {call.window.start_ns}'
