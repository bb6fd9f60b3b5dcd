"""Whether communication is hidden behind compute."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Pct, ratio
from ..call import Call
from ..measures.busy import Busy, basis_notes, busy_of_devices, busy_together
from ..measures.graphs import hidden_in_busy
from ..registry import NoParams, skill
from ..result import Result


class OverlapBreakdownRow(Row):
    """One device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    span_ms: Ms = column("length of the window")
    compute_ms: Ms = column("time with a kernel that is no collective")
    comm_ms: Ms = column("time with a collective, by kernel name")
    overlap_ms: Ms = column("time with both")
    exposed_comm_ms: Ms = column("time with a collective and no compute")
    copy_only_ms: Ms = column("time with copies or sets and no kernel")
    idle_ms: Ms = column("time without any GPU work")
    overlap_pct: Pct | None = column("overlap; null without communication", of="comm_ms")
    shared_streams: Count = column("streams that ran both collectives and other kernels in the window")


class OverlapBreakdownTotals(Row):
    """All selected devices: sums over devices."""

    devices: Count = column("selected devices")
    span_ms: Ms = column("length of the window times devices")
    compute_ms: Ms = column("sum over devices")
    comm_ms: Ms = column("sum over devices")
    overlap_ms: Ms = column("sum over devices")
    exposed_comm_ms: Ms = column("sum over devices")
    copy_only_ms: Ms = column("sum over devices")
    idle_ms: Ms = column("sum over devices")
    overlap_pct: Pct | None = column("overlap; null without communication", of="comm_ms")
    shared_streams: Count = column("sum over devices")


@skill(
    title="Overlap of compute and communication",
    when="To see whether communication is hidden behind compute, and where the rest of the time goes.",
    row=OverlapBreakdownRow,
    totals=OverlapBreakdownTotals,
    needs=("kernels",),
    next=("gpu_idle_gaps", "nvtx_kernel_map"),
)
def overlap_breakdown(call: Call[NoParams]) -> Result:
    """One row per selected device, an idle one too: compute + exposed_comm + copy_only + idle = span.

    All times are lengths of unions within the window; the identity is exact in ns and holds to rounding as shown.
    A kernel is communication by its name (NCCL, NVSHMEM, RCCL), and its time includes waiting for peers. A CUDA graph
    that was traced as a whole counts as compute. Collectives and other kernels on one stream (shared_streams) cannot
    overlap each other.
    """
    holes = hidden_in_busy(call)
    busy = busy_of_devices(call)
    shared = _shared_streams(call)
    rows = [(*call.device_of(gpu), *_figures(of), shared.get(gpu, 0)) for gpu, of in busy.items()]
    whole = busy_together(busy)
    notes = [*holes, *basis_notes(call)]
    if whole.comm:
        notes.append("communication is told by kernel names, and its time includes waiting for peers")
    names = list(OverlapBreakdownTotals.model_fields)
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals=dict(zip(names, (len(rows), *_figures(whole), sum(shared.values())), strict=True)),
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


def _figures(of: Busy) -> tuple[object, ...]:
    parts = (of.span, of.compute, of.comm, of.overlap, of.exposed_comm, of.copy_only, of.idle)
    return (*parts, ratio(of.overlap, of.comm))


def _shared_streams(call: Call[NoParams]) -> dict[int, int]:
    """How many streams ran both collectives and other kernels, by `gpu`."""
    if not call.sql("SELECT 1 FROM kernel_names WHERE collective IS NOT NULL LIMIT 1"):
        return {}
    rows = call.sql(
        f"""SELECT gpu, count(*) FROM (
            SELECT gpu FROM kernels WHERE {call.on_devices} AND {call.in_window}
            GROUP BY gpu, stream HAVING bool_or(comm) AND NOT bool_and(comm)
        ) GROUP BY gpu"""
    )
    return dict(rows)
