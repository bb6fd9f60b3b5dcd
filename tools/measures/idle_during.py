"""How long devices idle while something happens on the host, on threads of the processes that use them. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ingest.busy import merged
from ..call import Call
from .intervals import Cover, Ints


class IdleDevices:
    """The idle time of the selected devices within the window: no kernel, graph, copy or set runs."""

    def __init__(self, call: Call[Any]) -> None:
        self._window = call.window
        busy = call.arrays(
            f"""SELECT gpu, start, "end" FROM busy
            WHERE kind = 'work' AND {call.on_devices} AND start < {call.window.end_ns}
                AND "end" > {call.window.start_ns} ORDER BY gpu, start"""
        )
        self._busy: dict[int, Cover] = {}
        self._users: dict[int, list[int]] = {}
        for gpu, process in call.sql(
            f"SELECT DISTINCT gpu, process FROM streams WHERE {call.on_devices} ORDER BY gpu, process"
        ):
            mine = slice(*np.searchsorted(busy["gpu"], [gpu, gpu + 1]))
            self._busy.setdefault(gpu, Cover(busy["start"][mine], busy["end"][mine]))
            self._users.setdefault(gpu, []).append(process)

    def during(self, events: Mapping[str, npt.NDArray[Any]]) -> int | None:
        """For how long devices idle while any of some events goes on in a process that uses them.

        The union over the events, on each device apart; a sum over devices. None where there are events, and none is of
        a process that uses a selected device, and where no device is selected.

        Args:
            events: process, start and end of the events, in any order.
        """
        if self._users and not len(events["start"]):
            return 0
        of_devices = [
            self._idle(gpu, events["start"][mine], events["end"][mine])
            for gpu, users in self._users.items()
            if (mine := np.isin(events["process"], users)).any()
        ]
        return sum(of_devices) if of_devices else None

    def _idle(self, gpu: int, start: Ints, end: Ints) -> int:
        order = np.argsort(start, kind="stable")
        first, last = merged(
            np.maximum(start[order], self._window.start_ns), np.minimum(end[order], self._window.end_ns)
        )
        return int((last - first).sum() - self._busy[gpu].within(first, last).sum())


def by_key(events: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[int, dict[str, npt.NDArray[Any]]]]:
    """The events of each value of their column `key`, ascending."""
    order = np.argsort(events["key"], kind="stable")
    keys, counts = np.unique(events["key"], return_counts=True)
    last = np.cumsum(counts)
    for key, low, high in zip(keys.tolist(), last - counts, last, strict=True):
        yield key, {name: values[order[low:high]] for name, values in events.items()}
