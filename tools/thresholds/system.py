"""What decides in the skills about the system: how close two shares are a tie, which gaps the host is asked about."""

from __future__ import annotations

from .kinds import PatternTable, Threshold

MIXED_POINTS = Threshold(
    name="mixed bound",
    value=5,
    unit="percentage points",
    decides="bound is mixed when the largest share exceeds the second by no more than this",
    skills=("critical_path",),
)

TOP_NAMES = Threshold(
    name="names on the path",
    value=3,
    unit="count",
    decides="how many kernels and how many collectives are listed of each device",
    skills=("critical_path",),
)

STARVED_GAP = Threshold(
    name="starved gap",
    value=10_000,
    unit="ns",
    decides="gaps of a device that are at least so long are looked at",
    skills=("cpu_gpu_pipeline",),
)

STARVED_LEAD = Threshold(
    name="starved lead",
    value=10_000,
    unit="ns",
    decides="a gap is starved when the launch that ends it leads by less than this",
    skills=("cpu_gpu_pipeline",),
)

SYNC_TYPES = PatternTable(
    name="synchronisation calls",
    how="the call's name begins with cuda or cu and the pattern; a version suffix may follow",
    rows=(
        ("DeviceSynchronize", "device"),
        ("CtxSynchronize", "device"),
        ("ThreadSynchronize", "device"),
        ("StreamSynchronize", "stream"),
        ("EventSynchronize", "event"),
        ("StreamWaitEvent", "stream_wait"),
        ("EventQuery", "query"),
        ("StreamQuery", "query"),
    ),
    skills=("sync_cost_analysis",),
)

SYNC_CODES = PatternTable(
    name="codes of synchronisation records",
    how="equal to the recorded code, where the record's API call is not known; CUPTI's numbers, which nsys before "
    "2026 did not keep to",
    rows=(("1", "event"), ("2", "stream_wait"), ("3", "stream"), ("4", "device")),
    skills=("sync_cost_analysis",),
)
