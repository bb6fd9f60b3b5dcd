"""Thresholds of the analysis skills."""

from __future__ import annotations

from .kinds import Threshold

_MATCHER = ("root_cause_matcher", "profile_health_manifest")

SHORT_GAP = Threshold(
    "short gap",
    10_000,
    "ns",
    "shorter gaps of a device belong to launching, whatever the host did",
    ("pipeline_bubble_metrics", *_MATCHER),
)
LOW = Threshold("finding, low", 1, "% of the window", "what takes less is no finding", _MATCHER)
MEDIUM = Threshold("finding, medium", 5, "% of the window", "from here on a finding is medium, below it low", _MATCHER)
HIGH = Threshold("finding, high", 20, "% of the window", "from here on a finding is high, below it medium", _MATCHER)
HOTSPOT = Threshold(
    "kernel hotspot",
    30,
    "% of kernel time",
    "one kernel with this much of kernel time is a hotspot",
    _MATCHER,
)
SHARED_STREAM = Threshold(
    "shared stream",
    5,
    "% of a stream's kernel time",
    "compute has at least this much of a stream that collectives share with it; one stray kernel shares nothing",
    _MATCHER,
)
IMBALANCE = Threshold(
    "rank imbalance",
    10,
    "% of the longest",
    "devices whose communication time differs by at least this much of the longest are out of balance",
    _MATCHER,
)
PAGEABLE = Threshold("pageable copies", 50, "% of bytes", "from here on copies count as pageable", _MATCHER)
