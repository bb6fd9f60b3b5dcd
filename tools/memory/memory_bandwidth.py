"""Whether the links that copies go over are well used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, GbPerS, Id, Mb, Ns, Pct, Text, Us, ratio
from ..call import Call
from ..measures.graphs import hidden_transfers
from ..measures.lookups import lookup
from ..registry import NoParams, skill
from ..result import Result, Table
from ..thresholds.memory import PEAK_BYTES, SMALL_BYTES
from .operations import MEMORY_KINDS, OPERATIONS, PAGEABLE, known_sql, memory_kind, operation_of

if TYPE_CHECKING:
    import numpy.typing as npt


class MemoryBandwidthRow(Row):
    """One direction on one device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    direction: Text = column("h2d, d2h, d2d, h2h, p2p, um_h2d, um_d2h, um_d2d or other")
    ops: Count = column("copies that overlap the window")
    total_mb: Mb | None = column(
        "bytes of copies that start in the window, MB = 10^6 bytes; null where sizes were not recorded"
    )
    peak_gb_per_s: GbPerS | None = column(
        "fastest copy of 1 MiB and more that starts in the window, GB = 10^9 bytes; null without one"
    )
    sustained_gb_per_s: GbPerS | None = column(
        "total_mb over the time in which any of these copies ran, to their ends; null without time or sizes"
    )
    p50_gb_per_s: GbPerS | None = column("median throughput of single copies of any size that start in the window")
    small_ops_pct: Pct | None = column("copies under 64 KiB; null where sizes were not recorded", of="ops")
    pageable_pct: Pct | None = column(
        "bytes from or to pageable memory; null where kinds of memory are unknown", of="total_mb"
    )


class MemoryBandwidthTotals(Row):
    """All copies in scope."""

    ops: Count = column("copies that overlap the window")
    total_mb: Mb | None = column("bytes of copies that start in the window; null where sizes were not recorded")
    small_ops_pct: Pct | None = column("copies under 64 KiB", of="ops")
    pageable_pct: Pct | None = column("bytes from or to pageable memory", of="total_mb")
    clipped: Count = column("copies that cross an edge of the window")


