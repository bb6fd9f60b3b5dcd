"""Which NVTX range was open on a thread at an instant.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..call import Call

Instant = tuple[int, int]
"""A thread and an instant in ns."""

_ROWS = 4_000_000
"""Instants are looked up together where about so many ranges of the capture lie between them."""


_BLOCK = 256
"""Ranges that are looked at first, of those that have begun."""


def innermost_open(call: Call[Any], instants: Iterable[Instant]) -> dict[Instant, int]:
    """String id of the innermost push/pop range, of any domain, with start ≤ instant < end on each thread.

    Of several open ranges the innermost has the latest start, then the earliest end, then is the last in the order of
    the table. Instants in no range are left out.
    """
    capture = call.profile.capture_window
    parts = call.profile.manifest.rows.get("nvtx_ranges", 0) // _ROWS + 1
    reach = capture.span_ns // parts if capture else 0
    found: dict[Instant, int] = {}
    for group in _together(instants, reach):
        # In the order of the table, by thread, start, then falling end: the last open range is the innermost.
        ranges = call.arrays(
            f"""SELECT thread, start, "end", name FROM nvtx_ranges
            WHERE thread IN ({", ".join(str(thread) for thread in sorted(group))})
                AND start <= {max(map(max, group.values()))} AND "end" > {min(map(min, group.values()))}"""
        )
        for thread, times in group.items():
            low, high = (int(np.searchsorted(ranges["thread"], thread, side=side)) for side in ("left", "right"))
            start, end, name = (ranges[column][low:high] for column in ("start", "end", "name"))
            latest = np.maximum.accumulate(end)
            for instant in times:
                begun = int(np.searchsorted(start, instant, side="right"))
                first = int(np.searchsorted(latest, instant, side="right"))  # all before it have ended
                row = _last_open(end, first, begun, instant)
                if row is not None:
                    found[thread, instant] = int(name[row])
    return found


def _last_open(end: npt.NDArray[np.int64], first: int, begun: int, instant: int) -> int | None:
    """The last of the rows from `first` to before `begun` that ends after the instant; it is near the end of them."""
    block = _BLOCK
    while begun > first:
        low = max(first, begun - block)
        rows = np.flatnonzero(end[low:begun] > instant)
        if len(rows):
            return low + int(rows[-1])
        begun, block = low, 4 * block
    return None


def _together(instants: Iterable[Instant], reach: int) -> Iterator[dict[int, list[int]]]:
    """The instants by thread, in groups that are no longer than `reach`, one after the other in time."""
    group: dict[int, list[int]] = {}
    began = 0
    for instant, thread in sorted((instant, thread) for thread, instant in set(instants)):
        if group and instant - began > reach:
            yield group
            group = {}
        if not group:
            began = instant
        group.setdefault(thread, []).append(instant)
    if group:
        yield group
