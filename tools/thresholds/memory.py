"""Thresholds of the memory skills."""

from __future__ import annotations

from .kinds import Threshold

INIT_WINDOW_PCT = Threshold(
    name="start of a window",
    value=10,
    unit="% of span",
    decides="how much of the window counts as its start, where initial uploads belong",
    skills=("h2d_distribution",),
)
INIT_HEAVY_PCT = Threshold(
    name="init_heavy",
    value=80,
    unit="% of bytes",
    decides="at least this share of bytes at the start of the window makes the pattern init_heavy",
    skills=("h2d_distribution",),
)
SPIKE_TIMES = Threshold(
    name="spike",
    value=3,
    unit="times",
    decides="a bucket with more than this many times the median bytes makes the pattern spike",
    skills=("h2d_distribution",),
)
MOST_BUCKETS = Threshold(
    name="most buckets",
    value=100_000,
    unit="count",
    decides="a window of more buckets than this is refused: bucket_s is too short for it",
    skills=("h2d_distribution",),
)
PEAK_BYTES = Threshold(
    name="copies that show the peak",
    value=1 << 20,
    unit="bytes",
    decides="peak throughput is looked for among copies of at least this size",
    skills=("memory_bandwidth",),
)
SMALL_BYTES = Threshold(
    name="small copies",
    value=64 << 10,
    unit="bytes",
    decides="a copy of fewer bytes than this is small: latency, not bandwidth, decides how long it takes",
    skills=("memory_bandwidth",),
)
