"""Busy intervals: the union of work, merged once at ingest, so that no skill repeats the sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .reader import NONE, Ints


def merged(start: Ints, end: Ints) -> tuple[Ints, Ints]:
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
    """Columns start, end and previous_end of the merged intervals; `NONE` where there is no previous one."""
    first, last = merged(start, end)
    return {"start": first, "end": last, "previous_end": np.concatenate([np.array([NONE]), last[:-1]])[: len(last)]}
