"""Which CUDA API calls take the host's time."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text, Us
from ..call import Call
from ..measures.by_name import by_name, figures
from ..measures.processes import of_processes, process_notes
from ..registry import NoParams, skill
from ..result import Result


class CudaApiSummaryRow(Row):
    """One API name, over all threads."""

    api: Text = column("name of the runtime or driver call, without a version suffix of four digits")
    calls: Count = column("calls that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads")
    avg_us: Us = column("mean duration of whole calls")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    stddev_us: Us | None = column("sample standard deviation of durations; null for a single call")


class CudaApiSummaryTotals(Row):
    """All calls in scope."""

    apis: Count = column("different API names")
    calls: Count = column("API calls")
    total_ms: Ms = column("sum of durations, clipped to the window; a driver call within a runtime call counts twice")
    clipped: Count = column("calls that cross an edge of the window")


@skill(
    title="CUDA API summary",
    when="To see which CUDA runtime and driver calls take the host's time, by name.",
    row=CudaApiSummaryRow,
    totals=CudaApiSummaryTotals,
    needs=("calls",),
    window="capture",
    next=("kernel_launch_overhead", "gpu_idle_gaps"),
)
def cuda_api_summary(call: Call[NoParams]) -> Result:
    """One row per API name, by total time, as cuda_api_sum of nsys stats has it.

    Times are of the host: an asynchronous call ends long before the work that it starts, and a synchronisation call is
    waiting. total_ms adds up threads that call at once, and driver calls within runtime calls, so that it may exceed
    the window. Names that differ in a version suffix of four digits alone are one row, where nsys stats has one for
    each. Times are clipped to the window; avg, med, min, max and stddev are of whole calls. stddev is the sample's,
    null for a single call, where nsys stats shows 0. With device, only calls of processes that use it count.
    """
    found = by_name(call, f'SELECT name AS key, start, "end" FROM calls WHERE {of_processes(call)}')
    names = call.strings(named.key for named in found.page)
    return Result(
        rows=[(names[named.key], named.of.count, *figures(named.of)) for named in found.page],
        total_rows=found.names,
        totals={"apis": found.names, "calls": found.events, "total_ms": found.total, "clipped": found.clipped},
        notes=process_notes(call),
        status=Status.OK if found.names else Status.EMPTY,
    )
