"""Host events of some kinds in the window: how many, how long, and how long devices idle meanwhile. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..call import Call
from .idle_during import IdleDevices, by_key
from .intervals import merged_length

Events = Mapping[str, npt.NDArray[Any]]
"""Columns key, process, start and end of events in the window."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Some events of the host.

    Attributes:
        count: how many overlap the window.
        clipped: how many of them cross an edge of the window.
        total: the sum of durations, clipped to the window.
        longest: the longest whole duration; None of none.
        later: how many of them start at or after an instant asked about; None where none was.
        busy: the time within the window in which a process was in any of them: a union per process, summed over
            processes.
        idle: for how long devices idle meanwhile, summed over devices; None where no device is known to be used by
            their processes.
    """

    count: int
    clipped: int
    total: int
    longest: int | None
    later: int | None
    busy: int
    idle: int | None


class HostStretches:
    """Events of the host in the window, by key.

    Args:
        call: the call, for its window and devices.
        events: SQL that selects the columns `key`, `process` (integers, not null), `start` and `"end"`.
        after: the instant that `Stretches.later` is about.
    """

    def __init__(self, call: Call[Any], events: str, after: int | None = None) -> None:
        self._window, self._after = call.window, after
        self._events: Events = call.arrays(f'SELECT key, process, start, "end" FROM ({events}) WHERE {call.in_window}')
        self._idle = IdleDevices(call)

    def rows(self) -> Sequence[tuple[int, Stretches]]:
        """Key and figures, by total time, ties by key."""
        found = [(key, self._figures(mine)) for key, mine in by_key(self._events)]
        return sorted(found, key=lambda row: (-row[1].total, row[0]))

    def together(self, keys: Sequence[int] | None = None) -> Stretches:
        """The figures of all events, or of those of some keys."""
        if keys is None:
            return self._figures(self._events)
        mine = np.isin(self._events["key"], keys)
        return self._figures({name: values[mine] for name, values in self._events.items()})

    def _figures(self, events: Events) -> Stretches:
        start, end = events["start"], events["end"]
        first, last = np.maximum(start, self._window.start_ns), np.minimum(end, self._window.end_ns)
        of_processes = by_key({"key": events["process"], "start": first, "end": last})
        return Stretches(
            count=len(start),
            clipped=int(((first > start) | (last < end)).sum()),
            total=int(np.maximum(last - first, 0).sum()),
            longest=int((end - start).max()) if len(start) else None,
            later=None if self._after is None else int((start >= self._after).sum()),
            busy=sum(merged_length(mine["start"], mine["end"]) for _, mine in of_processes),
            idle=self._idle.during(events),
        )
