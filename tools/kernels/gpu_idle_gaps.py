"""When the device does nothing, and what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Ns, Pct, Text, Us, ratio
from ..call import Call
from ..measures.busy import basis_notes, work_holes
from ..measures.gaps import device_gaps_sql, stream_gaps_sql
from ..measures.lookups import lookup
from ..registry import Params, skill
from ..result import Result, Table
from .work_at import Border, WorkAt, work_at

if TYPE_CHECKING:
    from ..measures.host_during import HostActivity


class GpuIdleGapsParams(Params):
    """Parameters of `gpu_idle_gaps`."""

    min_gap_ns: int = Field(1_000_000, ge=0, le=2**62, description="only list gaps of at least this length, ns")
    level: Literal["device", "stream"] = Field("device", description="gaps of whole devices, or of each stream")


class GpuIdleGapsRow(Row):
    """One gap, cut at the window's edges."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    stream: Text | None = column(
        "with level=stream the stream id, or context:stream where a stream id occurs in several contexts"
    )
    start_ns: Ns = column("start on the capture clock")
    gap_us: Us = column("length")
    before: Text | None = column("work that ends where the gap starts; null at the window's edge")
    after: Text | None = column("work that starts where the gap ends; null at the window's edge")
    host: Text | None = column(
        "what covers most of the gap on the threads that launch work for the device: sync, alloc, module_load, "
        "copy_call, launch, other_cuda or no_cuda_call; null where calls were not recorded"
    )
    host_call: Text | None = column("the API call of that class that overlaps the gap longest")
    nvtx: Text | None = column("innermost NVTX range open at mid-gap on the thread that launched `after`")


class GpuIdleGapsTotals(Row):
    """All gaps in scope. With level=stream nothing is added up over streams."""

    gaps: Count = column("gaps of at least min_gap_ns")
    idle_ms: Ms | None = column("all idle time, also below min_gap_ns, summed over devices; null with level=stream")
    listed_ms: Ms | None = column("the part of it in gaps of at least min_gap_ns; null with level=stream")
    idle_pct: Pct | None = column("idle time; null with level=stream", of="span times devices")


class IdleHistogramRow(Row):
    """The gaps of one range of lengths, also those below min_gap_ns."""

    length: Text = column("length of the gaps; the lower edge belongs to it")
    gaps: Count = column("gaps of this length")
    idle_ms: Ms | None = column("their sum, over devices; null with level=stream")


EDGES_NS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
"""Edges of the histogram of gap lengths."""

