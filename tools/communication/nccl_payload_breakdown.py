"""What NCCL calls move, by their typed NVTX payloads."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Bytes, Count, Text
from ..call import Call
from ..measures.nccl_calls import communicator_text, ranks_text, require_payloads, undecoded
from ..measures.processes import of_threads, process_notes
from ..registry import NoParams, skill
from ..result import Result


class NcclPayloadBreakdownRow(Row):
    """One operation in one communicator."""

    collective: Text = column("operation, by the name of the call: AllReduce, AllGather, ReduceScatter, Send, …")
    communicator: Text | None = column("hash of the communicator; null where the payload does not name it")
    calls: Count = column("calls that overlap the window, of all ranks that were recorded")
    bytes_total: Bytes = column("message sizes of calls that start in the window, summed over ranks")
    bytes_min: Bytes = column("smallest message")
    bytes_med: Bytes = column("median message")
    bytes_max: Bytes = column("largest message")
    peers: Text | None = column("ranks sent to or received from; null where no call has a peer")


class NcclPayloadBreakdownTotals(Row):
    """All calls in scope."""

    calls: Count = column("calls with a message size")
    communicators: Count = column("communicators that they name")
    bytes_total: Bytes = column("message sizes of calls that start in the window")
    clipped: Count = column("calls that cross an edge of the window")


@skill(
    title="NCCL payload breakdown",
    when="To see how large the messages of NCCL calls are, in which communicators, and to which peers.",
    row=NcclPayloadBreakdownRow,
    totals=NcclPayloadBreakdownTotals,
    window="capture",
    one_of=("nccl_calls",),
    next=("nccl_communicator_analysis", "overlap_breakdown"),
)
def nccl_payload_breakdown(call: Call[NoParams]) -> Result:
    """One row per operation and communicator, by bytes. Calls are host calls of NCCL, not kernels.

    A size is what the rank passed to NCCL: the whole buffer of AllReduce and Broadcast, the rank's own part for
    AllGather and ReduceScatter, the part for one peer of AllToAll. bytes_total adds up the ranks that were recorded,
    each with its own call. Bytes count where a call starts; calls, min, med and max are of calls that overlap the
    window. With device, only calls of processes that use it count.
    """
    require_payloads(call)
    found = call.sql(
        f"""SELECT operation, communicator, count(*), count(*) FILTER ({call.crosses}),
            coalesce(sum(bytes) FILTER ({call.starts_in_window}), 0), min(bytes), median(bytes), max(bytes),
            list(DISTINCT peer) FILTER (peer IS NOT NULL)
        FROM nccl_calls WHERE bytes IS NOT NULL AND {call.in_window} AND {of_threads(call)} GROUP BY ALL"""
    )
    rows = sorted((_row(*group) for group in found), key=lambda row: (-row[3], row[0], row[1] or ""))
    holes = undecoded(call)
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={
            "calls": sum(row[2] for row in rows),
            "communicators": len({row[1] for row in rows} - {None}),
            "bytes_total": sum(row[3] for row in rows),
            "clipped": sum(crossing for _, _, _, crossing, *_ in found),
        },
        notes=[*holes, *process_notes(call)],
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


def _row(
    operation: str,
    communicator: int | None,
    calls: int,
    _: int,
    total: int,
    least: int,
    med: float,
    most: int,
    peers: list[int] | None,
) -> tuple[Any, ...]:
    sizes = (int(total), least, Fraction(med), most)
    return (operation, communicator_text(communicator), calls, *sizes, ranks_text(peers or ()))
