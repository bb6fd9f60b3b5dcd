"""Which calls into the operating system's libraries take the host's time."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text, Us
from ..call import Call
from ..measures.by_name import by_name, figures
from ..measures.processes import of_processes, process_notes
from ..registry import NoParams, skill
from ..result import Result


class OsrtSummaryRow(Row):
    """One function, over all threads."""

    function: Text = column("name of the function")
    calls: Count = column("calls that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads")
    avg_us: Us = column("mean duration of whole calls")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    stddev_us: Us | None = column("sample standard deviation of durations; null for a single call")


class OsrtSummaryTotals(Row):
    """All calls in scope."""

    functions: Count = column("different functions")
    calls: Count = column("calls of the OS runtime")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads")
    clipped: Count = column("calls that cross an edge of the window")


PROFILING_MARKERS = (31, 32)
"""Event classes by which nsys notes that profiling started and finished: no calls."""


@skill(
    title="OS runtime summary",
    when="To see which blocking calls into the operating system (locks, waits, files, sockets) take the host's time.",
    row=OsrtSummaryRow,
    totals=OsrtSummaryTotals,
    needs=("osrt",),
    window="capture",
    next=("cuda_api_summary", "gpu_idle_gaps"),
)
def osrt_summary(call: Call[NoParams]) -> Result:
    """One row per function, by total time, as osrt_sum of nsys stats has it.

    A call that waits takes time without using the CPU: threads that sleep in poll or pthread_cond_wait are at the top
    of most captures and cost nothing. nsys records only calls that last, by default 1 µs. total_ms adds up threads and
    may exceed the window. Times are clipped to the window; avg, med, min, max and stddev are of whole calls. stddev is
    the sample's, null for a single call, where nsys stats shows 0. With device, only calls of processes that use it
    count.
    """
    found = by_name(
        call,
        f"""SELECT name AS key, start, "end" FROM osrt
        WHERE {of_processes(call)} AND coalesce(event_class NOT IN {PROFILING_MARKERS}, TRUE)""",
    )
    names = call.strings(named.key for named in found.page)
    return Result(
        rows=[(names[named.key], named.of.count, *figures(named.of)) for named in found.page],
        total_rows=found.names,
        totals={"functions": found.names, "calls": found.events, "total_ms": found.total, "clipped": found.clipped},
        notes=process_notes(call),
        status=Status.OK if found.names else Status.EMPTY,
    )