_LENGTHS = ("under 10 µs", "10 to 100 µs", "100 µs to 1 ms", "1 to 10 ms", "10 to 100 ms", "100 ms and more")


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap; `stream` is None for a gap of the whole device."""

    gpu: int
    stream: int | None
    start: int
    end: int

    @property
    def middle(self) -> int:
        """The instant in its middle, rounded down."""
        return (self.start + self.end) // 2


@skill(
    title="GPU idle gaps",
    when="To see when a GPU does nothing, for how long, and what the host did meanwhile.",
    params=GpuIdleGapsParams,
    row=GpuIdleGapsRow,
    totals=GpuIdleGapsTotals,
    tables={"histogram": IdleHistogramRow},
    one_of=("kernels", "graphs", "copies", "sets"),
    next=("pipeline_bubble_metrics", "nvtx_kernel_map"),
)
def gpu_idle_gaps(call: Call[GpuIdleGapsParams]) -> Result:
    """One row per gap, longest first.

    A gap of a device has no kernel, graph, copy or set on any stream. Gaps are cut at the edges of the window, and idle
    time there is idle time. With level=stream a gap is one of a single stream, whose device may be busy meanwhile: such
    gaps are never added up over streams.

    host is the class of CUDA API calls whose union, over the threads that launched any work of the device, covers most
    of the gap; no_cuda_call is the part without any. Of equal ones the first in the order of the column's description
    is shown. It says where the host was, not what caused the gap. nvtx is null where the launch of `after` is not known
    or no range was open.
    """
    holes = work_holes(call)
    whole = call.params.level == "device"
    gaps = device_gaps_sql(call) if whole else stream_gaps_sql(call)
    histogram, totals, listed = _measured(call, gaps)
    rows, names, notes = _rows(call, listed)
    if not whole:
        notes.append("gaps of streams: the device may be busy meanwhile, and they are not added up over streams")
    found = totals["gaps"]
    if not found and totals["idle_ms"]:
        notes.append(f"no gap lasts {call.params.min_gap_ns} ns: all idle time is in shorter ones, see the histogram")
    return Result(
        rows=rows,
        total_rows=found,
        totals=totals,
        tables={"histogram": Table(histogram, len(histogram))},
        notes=[*holes, *basis_notes(call), *notes],
        status=Status.PARTIAL if holes else Status.OK if found else Status.EMPTY,
        names=names,
    )


def _measured(call: Call[GpuIdleGapsParams], gaps: str) -> tuple[list[tuple[object, ...]], dict[str, Any], list[Gap]]:
    """The rows of the histogram, the totals, and the gaps of the page, from one reading of the gaps."""
    from ..measures.gap_lengths import gap_lengths  # numpy, which registering the skill must not load

    found, least = gap_lengths(call, gaps), call.params.min_gap_ns
    whole = call.params.level == "device"  # nothing is added up over streams
    buckets = found.histogram(EDGES_NS)
    rows: list[tuple[object, ...]] = [
        (words, count, length if whole else None) for words, (count, length) in zip(_LENGTHS, buckets, strict=True)
    ]
    idle, (count, listed) = sum(length for _, length in buckets), found.at_least(least)
    totals = {
        "gaps": count,
        "idle_ms": idle if whole else None,
        "listed_ms": listed if whole else None,
        "idle_pct": ratio(idle, call.window.span_ns * len(call.devices)) if whole else None,
    }
    return rows, totals, [Gap(*values) for values in found.longest(least, call.offset, call.max_rows)]


def _rows(
    call: Call[GpuIdleGapsParams], gaps: Sequence[Gap]
) -> tuple[list[tuple[object, ...]], dict[str, str], list[str]]:
    """The rows of these gaps, the full names of the kernels in them, and notes."""
    window = call.window
    starts = {gap: Border(gap.gpu, gap.stream, gap.start) for gap in gaps if gap.start > window.start_ns}
    ends = {gap: Border(gap.gpu, gap.stream, gap.end) for gap in gaps if gap.end < window.end_ns}
    ended, started = work_at(call, list(starts.values()), list(ends.values()))
    before = {gap: ended[border] for gap, border in starts.items() if border in ended}
    after = {gap: started[border] for gap, border in ends.items() if border in started}
    streams = lookup(call, "streams", "stream", "label", (gap.stream for gap in gaps))
    host, notes = _host(call, gaps)
    nvtx = _nvtx(call, after)
    calls = call.strings(activity.call_name for activity in host.values())
    rows: list[tuple[object, ...]] = []
    for gap in gaps:
        doing = host.get(gap)
        rows.append(
            (
                *call.device_of(gap.gpu),
                streams.get(gap.stream),
                gap.start,
                gap.end - gap.start,
                before[gap].label if gap in before else None,
                after[gap].label if gap in after else None,
                doing and doing.host,
                doing and calls[doing.call_name],
                nvtx.get(gap),
            )
        )
    names = {work.label: work.kernel for work in (*before.values(), *after.values()) if work.kernel is not None}
    return rows, names, notes


def _host(call: Call[Any], gaps: Sequence[Gap]) -> tuple[dict[Gap, HostActivity], list[str]]:
    """What the host did in each gap, where it is known, and notes where it is not."""
    from ..measures.host_during import activities  # numpy, which registering the skill must not load

    if not call.profile.recorded("calls"):
        return {}, ["CUDA API calls were not recorded: what the host did in a gap is unknown"]
    found = activities(call, [(gap.gpu, gap.start, gap.end) for gap in gaps])
    known = {gap: activity for gap, activity in zip(gaps, found, strict=True) if activity is not None}
    if len(known) == len(gaps):
        return known, []
    return known, ["which thread launches the work of a device is not known where host is null"]


def _nvtx(call: Call[Any], after: Mapping[Gap, WorkAt]) -> dict[Gap, str | None]:
    """The innermost range open at mid-gap on the thread that launched what follows, where there is one."""
    from ..measures.open_ranges import innermost_open  # numpy, which registering the skill must not load

    instants = {gap: (work.thread, gap.middle) for gap, work in after.items() if work.thread is not None}
    if not call.profile.recorded("nvtx") or not instants:
        return {}
    ranges = innermost_open(call, instants.values())
    texts = call.strings(ranges.values())
    return {gap: texts[ranges[instant]] for gap, instant in instants.items() if instant in ranges}
