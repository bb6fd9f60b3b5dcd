"""Which ranges own the synchronisation."""

from __future__ import annotations

from pydantic import Field, field_validator

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text
from ..call import Call
from ..measures.processes import process_notes
from ..registry import Params, skill
from ..result import Result
from ..thresholds.nvtx import SYNC_PATTERNS
from .path_texts import NO_RANGE


class HostSyncParentRangesParams(Params):
    """Parameters of `host_sync_parent_ranges`."""

    patterns: str = Field(
        ",".join(pattern for pattern, _ in SYNC_PATTERNS.rows),
        max_length=1_000,
        description="words in range or API names that mean waiting, by comma",
    )

    @field_validator("patterns")
    @classmethod
    def _some(cls, value: str) -> str:
        if not _words(value):
            raise ValueError("there is no pattern in it")
        return ",".join(_words(value))


class HostSyncParentRangesRow(Row):
    """One range name that has synchronisation in it."""

    range: Text = column("the nearest range around the synchronisation, counters cut; (no range) for none")
    syncs: Count = column("matching ranges and API calls that overlap the window; one within another is not counted")
    sync_ms: Ms = column("sum of their durations on the host, clipped to the window, over threads")
    top_child: Text = column("the match with most of that time")


class HostSyncParentRangesTotals(Row):
    """All synchronisation in scope."""

    ranges: Count = column("rows")
    syncs: Count = column("matching ranges and API calls, one within another not counted")
    sync_ms: Ms = column("sum of their durations, clipped to the window, over threads: may exceed it")
    clipped: Count = column("those that cross an edge of the window")


@skill(
    title="Ranges that synchronise",
    when="To see which parts of the program make the host wait for the GPU.",
    params=HostSyncParentRangesParams,
    row=HostSyncParentRangesRow,
    totals=HostSyncParentRangesTotals,
    needs=("nvtx",),
    window="capture",
    max_rows=5,
    next=("cuda_api_summary", "gpu_idle_gaps"),
)
def host_sync_parent_ranges(call: Call[HostSyncParentRangesParams]) -> Result:
    """One row per range name, by time in synchronisation.

    A match is an NVTX push/pop range or a CUDA API call whose name has one of the patterns as a whole word in its last
    part, after ::, PyTorch's counters cut: item matches aten::item, and not itemsize. A pattern with :: in it is looked
    for in as many parts. Of matches within each other on a thread (aten::item, _local_scalar_dense, the API call) only
    the outermost counts, wherever the window lies, so each wait counts once. The row is that of the nearest range, of
    any domain, that contains it. Times are of the host and include what else a matching range does; they are clipped
    to the window. With device, only threads of processes that use it count.
    """
    from ..measures.sync_owners import sync_owners  # numpy, which registering the skill must not load

    found = sync_owners(call, call.params.patterns.split(","))
    holes = []
    if not call.profile.recorded("calls"):
        holes.append("CUDA API calls were not recorded: synchronisation outside matching ranges is missing")
    shown = found.rows[call.offset : call.offset + call.max_rows]
    return Result(
        rows=[(NO_RANGE if row.range is None else row.range, row.syncs, row.time, row.child) for row in shown],
        total_rows=len(found.rows),
        totals={
            "ranges": len(found.rows),
            "syncs": sum(row.syncs for row in found.rows),
            "sync_ms": sum(row.time for row in found.rows),
            "clipped": found.clipped,
        },
        notes=[*holes, *process_notes(call)],
        status=Status.PARTIAL if holes else Status.OK if found.rows else Status.EMPTY,
    )


def _words(patterns: str) -> list[str]:
    return [word for part in patterns.split(",") if (word := part.strip())]
