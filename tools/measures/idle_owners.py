"""Idle time by what the host did meanwhile: every nanosecond has one owner. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ingest.tables import HOST_CLASSES
from ..call import Call
from ..thresholds.analysis import SHORT_GAP
from .gaps import device_gaps_sql
from .host_during import NO_CUDA_CALL, host_calls, launching_threads
from .intervals import Cover, Ints

SHORT, UNKNOWN = "between launches", "unknown"
OWNERS = (SHORT, *HOST_CLASSES, NO_CUDA_CALL, UNKNOWN)
"""Who owns idle time: gaps too short to ask about, else what the host did for most of the gap, if that is known."""


def idle_by_owner(call: Call[Any], since: int | None = None) -> dict[str, tuple[int, int]]:
    """How many gaps each owner has and how long they are together, over the selected devices, in the order of `OWNERS`.

    The gaps are those of `gpu_idle_gaps` at the level of devices, whatever their length: the lengths add up to the idle
    time of the devices. With `since`, only of gaps that begin at that instant or later.
    """
    gaps = device_gaps_sql(call)
    if since is not None:
        gaps = f"SELECT * FROM ({gaps}) WHERE start >= {since}"
    length = '("end" - start)'
    [(short, short_ns)] = call.sql(
        f"SELECT count(*), coalesce(sum({length}), 0)::BIGINT FROM ({gaps}) WHERE {length} < {SHORT_GAP.value}"
    )
    long = call.arrays(
        f'SELECT gpu, start, "end" FROM ({gaps}) WHERE {length} >= {SHORT_GAP.value} ORDER BY start, gpu'
    )
    start, end = long["start"].astype(np.int64), long["end"].astype(np.int64)
    owner = np.full(len(start), OWNERS.index(UNKNOWN))
    groups: dict[tuple[int, ...], Ints] = {}  # devices may share their threads
    if call.profile.recorded("calls"):
        threads = launching_threads(call)
        for group in {threads[device.gpu] for device in call.devices if device.gpu in threads}:
            rows = np.flatnonzero(np.isin(long["gpu"], [gpu for gpu in threads if threads[gpu] == group]))
            if len(rows):
                groups[group] = rows
    calls = host_calls(call, {group: Cover(start[rows], end[rows]) for group, rows in groups.items()})
    for group, rows in groups.items():
        owner[rows] = 1 + calls[group].lengths(start[rows], end[rows]).argmax(axis=1)
    counts = np.bincount(owner, minlength=len(OWNERS))
    lengths = np.zeros(len(OWNERS), np.int64)
    np.add.at(lengths, owner, end - start)
    counts[0], lengths[0] = short, short_ns
    return {name: (count, ns) for name, count, ns in zip(OWNERS, counts.tolist(), lengths.tolist(), strict=True)}
