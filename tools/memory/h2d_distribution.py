"""When host-to-device traffic happens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.scope import seconds_to_ns
from ...contracts.units import Count, Factor, GbPerS, Id, Mb, Ms, Pct, S, Text, ratio
from ..call import Call
from ..measures.graphs import hidden_transfers
from ..registry import Params, skill
from ..result import Result
from ..thresholds.memory import INIT_HEAVY_PCT, INIT_WINDOW_PCT, MOST_BUCKETS, SPIKE_TIMES
from .operations import OPERATIONS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_H2D = next(kind for kind, name in OPERATIONS.items() if name == "h2d")


class H2dDistributionParams(Params):
    """Parameters of `h2d_distribution`."""

    bucket_s: float = Field(1.0, gt=0, le=10**9, allow_inf_nan=False, description="length of a bucket, s")


class H2dDistributionRow(Row):
    """One bucket of one device with host-to-device copies."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    bucket: Count = column("number of the bucket, from 0 at the window's start")
    start_s: S = column("where the bucket starts, on the capture clock")
    ops: Count = column("copies that overlap the bucket; one that crosses into the next counts in both")
    total_mb: Mb | None = column(
        "bytes of copies that start in the bucket, MB = 10^6 bytes; null where sizes were not recorded"
    )
    busy_ms: Ms = column("time within the bucket with a host-to-device copy")
    gb_per_s: GbPerS | None = column(
        "bytes over whole duration of copies that start in the bucket, GB = 10^9 bytes; null without time or sizes"
    )


class H2dDistributionTotals(Row):
    """All host-to-device copies in scope, and the figures that decide the pattern."""

    pattern: Text | None = column(
        "none, init_heavy, spike or spread_out, the first that holds; null where there are copies and no bytes to go by"
    )
    ops: Count = column("copies that overlap the window")
    total_mb: Mb | None = column("bytes of copies that start in the window; null where sizes were not recorded")
    busy_ms: Ms = column("time with a host-to-device copy, sum over devices")
    bucket_s: S = column("length of a bucket; the last one ends with the window")
    buckets: Count = column("buckets of the window, empty ones too")
    first_tenth_pct: Pct | None = column("bytes of copies that start in the first tenth of the span", of="total_mb")
    buckets_with_bytes: Count = column("buckets in which copies with bytes start, devices taken together")
    median_bucket_mb: Mb | None = column("median bytes of these buckets, devices taken together")
    max_bucket_mb: Mb | None = column("most bytes of a bucket, devices taken together")
    max_bucket_start_s: S | None = column("where that bucket, the first of equal ones, starts")
    max_over_median: Factor | None = column("max_bucket_mb over median_bucket_mb")


@dataclass(frozen=True, slots=True)
class _Buckets:
    """The buckets of a window: all of one length in ns, but for the last."""

    start: int
    end: int
    length: int
    number: int


@dataclass(frozen=True, slots=True)
class _Filled:
    """What one bucket of one device has: bytes, and the whole time in ns, of copies that start in it."""

    gpu: int
    bucket: int
    ops: int
    bytes: int
    time: int
    busy: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """What decides the pattern. `share` is None without bytes, the others without a bucket that has some."""

    pattern: str | None
    share: Fraction | None
    filled: int
    median: Fraction | None
    most: int | None
    most_bucket: int | None


@skill(
    title="Host-to-device traffic over time",
    when="To see when data is uploaded to the GPU: at the start, in spikes, or all the time.",
    params=H2dDistributionParams,
    row=H2dDistributionRow,
    totals=H2dDistributionTotals,
    needs=("copies",),
    next=("memory_transfers", "memory_bandwidth"),
)
def h2d_distribution(call: Call[H2dDistributionParams]) -> Result:
    """One row per device and bucket with copies from host to device, in order of time; empty buckets are left out.

    Buckets start at the window's start. Each is a window of its own: busy_ms is cut at its edges and adds up over the
    buckets of a device, a copy counts in ops wherever it overlaps, and its bytes where it starts, so that gb_per_s is
    not total_mb over busy_ms where copies cross an edge. Migrations of unified memory, peer copies and copies to arrays
    are not host-to-device copies here. The pattern is about bytes, with devices taken together, and the first rule that
    holds decides: none (no copy); init_heavy (80 % of bytes or more start in the first tenth of the span); spike (a
    bucket has over three times the median of the buckets with bytes); spread_out. It depends on the window and on
    bucket_s: a window without the start of the program cannot show its initial uploads, and one bucket is no spike.
    """
    buckets = _buckets_of(call)
    copies = _read(call)
    known = not bool(copies["unsized"].any())
    rows = [filled for device in call.devices for filled in _filled(device.gpu, copies, buckets)]
    ops = len(copies["start"])
    shape = _shape(call, copies, rows, known)
    holes = hidden_transfers(call)
    notes = []
    if not known:
        holes.append("the sizes of copies were not recorded: bytes, throughput and the pattern are unknown")
    elif ops and shape.pattern is None:
        notes.append("no bytes start in the window: there is no pattern to tell")
    if len(call.devices) > 1:
        notes.append("the pattern is of all devices together, bucket by bucket")
    return Result(
        rows=[_row(call, buckets, filled, known) for filled in rows[call.offset : call.offset + call.max_rows]],
        total_rows=len(rows),
        totals={
            "pattern": shape.pattern,
            "ops": ops,
            "total_mb": int(copies["bytes"][copies["begins"]].sum()) if known else None,
            "busy_ms": sum(filled.busy for filled in rows),
            "bucket_s": buckets.length,
            "buckets": buckets.number,
            "first_tenth_pct": shape.share,
            "buckets_with_bytes": shape.filled,
            "median_bucket_mb": shape.median,
            "max_bucket_mb": shape.most,
            "max_bucket_start_s": None
            if shape.most_bucket is None
            else buckets.start + shape.most_bucket * buckets.length,
            "max_over_median": ratio(shape.most, shape.median),
        },
        notes=[*holes, *notes],
        status=Status.PARTIAL if holes else Status.OK if ops else Status.EMPTY,
    )


