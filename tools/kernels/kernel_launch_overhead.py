"""Small kernels drowned by the cost of launching them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Pct, Text, Us, ratio
from ..call import Call
from ..measures.graphs import hidden_kernels
from ..registry import Params, skill
from ..result import Result
from .launches import Sharing, launches_sql, sharing_of


class KernelLaunchOverheadParams(Params):
    """Parameters of `kernel_launch_overhead`: which rows are listed."""

    min_launches: int = Field(20, ge=0, description="only rows of at least this many launches")
    max_avg_kernel_us: float = Field(
        10, ge=0, allow_inf_nan=False, description="only kernels that take at most this on average, µs; 0 for all"
    )


class KernelLaunchOverheadRow(Row):
    """One kernel name on one device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    kernel: Text = column("short unique label of the demangled name")
    launches: Count = column("API calls that launched it; a graph launch counts once")
    api_avg_us: Us = column("mean duration of these calls")
    api_med_us: Us = column("median duration of these calls")
    api_max_us: Us = column("longest of these calls")
    queue_count: Count = column("launches whose GPU start is later than the API call's end")
    queue_avg_us: Us | None = column("mean of GPU start less API end over those; null without one")
    queue_med_us: Us | None = column("median of the same")
    queue_max_us: Us | None = column("maximum of the same")
    kernel_avg_us: Us = column("mean duration of the kernel")
    launch_bound_pct: Pct = column("launches whose API call outlasts the kernel", of="launches")


class KernelLaunchOverheadTotals(Row):
    """All launches of kernels in scope, listed or not; each API call counts once."""

    launches: Count = column("API calls that launched kernels")
    api_ms: Ms = column("sum of the durations of these calls")
    queue_count: Count = column("launches whose first GPU start is later than the API call's end")
    launch_bound_pct: Pct | None = column("launches whose API call outlasts what it launched", of="launches")
    kernels: Count = column("kernel executions with a known launch")
    unmatched: Count = column("kernel executions whose API call was not recorded: no launches")
    clipped: Count = column("kernel executions that cross an edge of the window")


@skill(
    title="Kernel launch overhead",
    when="To find small kernels whose launch costs the host more than they run: candidates for fusion or CUDA graphs.",
    params=KernelLaunchOverheadParams,
    row=KernelLaunchOverheadRow,
    totals=KernelLaunchOverheadTotals,
    needs=("kernels", "calls"),
    next=("kernel_instances", "top_kernels"),
)
def kernel_launch_overhead(call: Call[KernelLaunchOverheadParams]) -> Result:
    """One row per device and kernel, by the host time that its launches took.

    A launch is one API call matched to kernels of its own process; of a runtime and a driver row with the same
    correlation id the longer counts. A graph launch counts once in the row of each of its kernels, against the first
    start and the summed time of that row's kernels, and once in totals. A launch is in scope when one of its kernels
    is, and is then looked at whole: its call, its first start and its summed time do not depend on the window. Queue is
    GPU start less API end where positive: how far the host runs ahead, no overhead. A row is launch-bound where
    launch_bound_pct is high and queue_count low. The filters choose the rows that are listed; totals are over all
    launches in scope.
    """
    where = f"{call.on_devices} AND {call.in_window}"
    [(unmatched, clipped)] = call.sql(
        f"SELECT count(*) - count(call_start), count(*) FILTER ({call.crosses}) FROM kernels WHERE {where}"
    )
    sharing = sharing_of(call)
    measured = call.sql(
        f"SELECT gpu, name, {_SUMS}, {_MEASURES} FROM ({launches_sql(where, sharing, 'gpu, name')}) GROUP BY gpu, name"
    )
    if sharing is Sharing.NONE:
        sums = [sum(row[place] for row in measured) for place in range(2, 8)]
    else:
        # A call may stand in several groups.
        [sums] = map(list, call.sql(f"SELECT {_SUMS} FROM ({launches_sql(where, sharing)})"))
    launches, kernels, _, api_time, queued, bound = sums
    groups = [_Group(*row) for row in measured]
    listed = _listed(groups, call.params)
    shown = listed[call.offset : call.offset + call.max_rows]
    texts = call.kernel_labels(group.name for group in shown)
    holes = hidden_kernels(call)
    notes = [f"{unmatched} kernels without a recorded API call are no launches and left out"] if unmatched else []
    if groups and not listed:
        notes.append(f"no kernel passes min_launches and max_avg_kernel_us; {len(groups)} rows without these filters")
    return Result(
        rows=[(*call.device_of(group.gpu), texts[group.name][0], *_figures(group)) for group in shown],
        total_rows=len(listed),
        totals={
            "launches": launches,
            "api_ms": api_time,
            "queue_count": queued,
            "launch_bound_pct": ratio(bound, launches),
            "kernels": kernels,
            "unmatched": unmatched,
            "clipped": clipped,
        },
        notes=holes + notes,
        status=Status.PARTIAL if holes else Status.OK if listed else Status.EMPTY,
        names=dict(texts.values()),
    )


_SUMS = (
    "count(*), coalesce(sum(kernels), 0), coalesce(sum(time), 0), coalesce(sum(api), 0), count(queue), "
    "count(*) FILTER (api > whole)"
)
_MEASURES = "median(api), max(api), sum(queue), median(queue), max(queue)"


@dataclass(frozen=True, slots=True)
class _Group:
    """The launches of one kernel name on one device; times in ns. The fields are the columns of the query."""

    gpu: int
    name: int
    launches: int
    kernels: int
    kernel_time: int
    api_time: int
    queued: int
    bound: int
    api_med: float
    api_max: int
    queue_time: int | None
    queue_med: float | None
    queue_max: int | None


def _listed(groups: list[_Group], params: KernelLaunchOverheadParams) -> list[_Group]:
    """The groups that pass the filters, by the time of their API calls."""
    longest = Fraction(str(params.max_avg_kernel_us)) * 1000
    passing = [
        group
        for group in groups
        if group.launches >= params.min_launches
        and (not longest or group.kernel_time * longest.denominator <= longest.numerator * group.kernels)
    ]
    return sorted(passing, key=lambda group: (-group.api_time, group.gpu, group.name))


def _figures(group: _Group) -> tuple[object, ...]:
    return (
        group.launches,
        Fraction(group.api_time, group.launches),
        Fraction(group.api_med),
        group.api_max,
        group.queued,
        ratio(group.queue_time, group.queued),
        None if group.queue_med is None else Fraction(group.queue_med),
        group.queue_max,
        Fraction(group.kernel_time, group.kernels),
        Fraction(group.bound, group.launches),
    )
