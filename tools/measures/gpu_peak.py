"""The peak of a device: what the caller gives, else what the datasheet of its GPU says."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from ..gpus.match import find_gpu
from ..gpus.peaks import PRECISIONS, Precision

if TYPE_CHECKING:
    from ...ingest.manifest import Device

NO_PEAK_HINT = (
    "give peak_tflops (and hbm_bw_gbps for a roofline), or record with an nsys that lists the GPU: "
    "nsys profile --trace=cuda,nvtx …"
)
"""What helps where a peak is not known."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A peak rate and where it comes from.

    Attributes:
        rate: FLOP per ns, or bytes per ns; None where it is not known.
        source: where it comes from, or why it is not known.
    """

    rate: Fraction | None
    source: str


def peak_flops(device: Device, precision: Precision, given: Decimal | None) -> Peak:
    """The peak of a device in FLOP/ns."""
    if given is not None:
        return Peak(Fraction(given) * 1000, "given as peak_tflops")
    if (gpu := find_gpu(device)) is None:
        return Peak(None, _unknown(device))
    if (peak := gpu.peak(precision)) is None:
        given_there = ", ".join(name for name in PRECISIONS if gpu.peak(name) is not None)
        return Peak(None, f"{gpu.reference} gives no {precision} peak of the {gpu.product}, but {given_there}")
    return Peak(Fraction(peak), f"{gpu.product}: {gpu.source(precision)}")


def peak_bandwidth(device: Device, given: Decimal | None) -> Peak:
    """The memory bandwidth of a device in bytes/ns."""
    if given is not None:
        return Peak(Fraction(given), "given as hbm_bw_gbps")
    if (gpu := find_gpu(device)) is None:
        return Peak(None, _unknown(device))
    return Peak(Fraction(gpu.gb_per_s), f"{gpu.product}: {gpu.reference}")


def _unknown(device: Device) -> str:
    if device.name is None:
        return "the capture does not name the GPU"
    return f"no peaks are known of {device.name!r}"
