"""Which NVTX ranges take the host's time."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text, Us
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..measures.by_name import by_name, figures
from ..measures.processes import of_threads, process_notes
from ..registry import NoParams, skill
from ..result import AbstentionError, Result


class NvtxSummaryRow(Row):
    """One range name of one style, over all threads."""

    range: Text = column("name of the range; DOMAIN:name in a named domain")
    style: Text = column("PushPop: nests on its thread; StartEnd: may cross others and end on another thread")
    instances: Count = column("ranges that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window; ranges within ranges count in both")
    avg_us: Us = column("mean duration of whole ranges")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    stddev_us: Us | None = column("sample standard deviation of durations; null for a single range")


class NvtxSummaryTotals(Row):
    """All ranges in scope."""

    ranges: Count = column("different names and styles")
    instances: Count = column("ranges")
    total_ms: Ms = column("sum of durations, clipped to the window; ranges within ranges count in both")
    clipped: Count = column("ranges that cross an edge of the window")


STYLES = ("PushPop", "StartEnd")
"""The styles of ranges, as nsys stats calls them."""

_TABLES = ("nvtx_ranges", "nvtx_spans")
"""The table of each style."""


@skill(
    title="NVTX summary",
    when="To see which parts of the program, named by NVTX ranges, take the host's time.",
    row=NvtxSummaryRow,
    totals=NvtxSummaryTotals,
    window="capture",
    one_of=("nvtx", "nvtx_spans"),
    next=("nvtx_kernel_map",),
)
def nvtx_summary(call: Call[NoParams]) -> Result:
    """One row per name and style, by total time, as nvtx_sum of nsys stats has it (its PushPop rows: nvtx_pushpop_sum).

    Times are of the host, from push to pop or start to end, and include ranges within: total_ms does not add up over
    rows, and may exceed the window. Work that a range puts on the GPU runs later: nvtx_kernel_map has its time. Ranges
    of one name are one row whatever their thread and process. Marks have no duration and are left out, and so are
    ranges that never ended, which nsys stats counts up to the last NVTX event. Times are clipped to the window; avg,
    med, min, max and stddev are of whole ranges. stddev is the sample's, null for a single range, where nsys stats
    shows 0. With device, only ranges of threads of processes that use it count; a range that ends on another thread is
    that of the thread that started it.
    """
    manifest = call.profile.manifest
    recorded = [style for style, table in enumerate(_TABLES) if manifest.rows[table]]
    if not recorded:
        beside = f"; it has {manifest.marks} marks and {manifest.unclosed_ranges} ranges that never ended"
        found_instead = beside if manifest.marks or manifest.unclosed_ranges else ""
        reason = f"NVTX ranges not recorded in this capture{found_instead}"
        raise AbstentionError(reason, ["nvtx"], CAPTURE_HINTS["nvtx"])
    found = by_name(
        call,
        " UNION ALL ".join(
            f'SELECT name * {len(STYLES)} + {style} AS key, start, "end" FROM {_TABLES[style]} WHERE {of_threads(call)}'
            for style in recorded
        ),
    )
    names = call.strings(named.key // len(STYLES) for named in found.page)
    rows = [
        (names[named.key // len(STYLES)], STYLES[named.key % len(STYLES)], named.of.count, *figures(named.of))
        for named in found.page
    ]
    return Result(
        rows=rows,
        total_rows=found.names,
        totals={"ranges": found.names, "instances": found.events, "total_ms": found.total, "clipped": found.clipped},
        notes=[*process_notes(call), *_unclosed(call)],
        status=Status.OK if found.names else Status.EMPTY,
    )


def _unclosed(call: Call[NoParams]) -> list[str]:
    """A note on the ranges of the capture that have no duration, because they never ended."""
    unclosed = call.profile.manifest.unclosed_ranges
    return [f"{unclosed} ranges of the capture never ended and are left out"] if unclosed else []
