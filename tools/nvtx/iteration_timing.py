"""The repeating steps of a capture and how long each takes."""

from __future__ import annotations

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Change, Count, Factor, Id, Ms, S, Text, ratio
from ..call import Call
from ..measures.busy import basis_notes
from ..measures.graphs import hidden_in_busy
from ..measures.iterations import iterations_to_time
from ..registry import Params, skill
from ..result import Result


class IterationTimingParams(Params):
    """Parameters of `iteration_timing`."""

    marker: str | None = Field(None, min_length=1, description="NVTX range name that bounds a step")


class IterationTimingRow(Row):
    """One iteration."""

    iteration: Id = column("zero-based number, as the scope parameter iteration takes it")
    start_s: S = column("where it begins, on the capture clock")
    wall_ms: Ms = column("how long it lasts")
    busy_ms: Ms | None = column("time with any GPU work, summed over devices")
    compute_ms: Ms | None = column("time with a kernel that is no collective, summed over devices")
    comm_ms: Ms | None = column("time with a collective, by kernel name, summed over devices")
    idle_ms: Ms | None = column("time without GPU work, summed over devices")
    kernels: Count | None = column("kernels that overlap it")
    vs_median_pct: Change | None = column("wall time against the median, 0 for equal", of="median_ms")


class IterationTimingTotals(Row):
    """All iterations that start in the window."""

    count: Count = column("iterations")
    median_ms: Ms | None = column("median wall time")
    p95_ms: Ms | None = column("95th percentile of wall time")
    cv: Factor | None = column("sample standard deviation over mean of wall time")
    slowest: Id | None = column("the longest iteration, of equal ones the first")
    source: Text = column("nvtx or kernel sequence")
    marker: Text = column("the ranges' name, or which kernels repeat")


@skill(
    title="Iteration timing",
    when="To see the repeating steps, how long each takes and which one is slow.",
    params=IterationTimingParams,
    row=IterationTimingRow,
    totals=IterationTimingTotals,
    window="capture",
    scope=("device", "trim"),
    next=("iteration_detail", "nvtx_layer_breakdown"),
)
def iteration_timing(call: Call[IterationTimingParams]) -> Result:
    """One row per iteration that starts in the window, in order; each is looked at whole.

    A marker is the name of an NVTX push/pop range, numbers at its end cut, with three or more instances on one thread
    that do not overlap; of several, the one with most GPU time, then the outermost, then by name. Unasked, ranges of
    libraries (aten::…, NCCL:…) bound no steps, nor do ranges with less than 60 % of the GPU time that their thread
    launches meanwhile. Where there is no marker, the same sequence of three or more kernels that repeats three times or
    more on the busiest stream bounds them, and a note says so. A range's iteration is stretched to the end of the GPU
    work that it launched, so neighbours may overlap. Other devices and threads may run at their own pace: times are of
    these windows, whoever works in them.
    """
    from ..measures.iteration_times import iteration_times  # numpy, which registering the skill must not load

    iterations = iterations_to_time(call, call.params.marker)
    times = iteration_times(call, iterations)
    median = times.median
    shown = slice(call.offset, call.offset + call.max_rows)
    parts = [
        [None] * len(times.wall[shown]) if values is None else values[shown].tolist()
        for values in (times.busy, times.compute, times.comm, times.idle, times.kernels)
    ]
    rows = [
        (number, start, wall, *rest, ratio(wall - median, median) if median is not None else None)
        for number, start, wall, *rest in zip(
            times.number[shown].tolist(), times.start[shown].tolist(), times.wall[shown].tolist(), *parts, strict=True
        )
    ]
    holes = hidden_in_busy(call)
    return Result(
        rows=rows,
        total_rows=len(times.number),
        totals={
            "count": len(times.number),
            "median_ms": median,
            "p95_ms": times.p95,
            "cv": times.variation,
            "slowest": times.slowest,
            "source": iterations.source,
            "marker": iterations.name,
        },
        notes=[iterations.basis, *holes, *basis_notes(call)],
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )
