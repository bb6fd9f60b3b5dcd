"""Sizes, time and bandwidth of NCCL calls, by communicator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Bytes, Count, GbPerS, Ms, Text, ratio
from ..call import Call
from ..measures.nccl_calls import communicator_text, require_payloads, undecoded
from ..measures.processes import of_threads, process_notes
from ..registry import NoParams, skill
from ..result import Result
from .bandwidth import bus_factor, moved_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]


class NcclCommunicatorAnalysisRow(Row):
    """One operation in one communicator."""

    communicator: Text | None = column("hash of the communicator; null where the payload does not name it")
    collective: Text = column("operation, by the name of the call")
    ranks: Count | None = column("ranks of the communicator; null where its creation was not recorded")
    calls: Count = column("calls that overlap the window, of all ranks that were recorded")
    bytes: Bytes = column("message sizes of calls that start in the window, summed over ranks")
    time_ms: Ms | None = column(
        "kernel time of the collectives that the calls launched, clipped to the window; null where none is known"
    )
    algbw_gb_per_s: GbPerS | None = column("algorithm bandwidth as nccl-tests defines it; null without time or ranks")
    busbw_gb_per_s: GbPerS | None = column("bus bandwidth as nccl-tests defines it; null without time or ranks")


class NcclCommunicatorAnalysisTotals(Row):
    """All calls in scope."""

    communicators: Count = column("communicators that the calls name")
    calls: Count = column("calls with a message size")
    bytes: Bytes = column("message sizes of calls that start in the window")
    time_ms: Ms | None = column("kernel time of their collectives, over devices; null where none is known")
    calls_without_kernel: Count = column("calls that start in the window and launched no collective that is known")


@dataclass(frozen=True, slots=True)
class _Group:
    """The calls of an operation in a communicator. Times in ns.

    Attributes:
        operation: what they do.
        communicator: the hash of the communicator.
        ranks: how many ranks it has; None where that is not known.
        calls: calls that overlap the window.
        size: bytes of calls that start in the window.
        time: kernel time, clipped to the window; None where no kernel of theirs is known.
        timed_size, whole: bytes and whole kernel time of calls that start in the window and whose kernels are known.
        timeless: calls that start in the window and have none.
    """

    operation: str
    communicator: int | None
    ranks: int | None
    calls: int
    size: int
    time: int | None
    timed_size: int
    whole: int
    timeless: int

    @property
    def key(self) -> tuple[int, str, str]:
        """The order of rows: by kernel time, then communicator, then operation."""
        return (-(self.time or 0), communicator_text(self.communicator) or "", self.operation)

    @property
    def bandwidths(self) -> tuple[Fraction | None, Fraction | None]:
        """Algorithm and bus bandwidth, bytes per ns."""
        algorithm = ratio(moved_bytes(self.operation, self.timed_size, self.ranks), self.whole)
        factor = bus_factor(self.operation, self.ranks)
        return algorithm, None if algorithm is None or factor is None else algorithm * factor


@skill(
    title="NCCL communicator analysis",
    when="To see which bandwidth NCCL reaches, by communicator and collective.",
    row=NcclCommunicatorAnalysisRow,
    totals=NcclCommunicatorAnalysisTotals,
    window="capture",
    one_of=("nccl_calls",),
    next=("nccl_payload_breakdown", "overlap_breakdown"),
)
def nccl_communicator_analysis(call: Call[NoParams]) -> Result:
    """One row per communicator and operation, by kernel time.

    Bandwidths are those of nccl-tests (GetBw of each test): algbw = S/time and busbw = algbw·factor, with n ranks and
    the bytes that the call names (of one rank, or for one peer):
    AllReduce: S = bytes, factor 2(n-1)/n;
    AllGather, ReduceScatter, AllToAll, Gather, Scatter: S = bytes·n, factor (n-1)/n;
    Broadcast, Reduce, Send, Recv and all others: S = bytes, factor 1.
    The time is that of the collective kernels (by name) that were launched inside the call's range, so a call in a
    group, which ncclGroupEnd launches, has none. It includes waiting for peers: a low bandwidth may be a late rank.
    Bandwidths are of whole calls that start in the window; time_ms is clipped to it and adds up ranks. With device,
    kernels of the device and calls of its processes count.
    """
    require_payloads(call)
    groups = sorted(_groups(call), key=lambda group: group.key)
    holes = undecoded(call)
    timeless = sum(group.timeless for group in groups)
    if timeless:
        holes.append(f"{timeless} calls launched no collective inside their range that is known: they have no time")
    unknown = len({group.communicator for group in groups if group.ranks is None})
    if unknown:
        holes.append(f"the ranks of {unknown} communicators are not known: their creation was not recorded")
    times = [group.time for group in groups if group.time is not None]
    return Result(
        rows=[_row(group) for group in groups[call.offset : call.offset + call.max_rows]],
        total_rows=len(groups),
        totals={
            "communicators": len({group.communicator for group in groups} - {None}),
            "calls": sum(group.calls for group in groups),
            "bytes": sum(group.size for group in groups),
            "time_ms": sum(times) if times else None,
            "calls_without_kernel": timeless,
        },
        notes=[*holes, *process_notes(call)],
        status=Status.PARTIAL if holes else Status.OK if groups else Status.EMPTY,
    )


def _row(group: _Group) -> tuple[object, ...]:
    named = (communicator_text(group.communicator), group.operation, group.ranks)
    return (*named, group.calls, group.size, group.time, *group.bandwidths)


def _groups(call: Call[NoParams]) -> list[_Group]:
    """The operations of communicators that have a call or a kernel in the window."""
    import numpy as np

    from ..measures.nccl_kernels import calls_of_kernels

    source = f"FROM nccl_calls WHERE bytes IS NOT NULL AND {of_threads(call)}"
    numbered = "dense_rank() OVER (ORDER BY operation, communicator) - 1"
    names = call.sql(f"SELECT DISTINCT {numbered}, operation, communicator {source} ORDER BY 1")
    calls = call.arrays(
        f"""SELECT range, bytes, {numbered} AS part, {call.in_window} AS inside, {call.starts_in_window} AS begins
        {source}"""
    )
    kernels = call.arrays(
        f"""SELECT stack, "end" - start AS whole, {call.clipped} AS part, {call.in_window} AS inside,
            {call.on_devices} AS here
        FROM kernels WHERE comm AND stack IS NOT NULL"""
    )
    owner = calls_of_kernels(call, calls["range"], kernels["stack"])

    def of_calls(values: Ints, counted: Mask) -> Ints:
        """The sum over the kernels of each call."""
        found = np.zeros(len(calls["part"]), np.int64)
        np.add.at(found, owner[counted], values[counted])
        return found

    ones = np.ones(len(owner), np.int64)
    here = (owner >= 0) & kernels["here"]
    kernel_count, elsewhere = of_calls(ones, here), of_calls(ones, (owner >= 0) & ~kernels["here"])
    in_scope = (kernel_count > 0) | (elsewhere == 0)  # what launched on other devices only is not of these
    begins = calls["begins"] & in_scope
    timed = begins & (kernel_count > 0)
    columns = {
        "calls": calls["inside"] & in_scope,
        "size": np.where(begins, calls["bytes"], 0),
        "timed_size": np.where(timed, calls["bytes"], 0),
        "whole": np.where(timed, of_calls(kernels["whole"], here), 0),
        "timeless": begins & ~timed,
        "time": of_calls(kernels["part"], here),
        "inside": of_calls(ones, here & kernels["inside"]),
        "kernels": kernel_count,
    }
    sums = {name: np.zeros(len(names), np.int64) for name in columns}
    for name, values in columns.items():
        np.add.at(sums[name], calls["part"], values)
    ranks = _ranks(call)
    groups = []
    for number, operation, communicator in names:
        of = {name: int(values[number]) for name, values in sums.items()}
        inside, kernel_total, time = of.pop("inside"), of.pop("kernels"), of.pop("time")
        if of["calls"] or inside:
            known = time if kernel_total else None
            groups.append(_Group(operation, communicator, ranks.get(communicator), time=known, **of))
    return groups


def _ranks(call: Call[NoParams]) -> dict[int | None, int]:
    """How many ranks each communicator has, by the calls that created it, where they agree."""
    created = "FROM nccl_calls WHERE ranks IS NOT NULL AND communicator IS NOT NULL"
    found = call.sql(f"SELECT communicator, min(ranks) {created} GROUP BY communicator HAVING min(ranks) = max(ranks)")
    return dict(found)
