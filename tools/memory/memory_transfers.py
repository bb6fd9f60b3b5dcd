"""Copies and sets by direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, GbPerS, Id, Mb, Ms, Text, Us, ratio
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..measures.durations import MEASURES, Durations, duration_sql, durations_of
from ..measures.graphs import hidden_transfers
from ..registry import NoParams, skill
from ..result import AbstentionError, Result
from .operations import MEMORY_KINDS, OPERATIONS, SET, known_sql, memory_kind, operation_of


class MemoryTransfersRow(Row):
    """One direction between two kinds of memory, on one device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    operation: Text = column("h2d, d2h, d2d, h2h, p2p, um_h2d, um_d2h, um_d2d, other or set")
    src_kind: Text | None = column("kind of memory copied from; null for sets and where unknown")
    dst_kind: Text | None = column("kind of memory copied to or set; null where unknown")
    count: Count = column("operations that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    total_mb: Mb | None = column(
        "bytes of operations that start in the window, MB = 10^6 bytes; null where sizes were not recorded"
    )
    avg_us: Us = column("mean duration of whole operations")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    gb_per_s: GbPerS | None = column(
        "bytes over whole duration of operations that start in the window, GB = 10^9 bytes; null without time or sizes"
    )


class MemoryTransfersTotals(Row):
    """All copies and sets in scope."""

    copies: Count = column("copies")
    sets: Count = column("sets")
    total_ms: Ms = column("sum of durations, clipped to the window, over devices")
    copied_mb: Mb | None = column("bytes copied; null where sizes were not recorded")
    set_mb: Mb | None = column("bytes set; null where sizes were not recorded")
    clipped: Count = column("operations that cross an edge of the window")


@dataclass(frozen=True, slots=True)
class _Group:
    """Operations of one row: bytes, and the whole time in ns, of those that start in the window.

    `bytes` is None when the size of any operation of the row is unknown.
    """

    gpu: int
    operation: str
    src_kind: str | None
    dst_kind: str | None
    of: Durations
    bytes: int | None
    time: int


@skill(
    title="Memory transfers",
    when="To see what is copied and set on the GPU: directions, kinds of memory, bytes, time and throughput.",
    row=MemoryTransfersRow,
    totals=MemoryTransfersTotals,
    one_of=("copies", "sets"),
    next=("top_kernels",),
)
def memory_transfers(call: Call[NoParams]) -> Result:
    """One row per device, direction and kinds of memory, by total time.

    um_ marks migrations of unified memory, p2p copies between GPUs; other is unknown or from or to an array. Pageable
    host memory is staged by the driver, which makes such copies slow and synchronous. Times are clipped to the window,
    bytes count where an operation starts, avg, med, min, max and gb_per_s are of whole operations. total_ms adds up
    concurrent operations.
    """
    missing = [kind for kind in ("copies", "sets") if not call.profile.recorded(kind)]
    if len(missing) == 2:
        reason = "memory copies and memory sets not recorded in this capture"
        raise AbstentionError(reason, missing, CAPTURE_HINTS["copies"])
    groups = sorted(
        [*_copies(call), *_sets(call)],
        key=lambda g: (-g.of.total, g.gpu, g.operation, g.src_kind or "", g.dst_kind or ""),
    )
    shown = groups[call.offset : call.offset + call.max_rows]
    sets = [group for group in groups if group.operation == SET]
    copies = [group for group in groups if group.operation != SET]
    holes = [*_unknown_sizes("copies", copies), *_unknown_sizes("sets", sets), *hidden_transfers(call)]
    return Result(
        rows=[_row(call, group) for group in shown],
        total_rows=len(groups),
        totals={
            "copies": sum(group.of.count for group in copies),
            "sets": sum(group.of.count for group in sets),
            "total_ms": sum(group.of.total for group in groups),
            "copied_mb": _bytes(copies),
            "set_mb": _bytes(sets),
            "clipped": sum(group.of.clipped for group in groups),
        },
        notes=holes + [f"memory {kind} not recorded: none happened, or they were not traced" for kind in missing],
        status=Status.PARTIAL if holes else Status.OK if groups else Status.EMPTY,
    )


def _bytes(groups: Sequence[_Group]) -> int | None:
    """The bytes of these groups together; None when any is unknown."""
    known = [group.bytes for group in groups if group.bytes is not None]
    return sum(known) if len(known) == len(groups) else None


def _unknown_sizes(kind: str, groups: Sequence[_Group]) -> list[str]:
    """A note when the sizes of some operations are unknown; else nothing."""
    if _bytes(groups) is not None:
        return []
    return [f"the sizes of {kind} were not recorded: their bytes and throughput are unknown where null"]


def _measures(call: Call[NoParams]) -> str:
    """Durations, then bytes and time of the operations that start in the window, and how many have no size."""
    begins = f"FILTER ({call.starts_in_window})"
    return f"""{duration_sql(call)}, sum(bytes) {begins}, sum("end" - start) {begins}, count(*) - count(bytes)"""


def _copies(call: Call[NoParams]) -> list[_Group]:
    found = call.sql(
        f"""SELECT gpu, {known_sql("kind", OPERATIONS)} AS what, {known_sql("src_kind", MEMORY_KINDS)} AS source,
            {known_sql("dst_kind", MEMORY_KINDS)} AS target, {_measures(call)}
        FROM copies WHERE {call.on_devices} AND {call.in_window} GROUP BY gpu, what, source, target"""
    )
    return [
        _group(gpu, operation_of(kind), memory_kind(source), memory_kind(target), measures)
        for gpu, kind, source, target, *measures in found
    ]


def _sets(call: Call[NoParams]) -> list[_Group]:
    found = call.sql(
        f"""SELECT gpu, {known_sql("mem_kind", MEMORY_KINDS)} AS target, {_measures(call)}
        FROM sets WHERE {call.on_devices} AND {call.in_window} GROUP BY gpu, target"""
    )
    return [_group(gpu, SET, None, memory_kind(target), measures) for gpu, target, *measures in found]


def _group(gpu: int, operation: str, source: str | None, target: str | None, measures: Sequence[int | None]) -> _Group:
    size, time, sizeless = measures[MEASURES:]
    known = None if sizeless else size or 0
    return _Group(gpu, operation, source, target, durations_of(measures[:MEASURES]), known, time or 0)


def _row(call: Call[NoParams], group: _Group) -> tuple[object, ...]:
    of = group.of
    rate = ratio(group.bytes, group.time)
    figures = (of.count, of.total, group.bytes, of.avg, of.med, of.shortest, of.longest, rate)
    return (*call.device_of(group.gpu), group.operation, group.src_kind, group.dst_kind, *figures)
