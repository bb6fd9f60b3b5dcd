"""Busy intervals: the union of work, and where work overlaps, found at ingest, so that no skill repeats the sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .reader import NONE, Ints

Intervals = tuple[Ints, Ints]
"""Starts and ends."""


def merged(start: Ints, end: Ints) -> Intervals:
    """The union of intervals that are sorted by start, as disjoint intervals in order. Those of no length add nothing.

    Intervals that touch are one.
    """
    lasting = end > start
    start, end = start[lasting], end[lasting]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.ones(len(start), bool)
    first[1:] = start[1:] > reach[:-1]
    heads = np.flatnonzero(first)
    return start[heads], reach[np.append(heads[1:] - 1, len(start) - 1)]


def busy_rows(start: Ints, end: Ints) -> dict[str, npt.NDArray[Any]]:
    """Columns start, end and previous_end of merged intervals; `NONE` where there is no previous one."""
    return {"start": start, "end": end, "previous_end": np.concatenate([np.array([NONE]), end[:-1]])[: len(end)]}


def common(one: Intervals, other: Intervals) -> Intervals:
    """What two unions have in common, as disjoint intervals in order; both are merged."""
    start, end, _ = overlapping(*(np.concatenate(edges) for edges in zip(one, other, strict=True)))
    return start, end


def overlapping(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """The stretches in which two or more of some intervals are open, in order: start, end, and how many are open.

    Intervals are half-open and come in any order: those of no length are never open, and one that ends where another
    starts is not open with it. Stretches that touch differ in depth, unless one interval ends there as another starts.
    """
    lasting = end > start
    edges = np.concatenate([np.sort(end[lasting]), np.sort(start[lasting])])
    order = np.argsort(edges, kind="stable")  # of equal edges the ends come first; two sorted runs merge in linear time
    depth = np.cumsum(np.where(order < len(edges) // 2, -1, 1))
    edges = edges[order]
    deep = np.flatnonzero((depth[:-1] > 1) & (edges[1:] > edges[:-1]))
    return edges[deep], edges[deep + 1], depth[deep]
