"""The true idle share of each device."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Pct, Text
from ..call import Call
from ..measures.busy import basis_notes, busy_of_devices, busy_together, comm_known, compute_known, work_holes
from ..registry import NoParams, skill
from ..result import Result, Table


class PipelineBubbleMetricsRow(Row):
    """One device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    span_ms: Ms = column("length of the window")
    busy_ms: Ms = column("time with a kernel, graph, copy or set")
    idle_ms: Ms = column("time without any; busy + idle = span")
    idle_pct: Pct | None = column("idle time", of="span")
    compute_ms: Ms | None = column(
        "time with a kernel that is no collective, or a graph traced as a whole; null where neither was recorded"
    )
    comm_ms: Ms | None = column("time with a collective, by kernel name; null where kernels were not recorded")
    copy_ms: Ms | None = column("time with a copy or set; null where neither was recorded")
    host_sync_ms: Ms | None = column(
        "time in which a thread of a process that uses the device was in a synchronisation call; "
        "null where calls were not recorded"
    )


class PipelineBubbleMetricsTotals(Row):
    """All selected devices."""

    devices: Count = column("selected devices")
    span_ms: Ms = column("length of the window times devices")
    busy_ms: Ms = column("sum over devices")
    idle_ms: Ms = column("sum over devices")
    idle_pct: Pct | None = column("idle time", of="span times devices")


class IdleRow(Row):
    """Idle time by what the host did meanwhile, over the selected devices."""

    host: Text = column(
        "between launches (gaps under 10 µs), else what covers most of the gap, as in gpu_idle_gaps: sync, alloc, "
        "module_load, copy_call, launch, other_cuda, no_cuda_call; unknown where it is not known"
    )
    gaps: Count = column("gaps of devices")
    idle_ms: Ms = column("their length; adds up to idle_ms of the totals")


@skill(
    title="Pipeline bubbles",
    when="To see how much of the time each GPU is truly idle, and what it does in the rest.",
    row=PipelineBubbleMetricsRow,
    totals=PipelineBubbleMetricsTotals,
    tables={"idle": IdleRow},
    one_of=("kernels", "graphs", "copies", "sets"),
    next=("gpu_idle_gaps", "overlap_breakdown"),
)
def pipeline_bubble_metrics(call: Call[NoParams]) -> Result:
    """One row per selected device, an idle one too.

    All times are lengths of unions within the window, so none exceeds the span. busy + idle = span; compute, comm and
    copy may overlap one another and do not add up to busy (overlap_breakdown has the parts that do). Idle time at the
    edges of the window is idle time. host_sync_ms is what the host spent waiting, whether the device was idle or not;
    processes that share a device are taken together. Table idle gives every gap one owner, by what the host did for
    most of it: where the host was, not why the device waited.
    """
    from ..measures.idle_owners import idle_by_owner  # numpy, which registering the skill must not load

    holes = work_holes(call)
    busy = busy_of_devices(call)
    compute, comm = compute_known(call), comm_known(call)
    copies, syncs = _copy_lengths(call), _sync_lengths(call)
    rows = [
        (
            *call.device_of(gpu),
            of.span,
            of.work,
            of.idle,
            of.idle_share,
            of.compute if compute else None,
            of.comm if comm else None,
            None if copies is None else copies.get(gpu, 0),
            None if syncs is None else syncs.get(gpu, 0),
        )
        for gpu, of in busy.items()
    ]
    whole = busy_together(busy)
    idle = [(owner, gaps, length) for owner, (gaps, length) in idle_by_owner(call).items() if gaps]
    notes = [*holes, *basis_notes(call)]
    if compute and not comm:
        notes.append("kernels were recorded only within graphs traced as a whole: comm_ms is unknown")
    if copies is None:
        notes.append("copies and sets were not recorded: copy_ms is unknown")
    if syncs is None:
        notes.append("CUDA API calls were not recorded: host_sync_ms is unknown")
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={
            "devices": len(rows),
            "span_ms": whole.span,
            "busy_ms": whole.work,
            "idle_ms": whole.idle,
            "idle_pct": whole.idle_share,
        },
        tables={"idle": Table(idle, len(idle))},
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


def _copy_lengths(call: Call[NoParams]) -> dict[int, int] | None:
    """Time with a copy or set, by `gpu`; None where neither was recorded."""
    from ..measures.intervals import union_lengths  # numpy, which registering the skill must not load

    if not (call.profile.recorded("copies") or call.profile.recorded("sets")):
        return None
    where = f"WHERE {call.on_devices} AND {call.in_window}"
    parts = [f'SELECT gpu AS key, start, "end" FROM {table} {where}' for table in ("copies", "sets")]
    return union_lengths(call, " UNION ALL ".join(parts))


def _sync_lengths(call: Call[NoParams]) -> dict[int, int] | None:
    """Time in which the processes of a device were in synchronisation calls, by `gpu`; None without calls."""
    from ...ingest.tables import HOST_CLASSES
    from ..measures.intervals import union_lengths

    if not call.profile.recorded("calls"):
        return None
    sync = HOST_CLASSES.index("sync")
    return union_lengths(
        call,
        f"""SELECT gpu AS key, start, "end"
        FROM (SELECT start, "end", process FROM calls WHERE host_class = {sync} AND {call.in_window})
        JOIN (SELECT DISTINCT gpu, process FROM streams WHERE {call.on_devices}) USING (process)""",
    )
