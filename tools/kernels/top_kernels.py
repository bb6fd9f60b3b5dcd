"""Which kernels take the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import MAX_ROWS, Status
from ...contracts.units import Count, Id, Ms, Pct, Text, Us, ratio
from ..call import Call
from ..measures.durations import Durations, duration_sql, durations_of
from ..measures.graphs import hidden_kernels
from ..registry import Params, skill
from ..result import Result, Table
from .tensor_cores import tensor_core_column


class TopKernelsParams(Params):
    """Parameters of `top_kernels`."""

    by_device: bool = Field(False, description="also give, in table by_device, each kernel shown on each device")


class TopKernelsRow(Row):
    """One kernel name, over all devices in scope."""

    kernel: Text = column("short unique label of the demangled name")
    instances: Count = column("launches that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    share_pct: Pct | None = column("its part of the total", of="kernel time in scope, over devices")
    avg_us: Us = column("mean duration of whole launches")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    stddev_us: Us | None = column("sample standard deviation of durations; null for a single launch")
    tensor_core: Text = column("used, eligible_unused, not_eligible or unknown, by the kernel's name")


class TopKernelsTotals(Row):
    """All kernels in scope."""

    kernels: Count = column("different kernel names")
    instances: Count = column("kernel launches")
    total_ms: Ms = column("sum of kernel durations, clipped to the window, over devices")
    busy_ms: Ms = column("time with a kernel or a whole graph running, per device, summed over devices")
    clipped: Count = column("launches that cross an edge of the window")


class ByDeviceRow(Row):
    """One kernel name on one device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    kernel: Text = column("short unique label of the demangled name")
    instances: Count = column("launches that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    share_pct: Pct | None = column("its part of the device's total", of="kernel time of the device in scope")
    avg_us: Us = column("mean duration of whole launches")
    med_us: Us = column("median duration")
    min_us: Us = column("shortest duration")
    max_us: Us = column("longest duration")
    stddev_us: Us | None = column("sample standard deviation of durations; null for a single launch")


@skill(
    title="Top kernels",
    when="To see which GPU kernels take the time, by name.",
    params=TopKernelsParams,
    row=TopKernelsRow,
    totals=TopKernelsTotals,
    tables={"by_device": ByDeviceRow},
    needs=("kernels",),
    max_rows=15,
    next=("kernel_instances", "kernel_launch_overhead"),
)
def top_kernels(call: Call[TopKernelsParams]) -> Result:
    """One row per demangled name, by total time.

    total_ms adds up concurrent kernels and may exceed busy_ms and the window; busy_ms never exceeds the span times the
    number of devices. Times are clipped to the window; avg, med, min, max and stddev are of whole launches.
    tensor_core is inferred from the kernel's name. The full names of the labels are kept with the evidence
    (get_evidence) and shown by kernel_instances.
    """
    in_scope = f"FROM kernels WHERE {call.on_devices} AND {call.in_window}"
    groups = [
        (name, durations_of(measures))
        for name, *measures in call.sql(f"SELECT name, {duration_sql(call)} {in_scope} GROUP BY name")
    ]
    groups.sort(key=lambda group: (-group[1].total, group[0]))
    all_time = sum(of.total for _, of in groups)
    [(busy,)] = call.sql(
        f"SELECT sum({call.clipped}) FROM busy WHERE kind = 'kernel' AND {call.on_devices} AND {call.in_window}"
    )
    shown = groups[call.offset : call.offset + call.max_rows]
    texts = call.kernel_labels(name for name, _ in shown)
    holes = hidden_kernels(call)
    notes = ["tensor_core is inferred from kernel names"] if shown else []
    return Result(
        rows=[(texts[name][0], *_figures(of, all_time), tensor_core_column(texts[name][1])) for name, of in shown],
        total_rows=len(groups),
        totals={
            "kernels": len(groups),
            "instances": sum(of.count for _, of in groups),
            "total_ms": all_time,
            "busy_ms": busy or 0,
            "clipped": sum(of.clipped for _, of in groups),
        },
        tables={"by_device": _by_device(call, [name for name, _ in shown], texts)} if call.params.by_device else {},
        notes=holes + notes,
        status=Status.PARTIAL if holes else Status.OK if groups else Status.EMPTY,
        names=dict(texts.values()),
    )


def _figures(of: Durations, whole: int) -> tuple[object, ...]:
    share = ratio(of.total, whole)
    return (of.count, of.total, share, of.avg, of.med, of.shortest, of.longest, of.stddev)


def _by_device(call: Call[TopKernelsParams], names: Sequence[int], texts: Mapping[int, tuple[str, str]]) -> Table:
    """The kernels shown, in the same order, on each device in turn."""
    in_scope = f"FROM kernels WHERE {call.on_devices} AND {call.in_window}"
    device_time = dict(call.sql(f"SELECT gpu, sum({call.clipped}) {in_scope} GROUP BY gpu"))
    wanted = ", ".join(map(str, names)) or "NULL"
    groups = call.sql(f"SELECT name, gpu, {duration_sql(call)} {in_scope} AND name IN ({wanted}) GROUP BY name, gpu")
    place = {name: index for index, name in enumerate(names)}
    groups.sort(key=lambda group: (place[group[0]], group[1]))
    rows = [
        (*call.device_of(gpu), texts[name][0], *_figures(durations_of(measures), device_time[gpu]))
        for name, gpu, *measures in groups[:MAX_ROWS]
    ]
    return Table(rows, total_rows=len(groups))
