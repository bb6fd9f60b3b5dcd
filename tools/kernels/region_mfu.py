"""Model FLOPs utilisation of one region."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Pct, Text, Tflops, ratio
from ..call import Call
from ..gpus.peaks import Precision
from ..measures.gpu_peak import Peak, peak_flops
from ..measures.quantities import FlopCount, Rate, in_percent
from ..registry import Params, skill
from ..result import AbstentionError, Result
from .named_region import Region, find_kernel, find_range, what_there_is


class RegionMfuParams(Params):
    """Parameters of `region_mfu`."""

    name: str = Field(min_length=1, description="of the region, case-sensitive")
    theoretical_flops: FlopCount = Field(description="FLOPs of one occurrence, over num_gpus")
    source: Literal["nvtx", "kernel"] = Field("nvtx", description="what the region is: a range or a kernel")
    match_mode: Literal["contains", "exact", "startswith"] = Field("contains", description="how name is compared")
    occurrence_index: int = Field(1, ge=1, le=2**31 - 1, description="by start, within a process")
    peak_tflops: Rate | None = Field(None, description="peak of one GPU; default: its datasheet")
    precision: Precision = Field("bf16", description="which datasheet peak")
    num_gpus: int = Field(1, ge=1, le=10**6, description="GPUs that share the FLOPs")


class RegionMfuRow(Row):
    """One occurrence of the region. All times are whole, also where they cross an edge of the window."""

    region: Text = column("name of the range, or label of the kernel")
    occurrence: Count = column("which one, by start, from 1")
    occurrences: Count = column("how many of the process start in the window")
    process: Id | None = column("process id")
    host_ms: Ms | None = column("duration of the range on the host; null of a kernel")
    gpu_ms: Ms | None = column("first start to last end of the GPU work launched in it; null without any")
    busy_ms: Ms = column("time with any of that work running")
    kernels: Count = column("kernels launched in it")
    achieved_tflops: Tflops | None = column("per GPU: theoretical_flops over gpu_ms and num_gpus")
    mfu_pct: Pct | None = column("achieved_tflops; null without a known peak", of="peak_tflops")
    host_achieved_tflops: Tflops | None = column("per GPU: theoretical_flops over host_ms and num_gpus")
    host_mfu_pct: Pct | None = column("host_achieved_tflops; null where unknown or above the peak", of="peak_tflops")
    peak_tflops: Tflops | None = column("dense peak of one GPU")
    peak_source: Text = column("where the peak comes from, with its precision, or why it is not known")
    tid: Id | None = column("thread id of the range; of a kernel that of its launching call")


@skill(
    title="Region MFU",
    when="To compute the model FLOPs utilisation of an NVTX region or a kernel from its FLOPs.",
    params=RegionMfuParams,
    row=RegionMfuRow,
    needs=("kernels",),
    window="capture",
    one_of=("nvtx",),
    next=("theoretical_flops", "arithmetic_intensity", "tensor_core_usage"),
    example={"name": "forward", "theoretical_flops": "1e12"},
)
def region_mfu(call: Call[RegionMfuParams]) -> Result:
    """One row: one occurrence of a region that starts in the window, in one process.

    GPU work (kernels, copies, sets, whole graphs, on the selected devices) belongs to a push/pop range when its
    thread's API call lies inside; what other threads launch meanwhile, as PyTorch's backward pass is, does not, and a
    note counts it. MFU is against the span of that work (gpu_ms) and against the range itself (host_ms), which says
    little where the host runs ahead. Where several processes match, the lowest with work on the selected devices is
    looked at. The peak is dense. An MFU outside (0, 100] % cannot be: the skill abstains, naming it.
    """
    params = call.params
    region = find_range(call) if params.source == "nvtx" else find_kernel(call)
    if region is None:
        return Result([], 0, {}, notes=[what_there_is(call)], status=Status.EMPTY)
    flops = Fraction(params.theoretical_flops) / params.num_gpus
    peak = _peak(call, region)
    gpu = region.gpu[1] - region.gpu[0] if region.gpu else None
    achieved = ratio(flops, gpu)
    mfu = ratio(achieved, peak.rate)
    if mfu is not None and mfu > 1:
        raise AbstentionError(
            f"an MFU of {in_percent(mfu)} % of the peak ({peak.source}) is not possible: {region.label} did not do "
            f"{params.theoretical_flops:f} FLOP on {params.num_gpus} GPU in {gpu} ns",
            ["plausible theoretical_flops"],
            "nothing to record: check theoretical_flops (of one occurrence), num_gpus, precision and peak_tflops",
        )
    on_host = ratio(flops, region.host) if region.gpu else None
    host_mfu = ratio(on_host, peak.rate)
    notes = [*region.notes, *_doubts(call, region, peak)]
    if host_mfu is not None and host_mfu > 1:
        notes.append(f"host_mfu_pct is withheld: {in_percent(host_mfu)} %, since the host did not wait for the GPU")
        on_host = host_mfu = None
    row = (
        region.label,
        params.occurrence_index,
        region.occurrences,
        region.pid,
        region.host,
        gpu,
        region.busy,
        region.kernels,
        achieved,
        mfu,
        on_host,
        host_mfu,
        peak.rate,
        peak.source,
        region.tid,
    )
    partial = region.graphs or not region.gpu or peak.rate is None
    return Result(
        rows=call.page_of([row]), total_rows=1, totals={}, notes=notes, status=Status.PARTIAL if partial else Status.OK
    )


def _peak(call: Call[RegionMfuParams], region: Region) -> Peak:
    """The peak of the GPUs that the region ran on; of all selected ones where it ran on none."""
    devices = [device for device in call.devices if not region.gpus or device.gpu in region.gpus]
    peaks = {peak_flops(device, call.params.precision, call.params.peak_tflops) for device in devices}
    if len(peaks) == 1:
        return peaks.pop()
    return Peak(None, "the region ran on GPUs with different peaks" if peaks else "no device with GPU work")


def _doubts(call: Call[RegionMfuParams], region: Region, peak: Peak) -> list[str]:
    """What a reader should know before using the figures."""
    notes = []
    if not region.gpu:
        notes.append("no recorded GPU work was launched in it on the selected devices")
    elif len(region.gpus) > call.params.num_gpus:
        notes.append(f"its work ran on {len(region.gpus)} devices, and num_gpus is {call.params.num_gpus}")
    if peak.rate is None:
        notes.append(f"no peak: {peak.source}; give peak_tflops for an MFU")
    if max(region.end, region.gpu[1] if region.gpu else 0) > call.window.end_ns:
        notes.append("it reaches beyond the window: its figures are whole")
    return notes
