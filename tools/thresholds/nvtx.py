"""What decides in the skills about NVTX ranges."""

from __future__ import annotations

from .kinds import PatternTable, Threshold

NUMBERED_SIBLINGS = Threshold(
    name="numbered siblings",
    value=3,
    unit="count",
    decides="so many ranges under one parent whose names differ by a number make their depth the one of layers",
    skills=("nvtx_layer_breakdown",),
)

OUTLIER_DEVIATIONS = Threshold(
    name="outlier deviations",
    value=3,
    unit="median absolute deviations",
    decides="an outlier's projected time is more than so far above the median of its region",
    skills=("nvtx_layer_breakdown",),
)

OUTLIER_EXCESS = Threshold(
    name="outlier excess",
    value=10,
    unit="%",
    decides="an outlier's projected time is also more than so much above the median of its region",
    skills=("nvtx_layer_breakdown",),
)

SYNC_PATTERNS = PatternTable(
    name="synchronising names",
    how="a whole word of the last component (after ::) of a range's name, PyTorch's counters cut, or of an API call's",
    rows=(
        ("item", "PyTorch reads a scalar from the device"),
        ("_local_scalar_dense", "the operator that does so"),
        ("cudaStreamSynchronize", "waits for a stream"),
        ("cudaDeviceSynchronize", "waits for the device"),
        ("cudaEventSynchronize", "waits for an event"),
    ),
    skills=("host_sync_parent_ranges",),
)
