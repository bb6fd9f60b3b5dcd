"""Loading and compiling of GPU code while the program runs."""

from __future__ import annotations

from typing import Any

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text
from ..call import Call
from ..measures.api_names import apis_of
from ..measures.idle_notes import idle_holes, idle_notes
from ..measures.iterations import find_iterations
from ..measures.processes import of_processes, process_notes
from ..registry import NoParams, skill
from ..result import Result
from ..thresholds.bottlenecks import MODULE_LOADING


class ModuleLoadingRow(Row):
    """One API name, over all threads."""

    call: Text = column("name of the runtime or driver call")
    count: Count = column("calls that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads")
    max_ms: Ms = column("longest whole call")
    after_first_step: Count | None = column(
        "calls that start after the end of the first iteration; null where no iterations are found"
    )
    idle_ms: Ms | None = column(
        "time in which a device idles while a process that uses it is in such a call: union over the calls, sum over "
        "devices; null where no device is known to be used"
    )


class ModuleLoadingTotals(Row):
    """All these calls in scope."""

    calls: Count = column("different API names")
    count: Count = column("calls that overlap the window; one within another counts too")
    total_ms: Ms = column("sum over rows; a call within another counts twice")
    busy_ms: Ms = column("time in which a process is in any of them: union per process, sum over processes")
    max_ms: Ms | None = column("longest whole call; null without calls")
    after_first_step: Count | None = column("sum over rows; null where no iterations are found")
    idle_ms: Ms | None = column("time in which a device idles meanwhile: union over all rows, sum over devices")
    clipped: Count = column("calls that cross an edge of the window")


@skill(
    title="Module loading",
    when="To see whether loading or compiling GPU code stalls the program, also after the first step.",
    row=ModuleLoadingRow,
    totals=ModuleLoadingTotals,
    needs=("calls",),
    window="capture",
    next=("gpu_idle_gaps", "cuda_api_summary"),
)
def module_loading(call: Call[NoParams]) -> Result:
    """One row per API name, by total time: loading of modules and libraries, linking, and what makes lazy loading load.

    Loading at the start of a program is expected; calls after the first step, and what devices idle meanwhile, are what
    it costs in the steady state. Lazy-loading calls are found by name, and most of them find the kernel loaded. Loads
    inside a launch have no call of their own and show as a long launch. idle_ms says that both happened at once, not
    that one caused the other; rows may share it, and over several devices it is a sum. A call within another (a
    driver call within a runtime call) has its own row and counts in both; totals.busy_ms and idle_ms count each
    instant once per process and per device. With device, only calls of processes that use it count.
    """
    from ..measures.host_stretches import HostStretches  # numpy, which registering the skill must not load

    steps = find_iterations(call, _marker(call))
    found = HostStretches(
        call,
        f"""SELECT name AS key, process, start, "end" FROM calls
        WHERE name IN ({", ".join(map(str, apis_of(call, MODULE_LOADING))) or "NULL"}) AND {of_processes(call)}""",
        after=None if steps is None else steps.windows[0].end_ns,
    )
    rows, whole = found.rows(), found.together()
    page = rows[call.offset : call.offset + call.max_rows]
    names = call.strings(key for key, _ in page)
    holes = idle_holes(call) if rows else []
    notes = [*process_notes(call), *(idle_notes(call) if rows else ())]
    if rows and steps is None:
        notes.append("no iterations are found in this capture: after_first_step is unknown")
    elif rows and steps:
        notes.append(f"the first step is the first of {len(steps.windows)} iterations of {steps.name}")
    return Result(
        rows=[(names[key], of.count, of.total, of.longest, of.later, of.idle) for key, of in page],
        total_rows=len(rows),
        totals={
            "calls": len(rows),
            "count": whole.count,
            "total_ms": whole.total,
            "busy_ms": whole.busy,
            "max_ms": whole.longest,
            "after_first_step": whole.later,
            "idle_ms": whole.idle,
            "clipped": whole.clipped,
        },
        notes=[*holes, *notes],
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


def _marker(call: Call[Any]) -> str | None:
    """The marker that the caller chose for iterations, if any."""
    marker = call.scope_asked.get("marker")
    return None if marker is None else str(marker)
