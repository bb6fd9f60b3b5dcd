"""Which collectives take the time, and how much of it is hidden."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, Id, Ms, Pct, Text, Us, ratio
from ..call import Call
from ..measures.busy import Busy, basis_notes, busy_of_devices, busy_together
from ..measures.durations import Durations, duration_sql, durations_of
from ..measures.graphs import hidden_in_busy
from ..measures.lookups import lookup
from ..registry import NoParams, skill
from ..result import Result
from .collectives import BY_NAME, NO_COLLECTIVES, Collective, collectives, numbered_sql


class NcclBreakdownRow(Row):
    """One collective and variant on one stream."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    stream: Text = column("stream id, or context:stream where a stream id occurs in several contexts")
    collective: Text = column("collective by kernel name; Generic where the name does not tell it")
    variant: Text | None = column("reduction and datatype as the name has them; null where it has none")
    count: Count = column("kernels that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    busy_ms: Ms = column("time with a kernel of this row")
    share_pct: Pct | None = column("busy_ms of this row; null without length", of="comm busy of the device")
    avg_us: Us = column("mean duration of whole kernels")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    cv: Factor | None = column("sample standard deviation over mean of durations; null for a single kernel")
    exposed_ms: Ms = column("time with a kernel of this row and no compute on the device")


class NcclBreakdownTotals(Row):
    """All collectives in scope."""

    devices: Count = column("selected devices that ran collectives in the window")
    streams: Count = column("streams that did")
    count: Count = column("kernels that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over devices")
    busy_ms: Ms = column("time with a collective, per device, summed over devices: comm_ms of overlap_breakdown")
    exposed_ms: Ms = column("time with a collective and no compute, summed over devices: its exposed_comm_ms")
    clipped: Count = column("kernels that cross an edge of the window")


@dataclass(frozen=True, slots=True)
class _Group:
    """The kernels of one row; `busy` and `exposed` in ns."""

    gpu: int
    stream: int
    collective: Collective
    of: Durations
    busy: int
    exposed: int


@skill(
    title="Collectives",
    when="To see which NCCL collectives take the time, how evenly, and how much of it no compute hides.",
    row=NcclBreakdownRow,
    totals=NcclBreakdownTotals,
    needs=("kernels",),
    next=("nccl_anomaly", "kernel_overlap_matrix", "overlap_breakdown"),
)
def nccl_breakdown(call: Call[NoParams]) -> Result:
    """One row per device, stream, collective and variant, by total time.

    A kernel name tells a kernel variant, not the algorithm, the protocol or even surely the collective: NCCL runs
    several operations in kernels named for one (Generic, SendRecv), and older versions name collectives that reduce
    nothing Sum_int8_t. Protocol and algorithm are left out of variant. Time in a collective includes waiting for
    peers, so that cv and max_us are about waiting as much as about the link. exposed_ms is time without a kernel that
    is no collective (or a CUDA graph traced as a whole, which counts as compute). Rows of one device may run at once,
    on several streams: then busy_ms, share_pct and exposed_ms add up to more than the totals, which are the comm_ms and
    exposed_comm_ms of overlap_breakdown; where collectives do not overlap each other they add up exactly.
    """
    groups = sorted(_groups(call), key=lambda g: (-g.of.total, g.gpu, g.stream, g.collective))
    busy = busy_of_devices(call)
    whole = busy_together(busy)
    shown = call.page_of([(group,) for group in groups])
    labels = lookup(call, "streams", "stream", "label", (group.stream for (group,) in shown))
    holes = hidden_in_busy(call)
    notes = [*holes, *([BY_NAME] if groups else [NO_COLLECTIVES])]
    if sum(group.busy for group in groups) > whole.comm:
        notes.append(
            "collectives run at once on a device: busy_ms and exposed_ms of rows may add up to more than totals"
        )
    return Result(
        rows=[_row(call, group, labels[group.stream], busy[group.gpu]) for (group,) in shown],
        total_rows=len(groups),
        totals={
            "devices": len({group.gpu for group in groups}),
            "streams": len({group.stream for group in groups}),
            "count": sum(group.of.count for group in groups),
            "total_ms": sum(group.of.total for group in groups),
            "busy_ms": whole.comm,
            "exposed_ms": whole.exposed_comm,
            "clipped": sum(group.of.clipped for group in groups),
        },
        notes=[*notes, *(basis_notes(call) if groups else [])],
        status=Status.PARTIAL if holes else Status.OK if groups else Status.EMPTY,
    )


def _row(call: Call[NoParams], group: _Group, stream: str, device: Busy) -> tuple[object, ...]:
    of, collective = group.of, group.collective
    return (
        *call.device_of(group.gpu),
        stream,
        collective.name,
        collective.variant or None,
        of.count,
        of.total,
        group.busy,
        ratio(group.busy, device.comm),
        of.avg,
        of.med,
        of.shortest,
        of.longest,
        ratio(of.stddev, of.avg),
        group.exposed,
    )


def _groups(call: Call[NoParams]) -> list[_Group]:
    """The collectives in the window by stream, collective and variant, in no particular order."""
    from ..measures.intervals import Cover, unions  # numpy, which registering the skill must not load

    names = collectives(call)
    if not names:
        return []
    kinds = sorted(set(names.values()))
    number = {kind: place for place, kind in enumerate(kinds)}
    scope = f"""kernels JOIN {numbered_sql({name: number[kind] for name, kind in names.items()})} USING (name)
        WHERE {call.on_devices} AND {call.in_window}"""
    key = f"stream * {len(kinds)}::BIGINT + number"
    measured = call.sql(f"SELECT gpu, {key} AS key, {duration_sql(call)} FROM {scope} GROUP BY gpu, key")
    together = unions(call, f'SELECT {key} AS key, start, "end" FROM {scope}')
    groups = []
    for gpu in sorted({gpu for gpu, *_ in measured}):
        compute = call.arrays(
            f"""SELECT start, "end" FROM busy WHERE gpu = {gpu} AND kind = 'compute'
                AND start < {call.window.end_ns} AND "end" > {call.window.start_ns} ORDER BY start"""
        )
        cover = Cover(compute["start"], compute["end"])
        for _, of, *measures in (group for group in measured if group[0] == gpu):
            start, end = together[of]
            busy = int((end - start).sum())
            exposed = busy - int(cover.within(start, end).sum())
            stream, kind = divmod(of, len(kinds))
            groups.append(_Group(gpu, stream, kinds[kind], durations_of(measures), busy, exposed))
    return groups