class LargestCopy(Row):
    """One of the largest copies that start in the window."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    direction: Text = column("as above")
    stream: Text = column("stream id, context:stream where it occurs in several contexts")
    start_ns: Ns = column("start on the capture clock")
    duration_us: Us = column("whole duration")
    mb: Mb = column("bytes, MB = 10^6 bytes")
    gb_per_s: GbPerS | None = column("its throughput; null without duration")
    src_kind: Text | None = column("kind of memory copied from; null where unknown")
    dst_kind: Text | None = column("kind of memory copied to; null where unknown")


@dataclass(frozen=True, slots=True)
class _Group:
    """The copies of one row; the counts over all that overlap the window, the bytes of those that start in it.

    Attributes:
        gpu: the device.
        kind: the kind of copy, None for `other`.
        ops: copies.
        clipped: those that cross an edge of the window.
        small: small ones.
        bytes: bytes; None when the size of any copy is unknown.
        pageable: bytes from or to pageable memory; None when that or a kind of memory is unknown.
    """

    gpu: int
    kind: int | None
    ops: int
    clipped: int
    small: int
    bytes: int | None
    pageable: int | None


@dataclass(frozen=True, slots=True)
class _Rates:
    """Throughputs of the copies of one row that start in the window, bytes per ns; None where there is none."""

    peak: Fraction | None
    sustained: Fraction | None
    median: Fraction | None


@skill(
    title="Memory bandwidth",
    when="To see how fast copies go in each direction, and whether small or pageable ones slow them down.",
    row=MemoryBandwidthRow,
    totals=MemoryBandwidthTotals,
    tables={"largest": LargestCopy},
    needs=("copies",),
    max_rows=5,
    next=("memory_transfers", "h2d_distribution"),
)
def memory_bandwidth(call: Call[NoParams]) -> Result:
    """One row per device and direction, by bytes. Memory sets are left out: they go over no link.

    Throughput is of whole copies that start in the window. sustained is their bytes over the union of their times, so
    that concurrent copies add up; it falls short of peak where copies are small or from pageable memory, which the
    driver stages. p50 is over copies, not bytes: many small copies pull it down. What the link could do is not known to
    the capture; peak is the best that was seen. The table `largest` has the largest copies, max_rows of them, from the
    first whatever the offset.
    """
    groups = sorted(
        _groups(call), key=lambda g: (g.bytes is None, -(g.bytes or 0), -g.ops, g.gpu, operation_of(g.kind))
    )
    page = groups[call.offset : call.offset + call.max_rows]
    rates = _rates(call, page)
    largest, sized = _largest(call)
    size, pageable = (_sum(getattr(group, name) for group in groups) for name in ("bytes", "pageable"))
    ops = sum(group.ops for group in groups)
    holes = hidden_transfers(call)
    if size is None:
        holes.append("the sizes of copies were not recorded: bytes and throughput are unknown where null")
    notes = []
    if size and pageable is None:
        notes.append("kinds of memory were not recorded for all copies: pageable_pct is unknown where null")
    small = sum(group.small for group in groups)
    return Result(
        rows=[_row(call, group, of) for group, of in zip(page, rates, strict=True)],
        total_rows=len(groups),
        totals={
            "ops": ops,
            "total_mb": size,
            "small_ops_pct": None if size is None else ratio(small, ops),
            "pageable_pct": ratio(pageable, size),
            "clipped": sum(group.clipped for group in groups),
        },
        tables={"largest": Table(largest, sized)},
        notes=[*holes, *notes],
        status=Status.PARTIAL if holes else Status.OK if groups else Status.EMPTY,
    )


def _sum(values: Any) -> int | None:
    """The sum; None when any is unknown."""
    listed = list(values)
    return None if None in listed else sum(listed)


def _groups(call: Call[NoParams]) -> list[_Group]:
    begins = f"FILTER ({call.starts_in_window})"
    known = f"src_kind IN ({_list(MEMORY_KINDS)}) AND dst_kind IN ({_list(MEMORY_KINDS)})"
    pageable = f"(src_kind = {PAGEABLE} OR dst_kind = {PAGEABLE})"
    found = call.sql(
        f"""SELECT gpu, {known_sql("kind", OPERATIONS)} AS direction, count(*), count(*) FILTER ({call.crosses}),
            count(*) FILTER (bytes < {SMALL_BYTES.value}), sum(bytes) {begins}, count(*) - count(bytes),
            coalesce(sum(bytes) FILTER ({call.starts_in_window} AND {pageable}), 0),
            count(*) FILTER ({call.starts_in_window} AND coalesce(NOT ({known} OR {pageable}), TRUE))
        FROM copies WHERE {call.on_devices} AND {call.in_window} GROUP BY gpu, direction"""
    )
    groups = []
    for gpu, kind, ops, clipped, small, size, sizeless, of_pageable, unclear in found:
        total = None if sizeless else int(size or 0)
        told = None if sizeless or unclear else int(of_pageable)
        groups.append(_Group(gpu, kind, ops, clipped, small, total, told))
    return groups


def _list(numbers: Any) -> str:
    return ", ".join(map(str, numbers))


def _rates(call: Call[NoParams], groups: Sequence[_Group]) -> list[_Rates]:
    """The throughputs of each of some groups."""
    copies = call.arrays(
        f"""SELECT gpu, coalesce({known_sql("kind", OPERATIONS)}, 0) AS kind, start, "end", bytes
        FROM copies WHERE {call.on_devices} AND {call.starts_in_window} AND bytes IS NOT NULL ORDER BY start"""
    )
    return [_rates_of(copies, group) for group in groups]


def _rates_of(copies: dict[str, npt.NDArray[Any]], group: _Group) -> _Rates:
    import numpy as np  # which registering the skill must not load

    from ...ingest.busy import merged

    if group.bytes is None:
        return _Rates(None, None, None)
    mine = (copies["gpu"] == group.gpu) & (copies["kind"] == (group.kind or 0))
    start, end, size = copies["start"][mine], copies["end"][mine], copies["bytes"][mine]
    first, last = merged(start, end)
    time = end - start
    lasting = np.flatnonzero(time)
    # In doubles only the order is found, ties by size: division there keeps the order of ratios. The figures are exact.
    order = lasting[np.lexsort((size[lasting], size[lasting] / time[lasting]))]
    large = order[size[order] >= PEAK_BYTES.value]

    def rate(place: int) -> Fraction:
        return Fraction(int(size[place]), int(time[place]))

    middle = (order[(len(order) - 1) // 2], order[len(order) // 2]) if len(order) else ()
    return _Rates(
        peak=rate(large[-1]) if len(large) else None,
        sustained=ratio(int(size.sum()), int((last - first).sum())),
        median=sum(map(rate, middle), Fraction()) / 2 if middle else None,
    )


def _largest(call: Call[NoParams]) -> tuple[list[tuple[object, ...]], int]:
    """The largest copies, and how many copies of known size start in the window."""
    scope = f"FROM copies WHERE {call.on_devices} AND {call.starts_in_window} AND bytes IS NOT NULL"
    [(sized,)] = call.sql(f"SELECT count(*) {scope}")
    found = call.sql(
        f"""SELECT gpu, kind, stream, start, "end" - start, bytes, src_kind, dst_kind {scope}
        ORDER BY bytes DESC, start, "end", gpu, stream, kind, src_kind, dst_kind LIMIT {call.max_rows}"""
    )
    labels = lookup(call, "streams", "stream", "label", (row[2] for row in found))
    rows: list[tuple[object, ...]] = [
        (
            *call.device_of(gpu),
            operation_of(kind),
            labels[stream],
            start,
            duration,
            size,
            ratio(size, duration),
            memory_kind(source),
            memory_kind(target),
        )
        for gpu, kind, stream, start, duration, size, source, target in found
    ]
    return rows, sized


def _row(call: Call[NoParams], group: _Group, of: _Rates) -> tuple[object, ...]:
    small = None if group.bytes is None else ratio(group.small, group.ops)
    rates = (of.peak, of.sustained, of.median)
    shares = (small, ratio(group.pageable, group.bytes))
    return (*call.device_of(group.gpu), operation_of(group.kind), group.ops, group.bytes, *rates, *shares)
