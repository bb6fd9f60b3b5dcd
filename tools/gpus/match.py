"""Which product of the table a GPU of a capture is; none where it could be two."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..thresholds.gpus import BANDWIDTH_TOLERANCE, MEMORY_TOLERANCE
from ..thresholds.kinds import Threshold
from .peaks import GB, GPUS, GpuPeaks

if TYPE_CHECKING:
    from ...ingest.manifest import Device

_BRAND = re.compile(r"^(?:NVIDIA )?(?:Tesla )?")


def find_gpu(device: Device) -> GpuPeaks | None:
    """The product that the capture's name, chip and memory say; None where they say none, or leave more than one.

    A name that stands for several products ("NVIDIA H100") is told by its memory bandwidth and size, if recorded. A
    name with anything behind it ("MIG 1g.5gb", "Laptop GPU", "Ti") is another GPU.
    """
    if device.name is None:
        return None
    name = _BRAND.sub("", device.name.strip())
    named = [gpu for gpu in GPUS if any(re.fullmatch(pattern, name) for pattern in gpu.names)]
    fitting = [
        gpu
        for gpu in named
        if device.chip in (None, gpu.chip) or gpu.chip is None
        if _near(device.memory_bytes, gpu.memory_gb * GB, MEMORY_TOLERANCE)
    ]
    if len(fitting) > 1:
        by_bandwidth = device.memory_bytes_per_s
        fitting = [gpu for gpu in fitting if _near(by_bandwidth, gpu.gb_per_s * GB, BANDWIDTH_TOLERANCE)]
    return fitting[0] if len(fitting) == 1 else None


def _near(recorded: int | None, sold: int, tolerance: Threshold) -> bool:
    """Whether what was recorded is near what is sold; unknown is no contradiction."""
    return recorded is None or abs(recorded - sold) * 100 <= sold * tolerance.value
