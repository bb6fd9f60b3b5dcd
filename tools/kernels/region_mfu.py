"""Model FLOPs utilisation of one region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.units import Count, Id, Ms, Pct, Text, Tflops, ratio
from ..call import Call
from ..capture_hints import CAPTURE_HINTS, KIND_NAMES
from ..gpus.peaks import Precision
from ..measures.gpu_peak import Peak, peak_flops
from ..measures.graphs import whole_graphs
from ..measures.quantities import FlopCount, Rate, in_percent
from ..measures.work import WORK_TABLES
from ..registry import Params, skill
from ..result import AbstentionError, Result

_LISTED = 5
"""How many names a note gives of what there is."""


class RegionMfuParams(Params):
    """Parameters of `region_mfu`."""

    name: str = Field(min_length=1, description="of the region, case-sensitive")
    theoretical_flops: FlopCount = Field(description="FLOPs of one occurrence, over num_gpus")
    source: Literal["nvtx", "kernel"] = Field("nvtx", description="what the region is: a range or a kernel")
    match_mode: Literal["contains", "exact", "startswith"] = Field("contains", description="how name is compared")
    occurrence_index: int = Field(1, ge=1, le=2**31 - 1, description="by start, within a process")
    peak_tflops: Rate | None = Field(None, description="peak of one GPU; default: its datasheet")
    precision: Precision = Field("bf16", description="which datasheet peak")
    num_gpus: int = Field(1, ge=1, le=10**6, description="GPUs that share the FLOPs")


class RegionMfuRow(Row):
    """One occurrence of the region. All times are whole, also where they cross an edge of the window."""

    region: Text = column("name of the range, or label of the kernel")
    occurrence: Count = column("which one, by start, from 1")
    occurrences: Count = column("how many of the process start in the window")
    process: Id | None = column("process id")
    host_ms: Ms | None = column("duration of the range on the host; null of a kernel")
    gpu_ms: Ms | None = column("first start to last end of the GPU work launched in it; null without any")
    busy_ms: Ms = column("time with any of that work running")
    kernels: Count = column("kernels launched in it")
    achieved_tflops: Tflops | None = column("per GPU: theoretical_flops over gpu_ms and num_gpus")
    mfu_pct: Pct | None = column("achieved_tflops; null without a known peak", of="peak_tflops")
    host_achieved_tflops: Tflops | None = column("per GPU: theoretical_flops over host_ms and num_gpus")
    host_mfu_pct: Pct | None = column("host_achieved_tflops; null where unknown or above the peak", of="peak_tflops")
    peak_tflops: Tflops | None = column("dense peak of one GPU")
    peak_source: Text = column("where the peak comes from, with its precision, or why it is not known")
    tid: Id | None = column("thread id of the range; of a kernel that of its launching call")


@dataclass(frozen=True, slots=True)
class _Region:
    """One occurrence, and among how many. Times in ns."""

    label: str
    occurrences: int
    pid: int | None
    tid: int | None
    start: int
    end: int
    host: int | None
    gpu: tuple[int, int] | None
    busy: int
    kernels: int
    gpus: tuple[int, ...]
    graphs: int
    notes: list[str]


@skill(
    title="Region MFU",
    when="To compute the model FLOPs utilisation of an NVTX region or a kernel from its FLOPs.",
    params=RegionMfuParams,
    row=RegionMfuRow,
    needs=("kernels",),
    window="capture",
    one_of=("nvtx",),
    next=("theoretical_flops", "arithmetic_intensity", "tensor_core_usage"),
    example={"name": "forward", "theoretical_flops": "1e12"},
)
def region_mfu(call: Call[RegionMfuParams]) -> Result:
    """One row: one occurrence of a region that starts in the window, in one process.

    GPU work (kernels, copies, sets, whole graphs, on the selected devices) belongs to a push/pop range when its
    thread's API call lies inside; what other threads launch meanwhile, as PyTorch's backward pass is, does not, and a
    note counts it. MFU is against the span of that work (gpu_ms) and against the range itself (host_ms), which says
    little where the host runs ahead. Where several processes match, the lowest with work on the selected devices is
    looked at. The peak is dense. An MFU outside (0, 100] % cannot be: the skill abstains, naming it.
    """
    params = call.params
    region = _range(call) if params.source == "nvtx" else _kernel(call)
    if region is None:
        return Result([], 0, {}, notes=[_what_there_is(call)], status=Status.EMPTY)
    flops = Fraction(params.theoretical_flops) / params.num_gpus
    peak = _peak(call, region)
    gpu = region.gpu[1] - region.gpu[0] if region.gpu else None
    achieved = ratio(flops, gpu)
    mfu = ratio(achieved, peak.rate)
    if mfu is not None and mfu > 1:
        raise AbstentionError(
            f"an MFU of {in_percent(mfu)} % of the peak ({peak.source}) is not possible: {region.label} did not do "
            f"{params.theoretical_flops:f} FLOP on {params.num_gpus} GPU in {gpu} ns",
            ["plausible theoretical_flops"],
            "nothing to record: check theoretical_flops (of one occurrence), num_gpus, precision and peak_tflops",
        )
    on_host = ratio(flops, region.host) if region.gpu else None
    host_mfu = ratio(on_host, peak.rate)
    notes = [*region.notes, *_doubts(call, region, peak)]
    if host_mfu is not None and host_mfu > 1:
        notes.append(f"host_mfu_pct is withheld: {in_percent(host_mfu)} %, since the host did not wait for the GPU")
        on_host = host_mfu = None
    row = (
        region.label,
        params.occurrence_index,
        region.occurrences,
        region.pid,
        region.host,
        gpu,
        region.busy,
        region.kernels,
        achieved,
        mfu,
        on_host,
        host_mfu,
        peak.rate,
        peak.source,
        region.tid,
    )
    partial = region.graphs or not region.gpu or peak.rate is None
    return Result(
        rows=call.page_of([row]), total_rows=1, totals={}, notes=notes, status=Status.PARTIAL if partial else Status.OK
    )


def _matches(params: RegionMfuParams, column_name: str) -> str:
    """SQL condition on a column of names, with one parameter."""
    return {
        "contains": f"contains({column_name}, ?)",
        "exact": f"{column_name} = ?",
        "startswith": f"starts_with({column_name}, ?)",
    }[params.match_mode]


def _process(call: Call[Any], counts: Sequence[tuple[int, int, int]], what: str) -> tuple[int, int, int, list[str]]:
    """The process to look at: number, pid, how many of its occurrences match; and a note where there are others.

    Args:
        call: the call.
        counts: processes with a match, as (process, pid, matches).
        what: what matches, in a word.
    """
    working = {pid for device in call.devices for pid in device.pids}
    process, pid, count = min(counts, key=lambda found: (found[1] not in working, found[1], found[0]))
    notes = []
    if len(counts) > 1:
        notes.append(f"{what} of {len(counts)} processes match: this is process {pid}; device chooses another")
    return process, pid, count, notes


def _in_reach(call: Call[RegionMfuParams], count: int, pid: int) -> int:
    """The rows to pass over for the occurrence asked for."""
    asked = call.params.occurrence_index
    if asked > count:
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"there is no occurrence {asked}: {count} of process {pid} match and start in the window",
            f"give occurrence_index from 1 to {count}",
            argument="occurrence_index",
            occurrences=count,
        )
    return asked - 1


def _range(call: Call[RegionMfuParams]) -> _Region | None:
    """The occurrence asked for of ranges that match; None when none matches."""
    if not call.profile.recorded("nvtx"):
        raise AbstentionError(f"{KIND_NAMES['nvtx']} not recorded in this capture", ["nvtx"], CAPTURE_HINTS["nvtx"])
    params = call.params
    matching = f"""FROM nvtx_ranges JOIN (SELECT thread, process, pid, tid FROM threads) USING (thread)
        WHERE name IN (SELECT id FROM strings WHERE {_matches(params, "value")}) AND {call.starts_in_window}"""
    counts = call.sql(
        f"""SELECT process, any_value(pid), count(*), count(DISTINCT name) {matching} GROUP BY process""", [params.name]
    )
    if not counts:
        return None
    process, pid, count, notes = _process(call, [row[:3] for row in counts], "ranges")
    names = next(row[3] for row in counts if row[0] == process)
    if names > 1:
        notes.append(f"ranges of {names} names match and are counted together: match_mode=exact tells one")
    [(start, end, name, thread, tid)] = call.sql(
        f"""SELECT start, "end", name, thread, tid {matching} AND process = {process}
        ORDER BY start, "end" DESC, thread, name LIMIT 1 OFFSET {_in_reach(call, count, pid)}""",
        [params.name],
    )
    inside = f"{call.on_devices} AND call_start >= {start} AND call_end <= {end}"
    parts = " UNION ALL ".join(
        f"""SELECT '{table}' AS kind, gpu, start, "end" FROM {table} WHERE thread = {thread} AND {inside}"""
        for table in WORK_TABLES
    )
    # Each adds what it outlasts of everything that started before it.
    [(first, last, busy, kernels, graphs, gpus)] = call.sql(
        f"""SELECT min(start), max("end"), sum(greatest(0, "end" - greatest(start, coalesce(reached, start)))),
            count(*) FILTER (kind = 'kernels'), count(*) FILTER (kind = 'graphs'), list(DISTINCT gpu)
        FROM (SELECT *, max("end") OVER (ORDER BY start, "end" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS reached FROM ({parts}))"""
    )
    [(elsewhere,)] = call.sql(
        f"SELECT count(*) FROM kernels WHERE process = {process} AND thread <> {thread} AND {inside}"
    )
    if elsewhere:
        notes.append(f"{elsewhere} kernels that other threads of the process launched meanwhile are not counted")
    if graphs:
        notes.append(whole_graphs(graphs, ": their time counts, their kernels are hidden"))
    return _Region(
        label=call.strings([name])[name] or "",
        occurrences=count,
        pid=pid,
        tid=tid,
        start=start,
        end=end,
        host=end - start,
        gpu=None if first is None else (first, last),
        busy=int(busy or 0),
        kernels=kernels,
        gpus=tuple(sorted(gpus or ())),
        graphs=graphs,
        notes=notes,
    )


def _kernel(call: Call[RegionMfuParams]) -> _Region | None:
    """The occurrence asked for of kernels that match, by demangled name or label; None when none matches."""
    from .kernel_instances import TIES

    params = call.params
    either = f"{_matches(params, 'demangled')} OR {_matches(params, 'label')}"
    matching = f"""FROM kernels WHERE name IN (SELECT name FROM kernel_names WHERE {either})
        AND {call.on_devices} AND {call.starts_in_window}"""
    given = [params.name, params.name]
    counts = call.sql(
        f"""SELECT process, pid, found, names FROM processes JOIN (
            SELECT process, count(*) AS found, count(DISTINCT name) AS names {matching} GROUP BY process
        ) USING (process)""",
        given,
    )
    if not counts:
        return None
    process, pid, count, notes = _process(call, [row[:3] for row in counts], "kernels")
    names = next(row[3] for row in counts if row[0] == process)
    if names > 1:
        notes.append(f"kernels of {names} names match and are counted together: match_mode=exact tells one")
    [(start, end, name, gpu, thread)] = call.sql(
        f"""SELECT start, "end", name, gpu, thread {matching} AND process = {process}
        ORDER BY start, "end", {TIES} LIMIT 1 OFFSET {_in_reach(call, count, pid)}""",
        given,
    )
    tids = [] if thread is None else call.sql(f"SELECT tid FROM threads WHERE thread = {thread}")
    return _Region(
        label=call.kernel_labels([name])[name][0],
        occurrences=count,
        pid=pid,
        tid=tids[0][0] if tids else None,
        start=start,
        end=end,
        host=None,
        gpu=(start, end),
        busy=end - start,
        kernels=1,
        gpus=(gpu,),
        graphs=0,
        notes=notes,
    )


def _peak(call: Call[RegionMfuParams], region: _Region) -> Peak:
    """The peak of the GPUs that the region ran on; of all selected ones where it ran on none."""
    devices = [device for device in call.devices if not region.gpus or device.gpu in region.gpus]
    peaks = {peak_flops(device, call.params.precision, call.params.peak_tflops) for device in devices}
    if len(peaks) == 1:
        return peaks.pop()
    return Peak(None, "the region ran on GPUs with different peaks" if peaks else "no device with GPU work")


def _doubts(call: Call[RegionMfuParams], region: _Region, peak: Peak) -> list[str]:
    """What a reader should know before using the figures."""
    notes = []
    if not region.gpu:
        notes.append("no recorded GPU work was launched in it on the selected devices")
    elif len(region.gpus) > call.params.num_gpus:
        notes.append(f"its work ran on {len(region.gpus)} devices, and num_gpus is {call.params.num_gpus}")
    if peak.rate is None:
        notes.append(f"no peak: {peak.source}; give peak_tflops for an MFU")
    if max(region.end, region.gpu[1] if region.gpu else 0) > call.window.end_ns:
        notes.append("it reaches beyond the window: its figures are whole")
    return notes


def _what_there_is(call: Call[RegionMfuParams]) -> str:
    """A note for a name that nothing has: the most frequent names there are."""
    params = call.params
    what = "range" if params.source == "nvtx" else "kernel"
    table, on_devices = ("nvtx_ranges", "true") if params.source == "nvtx" else ("kernels", call.on_devices)
    rows = call.sql(
        f"""SELECT name FROM {table} WHERE {call.starts_in_window} AND {on_devices}
        GROUP BY name ORDER BY count(*) DESC, name LIMIT {_LISTED}"""
    )
    if params.source == "nvtx":
        names = [text or "" for text in map(call.strings([name for (name,) in rows]).get, (name for (name,) in rows))]
    else:
        labels = call.kernel_labels(name for (name,) in rows)
        names = [labels[name][0] for (name,) in rows]
    listed = ", ".join(repr(name) for name in names) or "none"
    word = {"contains": "contains", "exact": "is", "startswith": "starts with"}[params.match_mode]
    return f"no {what} that starts in the window {word} {params.name!r}; most frequent there: {listed}"