def _buckets_of(call: Call[H2dDistributionParams]) -> _Buckets:
    """The buckets of the window.

    Raises:
        EvidenceError: INVALID_ARGUMENT when there would be too many, or a bucket has no length.
    """
    span = call.window.span_ns
    length = seconds_to_ns(call.params.bucket_s)
    if length < 1 or span > length * MOST_BUCKETS.value:
        least = -(-span // MOST_BUCKETS.value)
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"bucket_s {call.params.bucket_s} cuts the window into more than {MOST_BUCKETS.value} buckets",
            f"choose a bucket_s of at least {max(least, 1) / 10**9:.9f}, or a shorter window with trim",
            argument="bucket_s",
        )
    return _Buckets(call.window.start_ns, call.window.end_ns, length, max(1, -(-span // length)))


def _read(call: Call[H2dDistributionParams]) -> dict[str, npt.NDArray[Any]]:
    """The host-to-device copies in the window, by start."""
    return call.arrays(
        f"""SELECT gpu, start, "end", coalesce(bytes, 0) AS bytes, bytes IS NULL AS unsized,
            {call.starts_in_window} AS begins
        FROM copies WHERE kind = {_H2D} AND {call.on_devices} AND {call.in_window} ORDER BY start"""
    )


def _filled(gpu: int, copies: dict[str, npt.NDArray[Any]], buckets: _Buckets) -> Iterator[_Filled]:
    """The buckets of one device that copies overlap, in order."""
    import numpy as np  # which registering the skill must not load

    from ..measures.intervals import Cover

    mine = copies["gpu"] == gpu
    start, end = copies["start"][mine], copies["end"][mine]
    size, begins = copies["bytes"][mine], copies["begins"][mine]
    first = _bucket_of(np.maximum(start, buckets.start), buckets)
    last = np.maximum(first, _bucket_of(np.minimum(end, buckets.end) - 1, buckets))  # one of no length has one bucket
    ops = np.cumsum(
        np.bincount(first, minlength=buckets.number + 1) - np.bincount(last + 1, minlength=buckets.number + 1)
    )
    total, time = np.zeros(buckets.number, np.int64), np.zeros(buckets.number, np.int64)
    np.add.at(total, first[begins], size[begins])
    np.add.at(time, first[begins], (end - start)[begins])
    found = np.flatnonzero(ops)
    edge = buckets.start + found * buckets.length
    busy = Cover(start, end).within(edge, np.minimum(edge + buckets.length, buckets.end))
    columns = (found, ops[found], total[found], time[found], busy)
    for values in zip(*(values.tolist() for values in columns), strict=True):
        yield _Filled(gpu, *values)


def _bucket_of(instant: npt.NDArray[np.int64], buckets: _Buckets) -> npt.NDArray[np.int64]:
    """The bucket of each instant of the window; its very end belongs to the last."""
    import numpy as np

    return np.clip((instant - buckets.start) // buckets.length, 0, buckets.number - 1)


def _shape(
    call: Call[H2dDistributionParams], copies: dict[str, npt.NDArray[Any]], rows: Sequence[_Filled], known: bool
) -> _Shape:
    if not len(copies["start"]):
        return _Shape("none", None, 0, None, None, None)
    together: dict[int, int] = {}
    for row in rows if known else ():
        if row.bytes:
            together[row.bucket] = together.get(row.bucket, 0) + row.bytes
    if not together:
        return _Shape(None, None, 0, None, None, None)
    early = (copies["start"] - call.window.start_ns) * 100 < call.window.span_ns * INIT_WINDOW_PCT.value
    share = Fraction(int(copies["bytes"][copies["begins"] & early].sum()), sum(together.values()))
    ascending = sorted(together.values())
    median = Fraction(ascending[(len(ascending) - 1) // 2] + ascending[len(ascending) // 2], 2)
    most = ascending[-1]
    if share * 100 >= INIT_HEAVY_PCT.value:
        pattern = "init_heavy"
    elif most > SPIKE_TIMES.value * median:
        pattern = "spike"
    else:
        pattern = "spread_out"
    first = min(bucket for bucket, size in together.items() if size == most)
    return _Shape(pattern, share, len(together), median, most, first)


def _row(call: Call[Any], buckets: _Buckets, of: _Filled, known: bool) -> tuple[object, ...]:
    size = of.bytes if known else None
    start = buckets.start + of.bucket * buckets.length
    return (*call.device_of(of.gpu), of.bucket, start, of.ops, size, of.busy, ratio(size, of.time))
