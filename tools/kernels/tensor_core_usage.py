"""What could run on tensor cores and does not."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Pct, Text, ratio
from ..call import Call
from ..measures.graphs import hidden_kernels
from ..registry import NoParams, skill
from ..result import Result
from .tensor_cores import Usage, tensor_core_use
from .tensor_samples import sampled_activity


class TensorCoreUsageRow(Row):
    """One kernel whose name says matrix product, convolution or attention, over all devices in scope."""

    kernel: Text = column("short unique label of the demangled name")
    instances: Count = column("launches that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    status: Text = column("used, unused or unknown, by the kernel's name")
    why: Text | None = column("part of the name, in lower case, that decided; null for unknown")


class TensorCoreUsageTotals(Row):
    """All kernels that could use tensor cores, in scope."""

    kernels: Count = column("different kernel names that could use tensor cores")
    instances: Count = column("their launches")
    eligible_ms: Ms = column("their time: used + unused + unknown")
    used_ms: Ms = column("time of kernels that use them")
    unused_ms: Ms = column("time of kernels that do not")
    unknown_ms: Ms = column("time of kernels whose name does not tell")
    used_pct: Pct | None = column("used", of="eligible_ms")
    unused_pct: Pct | None = column("unused", of="eligible_ms")
    unknown_pct: Pct | None = column("unknown", of="eligible_ms")
    eligible_pct: Pct | None = column("kernels that could use tensor cores", of="kernel time in scope, over devices")


_CYCLES = "cycles of the sample period, over the SMs of the GPU"


class SampledRow(Row):
    """One metric of tensor activity of one GPU."""

    device: Id | None = column("CUDA device id; null where the capture does not say which device the GPU is")
    process: Id | None = column("process id, where several processes have this device id")
    gpu: Id = column("number under which the capture lists the GPU")
    metric: Text = column("name of the metric")
    pipes: Text = column("whose activity it is: tensor, or tensor or FP16 where the GPU does not tell them apart")
    samples: Count = column("samples taken in the window")
    mean_pct: Pct | None = column("mean of the samples; null without any", of=_CYCLES)
    max_pct: Pct | None = column("largest sample", of=_CYCLES)


@skill(
    title="Tensor core usage",
    when="To see which matrix products, convolutions and attention kernels use no tensor cores.",
    row=TensorCoreUsageRow,
    totals=TensorCoreUsageTotals,
    tables={"sampled": SampledRow},
    needs=("kernels",),
    next=("kernel_instances", "nvtx_kernel_map"),
)
def tensor_core_usage(call: Call[NoParams]) -> Result:
    """One row per kernel name that says matrix product, convolution or attention: unused first, then by time.

    The name decides, not a measurement: the first pattern of the table that it holds (see the thresholds). A name
    without any is unknown, which is not unused. Kernels of other names are no rows, whatever they do inside.

    Where nsys sampled GPU metrics, table `sampled` has what the hardware counted: the share of cycles in which tensor
    pipes were active, over all of the GPU, idle time and other processes included. It is of no single kernel.
    """
    in_scope = f"FROM kernels WHERE {call.on_devices} AND {call.in_window}"
    groups = call.sql(f"SELECT name, count(*), sum({call.clipped}) {in_scope} GROUP BY name")
    labels = call.kernel_labels(name for name, *_ in groups)
    found = [
        (name, count, time, use)
        for name, count, time in groups
        if (use := tensor_core_use(labels[name][1])) is not None
    ]
    order = list(_ORDER)
    found.sort(key=lambda kernel: (order.index(kernel[3].usage), -kernel[2], kernel[0]))
    shown = call.page_of(found)
    times = {usage: sum(time for _, _, time, use in found if use.usage is usage) for usage in Usage}
    eligible = sum(times.values())
    holes = hidden_kernels(call)
    sampled, sampling = sampled_activity(call)
    notes = ["tensor core use is inferred from kernel names"] if found else []
    return Result(
        rows=[(labels[name][0], count, time, use.usage.value, use.why) for name, count, time, use in shown],
        total_rows=len(found),
        totals={
            "kernels": len(found),
            "instances": sum(count for _, count, *_ in found),
            "eligible_ms": eligible,
            **{f"{usage.value}_ms": time for usage, time in times.items()},
            **{f"{usage.value}_pct": ratio(time, eligible) for usage, time in times.items()},
            "eligible_pct": ratio(eligible, sum(time for _, _, time in groups)),
        },
        tables=sampled,
        notes=[*holes, *notes, *sampling],
        status=Status.PARTIAL if holes else Status.OK if found else Status.EMPTY,
        names=dict(labels[name] for name, *_ in shown),
    )


_ORDER = (Usage.UNUSED, Usage.UNKNOWN, Usage.USED)
"""What a reader looks for comes first."""
