"""Which NVTX range was open on a thread at an instant.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .call import Call
from .intervals import Ints

Instant = tuple[int, int]
"""A thread and an instant in ns."""

_FIRST_LOOK = 1024
"""How many ranges are looked at first; most instants lie in a range that began shortly before."""


def innermost_open(call: Call[Any], instants: Iterable[Instant]) -> dict[Instant, int]:
    """String id of the innermost push/pop range, of any domain, with start ≤ instant < end on each thread.

    Of several open ranges the innermost has the latest start, then the earliest end, then is the last in the order of
    the table. Instants in no range are left out.
    """
    by_thread: dict[int, list[int]] = {}
    for thread, instant in set(instants):
        by_thread.setdefault(thread, []).append(instant)
    found: dict[Instant, tuple[int, int]] = {}
    for thread, times in by_thread.items():
        ranges = call.arrays(
            f"""SELECT start, "end" FROM nvtx_ranges
            WHERE thread = {thread} AND start <= {max(times)} AND "end" > {min(times)}"""
        )  # in the order of the table: by start, then falling end
        for instant in times:
            if (row := _last_open(ranges["start"], ranges["end"], instant)) is not None:
                found[thread, instant] = (int(ranges["start"][row]), int(ranges["end"][row]))
    return _names(call, found)


def _last_open(start: Ints, end: Ints, instant: int) -> int | None:
    """The last range that is open at the instant."""
    high, width = int(np.searchsorted(start, instant, side="right")), _FIRST_LOOK
    while high > 0:
        low = max(0, high - width)
        if len(rows := np.flatnonzero(end[low:high] > instant)):
            return low + int(rows[-1])
        high, width = low, width * 8
    return None


def _names(call: Call[Any], found: dict[Instant, tuple[int, int]]) -> dict[Instant, int]:
    """Names of ranges by thread, start and end: of twins the last in the order of the table, which breaks ties so."""
    if not found:
        return {}
    threads = ", ".join(str(thread) for thread in sorted({thread for thread, _ in found}))
    starts = ", ".join(str(start) for start in sorted({start for start, _ in found.values()}))
    rows = call.sql(
        f"""SELECT thread, start, "end", arg_max(name, (domain, name)) FROM nvtx_ranges
        WHERE thread IN ({threads}) AND start IN ({starts}) GROUP BY thread, start, "end" """
    )
    names = {tuple(key): name for *key, name in rows}
    return {instant: names[instant[0], *times] for instant, times in found.items()}
