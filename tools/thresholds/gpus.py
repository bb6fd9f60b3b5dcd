"""What decides which product a GPU of a capture is."""

from __future__ import annotations

from .kinds import Threshold

_USED_BY = ("region_mfu", "arithmetic_intensity")

MEMORY_TOLERANCE = Threshold(
    name="memory of a product",
    value=12,
    unit="%",
    decides="memory may differ by so much from what is sold: GB of 2^30 bytes, and what ECC and firmware keep",
    skills=_USED_BY,
)

BANDWIDTH_TOLERANCE = Threshold(
    name="memory bandwidth of a product",
    value=5,
    unit="%",
    decides="the bandwidth, which captures compute from clocks, may differ by so much from the datasheet's",
    skills=_USED_BY,
)
