"""Allocation and garbage collection while the program runs."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..measures.api_names import apis_of
from ..measures.idle_notes import idle_holes, idle_notes
from ..measures.processes import of_processes, process_notes
from ..registry import NoParams, skill
from ..result import AbstentionError, Result
from ..thresholds.bottlenecks import ALLOCATION, ALLOCATIONS, GC_RANGES, MAPPING, POOL


class GcImpactRow(Row):
    """One API name, or one name of NVTX ranges, over all threads."""

    what: Text = column("name of the runtime or driver call, or `NVTX range NAME`")
    count: Count = column("calls or ranges that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads")
    max_ms: Ms = column("longest whole call or range")
    idle_ms: Ms | None = column(
        "time in which a device idles while a process that uses it is in such a call or range: union over them, sum "
        "over devices; null where no device is known to be used"
    )


class GcImpactTotals(Row):
    """All these calls and ranges in scope. Times of a kind are unions per process, summed over processes."""

    names: Count = column("different API names and range names")
    count: Count = column("calls and ranges that overlap the window; one within another counts too")
    total_ms: Ms = column("sum over rows; a call within another counts twice")
    busy_ms: Ms = column("time in which a process is in any of them: union per process, sum over processes")
    alloc_ms: Ms | None = column("the same of allocation and release outside pools; null where calls were not recorded")
    pool_ms: Ms | None = column("the same of stream-ordered allocation and of pools")
    mapping_ms: Ms | None = column("the same of virtual memory management")
    gc_ms: Ms | None = column("the same of NVTX ranges named gc; null where ranges were not recorded")
    max_ms: Ms | None = column("longest whole call or range; null without any")
    idle_ms: Ms | None = column("time in which a device idles meanwhile: union over all rows, sum over devices")
    clipped: Count = column("calls and ranges that cross an edge of the window")


_RANGES = ("nvtx_ranges", "nvtx_spans")
"""The tables of both styles of NVTX range."""


@skill(
    title="Allocation and garbage collection",
    when="To see whether memory allocation or garbage collection stalls the program.",
    row=GcImpactRow,
    totals=GcImpactTotals,
    window="capture",
    one_of=("calls",),
    next=("gpu_idle_gaps", "cuda_api_summary"),
)
def gc_impact(call: Call[NoParams]) -> Result:
    """One row per API name and per name of garbage collection ranges, by total time.

    Calls are allocation and release of device and pinned host memory; stream-ordered forms from pools (…Async, …Pool…),
    which do not wait for the device, and virtual memory management (cuMemCreate, cuMemMap, …, as expandable segments
    use it) have names of their own. cudaFree and cudaMalloc may wait for the device, and the first such call of a
    process may create its context: a single long one at the start is no impact. Memory that a framework's cache hands
    out makes no call. NVTX ranges are garbage collection by their name alone: gc, GC, python gc, as the first word.
    idle_ms says that both happened at once, not that one caused the other; rows may share it, and over several devices
    it is a sum. A driver call within a runtime call has its own row and counts in both; the times of totals but for
    total_ms count each instant once per process, idle_ms once per device. With device, only processes that use it
    count.
    """
    from ..measures.host_stretches import HostStretches  # numpy, which registering the skill must not load

    calls = call.profile.recorded("calls")
    ranges = any(call.profile.manifest.rows[table] for table in _RANGES)
    found = HostStretches(call, " UNION ALL ".join([_calls(call), *(_ranges(call, table) for table in _RANGES)]))
    rows, whole = found.rows(), found.together()
    if not calls and not rows:
        reason = "CUDA API calls were not recorded in this capture, and no NVTX range is named gc"
        raise AbstentionError(reason, ["calls"], CAPTURE_HINTS["calls"])
    page = rows[call.offset : call.offset + call.max_rows]
    names = call.strings(key // 2 for key, _ in page)
    kinds = apis_of(call, ALLOCATIONS)

    def busy_of(kind: str) -> int | None:
        return found.together([2 * name for name, of in kinds.items() if of == kind]).busy if calls else None

    holes, of_idle = (idle_holes(call), idle_notes(call)) if rows else ([], [])
    if not calls:
        holes.append("CUDA API calls were not recorded: allocation is unknown")
    return Result(
        rows=[(_what(key, names[key // 2]), of.count, of.total, of.longest, of.idle) for key, of in page],
        total_rows=len(rows),
        totals={
            "names": len(rows),
            "count": whole.count,
            "total_ms": whole.total,
            "busy_ms": whole.busy,
            "alloc_ms": busy_of(ALLOCATION),
            "pool_ms": busy_of(POOL),
            "mapping_ms": busy_of(MAPPING),
            "gc_ms": found.together([key for key, _ in rows if key % 2]).busy if ranges else None,
            "max_ms": whole.longest,
            "idle_ms": whole.idle,
            "clipped": whole.clipped,
        },
        notes=[*holes, *process_notes(call), *of_idle, *_range_notes(ranges, [key for key, _ in rows])],
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


# A row's key: twice the string id of its name, and one more for ranges.


def _calls(call: Call[NoParams]) -> str:
    names = ", ".join(map(str, apis_of(call, ALLOCATIONS))) or "NULL"
    return f"""SELECT 2 * name AS key, process, start, "end" FROM calls
        WHERE name IN ({names}) AND {of_processes(call)}"""


def _ranges(call: Call[NoParams], table: str) -> str:
    """The ranges of one style that are named gc; in a domain, after `DOMAIN:`, or bare where the domain has no name."""
    pattern = f"(?:{'|'.join(pattern for pattern, _ in GC_RANGES.rows)})"
    in_domain = f"[^:]+:{pattern}|{pattern}[^:]*$"

    def named(expression: str) -> str:
        return f"name IN (SELECT id FROM strings WHERE regexp_matches(value, '(?i)^(?:{expression})'))"

    return f"""SELECT 2 * name + 1 AS key, process, start, "end" FROM {table}
        JOIN (SELECT thread, process FROM threads) USING (thread)
        WHERE CASE WHEN domain = 0 THEN {named(pattern)} ELSE {named(in_domain)} END AND {of_processes(call)}"""


def _what(key: int, name: str | None) -> str:
    return f"NVTX range {name}" if key % 2 else str(name)


def _range_notes(recorded: bool, keys: Sequence[int]) -> list[str]:
    if not recorded:
        return ["NVTX ranges were not recorded: garbage collection that the program marks cannot be seen"]
    if not any(key % 2 for key in keys):
        return ["no NVTX range in scope is named gc: garbage collection is seen only where the program marks it"]
    return ["garbage collection is told by the names of NVTX ranges"]
