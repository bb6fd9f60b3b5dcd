"""How the kernels of each stream follow on one another: gaps, bursts and stalls. All times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ingest.busy import merged
from ...ingest.order import group_bounds
from ...ingest.tables import HOST_CLASSES
from ..call import Call
from .durations import percentile
from .intervals import Cover

Ints = npt.NDArray[np.int64]

BURST_GAP = 10_000
"""A gap of this length or more ends a burst."""

STALL = 1_000_000
"""A gap of this length or more is a stall, where the host spent half of it waiting for the GPU."""


@dataclass(frozen=True, slots=True)
class LongGaps:
    """Gaps of `STALL` or more of a stream.

    Attributes:
        start: starts, ascending.
        end: ends.
        thread: the thread that launched the kernel at the end of each; -1 where that was not recorded. Should several
            kernels start at that instant, the first of them in the order of the table.
    """

    start: Ints
    end: Ints
    thread: Ints


@dataclass(frozen=True, slots=True)
class StreamPattern:
    """How a stream with kernels in the window was fed in it. Times are cut at the window's edges.

    Graphs that were traced as a whole take their time as kernels do, but are not counted.

    Attributes:
        stream: the stream.
        kernels: kernels that overlap the window.
        clipped: those of them that cross an edge of it.
        first: where the first kernel of some length starts.
        last: where the last one ends.
        busy: the union of the kernels; the rest of the time from first to last is in the gaps.
        gaps: how many stretches there are without a kernel between first and last.
        gap_p99: the 99th percentile of their lengths; None without gaps, like `gap_max`.
        gap_max: the longest.
        bursts: how many times two or more kernels followed on each other with gaps under `BURST_GAP` alone.
        burst_kernels: how many kernels were in bursts.
        long_gaps: the gaps that may be stalls.
    """

    stream: int
    kernels: int
    clipped: int
    first: int
    last: int
    busy: int
    gaps: int
    gap_p99: Fraction | None
    gap_max: int | None
    bursts: int
    burst_kernels: int
    long_gaps: LongGaps

    @property
    def extent(self) -> int:
        """The time from the first start to the last end."""
        return self.last - self.first


def stream_patterns(call: Call[Any]) -> Iterator[StreamPattern]:
    """The streams of the selected devices that have kernels in the window, in order."""
    work = call.arrays(
        " UNION ALL ".join(
            f"""SELECT stream, start, "end", coalesce(thread, -1) AS thread, {counts} AS counts
            FROM {table} WHERE {call.on_devices} AND {call.in_window}"""
            for table, counts in (("kernels", "TRUE"), ("graphs", "FALSE"))
        )
    )
    streams = int(work["stream"].max(initial=-1)) + 1
    order, bounds = group_bounds(work["stream"], streams)
    for stream in np.unique(work["stream"][work["counts"]]).tolist():
        mine = order[bounds[stream] : bounds[stream + 1]]
        mine = mine[np.argsort(work["start"][mine], kind="stable")]
        yield _pattern(call, stream, {name: values[mine] for name, values in work.items()})


def _pattern(call: Call[Any], stream: int, work: dict[str, npt.NDArray[Any]]) -> StreamPattern:
    a, b = call.window.start_ns, call.window.end_ns
    start, end = np.maximum(work["start"], a), np.minimum(work["end"], b)
    lasting = end > start
    first, last = merged(start, end)
    length = first[1:] - last[:-1]
    ascending = np.sort(length)
    bursts = _bursts(first, length, start[lasting & work["counts"]])
    long = np.flatnonzero(length >= STALL)
    after = first[long + 1]
    thread = work["thread"][lasting][np.searchsorted(start[lasting], after)]
    return StreamPattern(
        stream=stream,
        kernels=int(work["counts"].sum()),
        clipped=int((work["counts"] & ((work["start"] < a) | (work["end"] > b))).sum()),
        first=int(first[0]) if len(first) else a,
        last=int(last[-1]) if len(first) else a,
        busy=int((last - first).sum()),
        gaps=len(length),
        gap_p99=percentile(ascending, 99),
        gap_max=int(ascending[-1]) if len(length) else None,
        bursts=len(bursts),
        burst_kernels=int(bursts.sum()),
        long_gaps=LongGaps(last[long], after, thread),
    )


def _bursts(first: Ints, gaps: Ints, kernels: Ints) -> Ints:
    """How many kernels each burst has, given starts of busy stretches, the gaps between those, and kernels' starts."""
    heads = np.concatenate([first[:1], first[1:][gaps >= BURST_GAP]])
    counts = np.diff(np.append(np.searchsorted(kernels, heads), len(kernels)))
    found: Ints = counts[counts > 1]
    return found


def sync_stalls(call: Call[Any], patterns: Sequence[StreamPattern]) -> Counter[int]:
    """How many of the long gaps of each stream their thread spent at least half of in synchronisation calls."""
    stalls: Counter[int] = Counter()
    for thread in sorted({thread for of in patterns for thread in np.unique(of.long_gaps.thread).tolist()} - {-1}):
        syncs = call.arrays(
            f"""SELECT start, "end" FROM calls WHERE host_class = {HOST_CLASSES.index("sync")} AND thread = {thread}
            AND start < {call.window.end_ns} AND "end" > {call.window.start_ns}"""
        )  # in the order of the table: by start
        waiting = Cover(syncs["start"], syncs["end"])
        for of in patterns:
            mine = of.long_gaps.thread == thread
            start, end = of.long_gaps.start[mine], of.long_gaps.end[mine]
            stalls[of.stream] += int((2 * waiting.within(start, end) >= end - start).sum())
    return stalls


def copies_in_gaps(call: Call[Any], patterns: Sequence[StreamPattern]) -> int:
    """On how many of these streams copies or sets ran in gaps between kernels."""
    work = call.arrays(
        f"""SELECT stream, start, "end" FROM stream_busy
        WHERE {call.on_devices} AND start < {call.window.end_ns} AND "end" > {call.window.start_ns}"""
    )  # in the order of the table: by stream
    found = 0
    for of in patterns:
        mine = slice(*np.searchsorted(work["stream"], [of.stream, of.stream + 1]))
        busy = np.minimum(work["end"][mine], of.last) - np.maximum(work["start"][mine], of.first)
        found += int(busy[busy > 0].sum()) > of.busy
    return found
