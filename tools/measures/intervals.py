"""Unions of intervals in numpy: their length, and how much of any stretch they cover. All times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...contracts.window import Window
from ...ingest.busy import Intervals, merged
from ..call import Call

Ints = npt.NDArray[np.int64]


def unions(call: Call[Any], events: str) -> dict[int, Intervals]:
    """The union within the window of each group of events, as disjoint intervals in order; perhaps none.

    Args:
        call: the call, for its window.
        events: SQL that selects the columns `key` (an integer, not null), `start` and `"end"`, in any order.
    """
    columns = call.arrays(events)
    start = np.maximum(columns["start"], call.window.start_ns)
    end = np.minimum(columns["end"], call.window.end_ns)
    order = np.lexsort((start, columns["key"]))
    keys, heads = np.unique(columns["key"][order], return_index=True)
    groups = np.split(order, heads[1:])
    return {key: merged(start[mine], end[mine]) for key, mine in zip(keys.tolist(), groups, strict=False)}


def union_lengths(call: Call[Any], events: str) -> dict[int, int]:
    """The length within the window of the union of each group of events; `events` as for `unions`."""
    return {key: int((last - first).sum()) for key, (first, last) in unions(call, events).items()}


def overlapping(
    window: Window, start: npt.NDArray[np.integer[Any]], end: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.bool_]:
    """`Window.overlaps` of each interval."""
    instants = (start >= window.start_ns) & (start <= window.end_ns if window.includes_end else start < window.end_ns)
    return np.where(start == end, instants, (start < window.end_ns) & (end > window.start_ns))


def merged_length(start: Ints, end: Ints) -> int:
    """The length of the union of intervals in any order; those that end before they start add nothing."""
    order = np.argsort(start, kind="stable")
    first, last = merged(start[order], end[order])
    return int((last - first).sum())


class Cover:
    """The union of some intervals, ready to say how much of any stretch it covers.

    Args:
        start: starts, ascending.
        end: ends, in the same order.
    """

    def __init__(self, start: Ints, end: Ints) -> None:
        first, last = merged(start, end)
        self._first, self._last = first, np.append(last, 0)
        self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(last - first)])

    def within(self, start: Ints, end: Ints) -> Ints:
        """The covered length of each stretch [start, end)."""
        return self._until(end) - self._until(start)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last instant of the cover, which is not empty."""
        return int(self._first[0]), int(self._last[-2])

    def touching(self, start: Ints, end: Ints) -> npt.NDArray[np.intp]:
        """The places, ascending, of the intervals that have some time in common with the cover.

        Args:
            start: starts, ascending.
            end: ends, in the same order.
        """
        # Few of many intervals are near the cover: those that have begun before a part of it ends, and before which
        # not all have ended.
        low = np.searchsorted(np.maximum.accumulate(end), self._first, side="right")
        high = np.maximum(np.searchsorted(start, self._last[:-1], side="left"), low)
        opened = np.bincount(low, minlength=len(start) + 1) - np.bincount(high, minlength=len(start) + 1)
        near = np.flatnonzero(np.cumsum(opened))
        start, end = start[near], end[near]
        place = np.searchsorted(self._last[:-1], start, side="right")  # the first part that ends later
        first = np.append(self._first, np.iinfo(np.int64).max)
        return near[(first[place] < end) & (start < end)]

    def _until(self, instant: Ints) -> Ints:
        begun = np.searchsorted(self._first, instant, side="right")
        ahead = np.maximum(self._last[begun - 1] - instant, 0)  # of the interval that the instant lies in
        return self._before[begun] - np.where(begun > 0, ahead, 0)
