"""Where a device stands on the roofline."""

from __future__ import annotations

from fractions import Fraction

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, GbPerS, Id, Ms, Pct, Text, Tflops, ratio
from ..call import Call
from ..gpus.peaks import Precision
from ..measures.gpu_peak import NO_PEAK_HINT, peak_bandwidth, peak_flops
from ..measures.quantities import ByteCount, FlopCount, Rate, in_percent
from ..registry import Params, skill
from ..result import AbstentionError, Result


class ArithmeticIntensityParams(Params):
    """Parameters of `arithmetic_intensity`."""

    theoretical_flops: FlopCount = Field(description="FLOPs of one device in the window")
    bytes_moved: ByteCount | None = Field(None, description="bytes of device memory it reads and writes")
    peak_tflops: Rate | None = Field(None, description="peak of the GPU; default: its datasheet")
    hbm_bw_gbps: Rate | None = Field(None, description="memory bandwidth in GB/s; default: datasheet")
    precision: Precision = Field("bf16", description="which datasheet peak")


class ArithmeticIntensityRow(Row):
    """One device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    kernel_busy_ms: Ms = column("time with a kernel or a whole graph running, in the window")
    achieved_tflops: Tflops | None = column("theoretical_flops over kernel_busy_ms")
    mfu_pct: Pct | None = column("achieved_tflops; null where unknown or above the peak", of="peak_tflops")
    intensity_flop_per_byte: Factor | None = column("theoretical_flops over bytes_moved; null without bytes_moved")
    ridge_flop_per_byte: Factor | None = column("peak over memory bandwidth: below it memory limits")
    bound: Text | None = column("compute from the ridge on, memory below it; null where either is unknown")
    peak_tflops: Tflops | None = column("dense peak of one GPU")
    hbm_gb_per_s: GbPerS | None = column("memory bandwidth of one GPU")
    peak_source: Text = column("where the peak comes from, with its precision, or why it is not known")


class ArithmeticIntensityTotals(Row):
    """All selected devices."""

    devices: Count = column("selected devices")
    kernel_busy_ms: Ms = column("sum over devices")


@skill(
    title="Arithmetic intensity",
    when="To place given FLOPs and bytes on the roofline: is compute or memory the limit.",
    params=ArithmeticIntensityParams,
    row=ArithmeticIntensityRow,
    totals=ArithmeticIntensityTotals,
    needs=("kernels",),
    next=("theoretical_flops", "region_mfu", "tensor_core_usage"),
    example={"theoretical_flops": "2e12", "bytes_moved": "1e10"},
)
def arithmetic_intensity(call: Call[ArithmeticIntensityParams]) -> Result:
    """One row per selected device, an idle one too.

    FLOPs and bytes are given, per device and for the whole window; the capture measures neither. Achieved and MFU are
    against the time that kernels run, so that idle time does not lower them; collectives count as kernels. Peaks are
    dense, without sparsity. A rate above the peak cannot be: it is withheld (a note names it), and where no device has
    a possible one the skill abstains.
    """
    from ..measures.busy import busy_of_devices
    from ..measures.graphs import hidden_in_busy

    params = call.params
    flops = Fraction(params.theoretical_flops)
    intensity = ratio(flops, None if params.bytes_moved is None else Fraction(params.bytes_moved))
    holes, notes = hidden_in_busy(call), list[str]()
    rows, impossible, unknown = list[tuple[object, ...]](), list[str](), list[str]()
    busy = busy_of_devices(call)
    for device in call.devices:
        running = busy[device.gpu].kernel
        peak = peak_flops(device, params.precision, params.peak_tflops)
        bandwidth = peak_bandwidth(device, params.hbm_bw_gbps)
        achieved = ratio(flops, running)
        mfu = ratio(achieved, peak.rate)
        ridge = ratio(peak.rate, bandwidth.rate)
        if peak.rate is None:
            unknown.append(f"device {device.device}: {peak.source}")
        if mfu is not None and mfu > 1:
            impossible.append(f"device {device.device}: {in_percent(mfu)} % of the peak")
            achieved = mfu = None
        bound = None if intensity is None or ridge is None else "compute" if intensity >= ridge else "memory"
        rows.append(
            (
                *call.device_of(device.gpu),
                running,
                achieved,
                mfu,
                intensity,
                ridge,
                bound,
                peak.rate,
                bandwidth.rate,
                peak.source,
            )
        )
    _abstain_where_nothing_is_left(rows, unknown, impossible)
    if impossible:
        notes.append(f"more than the peak, so not possible, and withheld: {'; '.join(impossible)}")
    if unknown:
        notes.append("; ".join(unknown))
    if intensity is None:
        notes.append("give bytes_moved for the intensity and what bounds it")
    whole = sum(of.kernel for of in busy.values())
    partial = bool(holes or impossible or unknown)
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={"devices": len(rows), "kernel_busy_ms": whole},
        notes=[*holes, *notes],
        status=Status.PARTIAL if partial else Status.OK if whole else Status.EMPTY,
    )


def _abstain_where_nothing_is_left(rows: list[tuple[object, ...]], unknown: list[str], impossible: list[str]) -> None:
    """Abstain when no device has a known peak, or none a rate that can be."""
    if rows and len(unknown) == len(rows):
        raise AbstentionError(f"no peak is known: {'; '.join(unknown)}", ["peak_tflops"], NO_PEAK_HINT)
    running = sum(bool(row[2]) for row in rows)
    if impossible and len(impossible) == running:
        reason = f"theoretical_flops do not fit the window: {'; '.join(impossible)}"
        hint = "nothing to record: check theoretical_flops (of one device, in this window), precision and peak_tflops"
        raise AbstentionError(reason, ["plausible theoretical_flops"], hint)
