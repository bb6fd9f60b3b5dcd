"""What the host did during a stretch of time, on the threads that launch work for a device. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ingest.tables import HOST_CLASSES
from .call import Call
from .intervals import Cover, Ints

NO_CUDA_CALL = "no_cuda_call"
"""The class of time in which none of the threads was in a CUDA API call."""

CLASSES = (*HOST_CLASSES, NO_CUDA_CALL)
"""What the host may have done; ties between classes go to the earlier one."""


@dataclass(frozen=True, slots=True)
class HostActivity:
    """What covers most of a stretch.

    Attributes:
        host: the class, one of `CLASSES`.
        call_name: string id of the call of that class that overlaps the stretch longest (ties: the earliest start,
            then the name); None for `no_cuda_call`.
    """

    host: str
    call_name: int | None


class HostCalls:
    """The CUDA API calls of the threads that launch work for one device, in the part of the capture that was asked for.

    Args:
        columns: start, "end", host_class and name of the calls, sorted by start.
    """

    def __init__(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self._start, self._end = columns["start"], columns["end"]
        self._name = columns["name"]
        self._rows = [np.flatnonzero(columns["host_class"] == code) for code in range(len(HOST_CLASSES))]
        self._covers = [Cover(self._start[rows], self._end[rows]) for rows in self._rows]
        self._any = Cover(self._start, self._end)
        self._reach: dict[int, Ints] = {}

    def lengths(self, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """For each stretch [start, end) a row: how much of it each of `CLASSES` covers.

        Each class is the union of its calls over the threads, so classes may overlap; `no_cuda_call` is what no call
        covers.
        """
        covered = [cover.within(start, end) for cover in self._covers]
        return np.stack([*covered, end - start - self._any.within(start, end)], axis=1)

    def activities(self, start: Ints, end: Ints) -> list[HostActivity]:
        """What covers most of each stretch [start, end); for the few that are shown."""
        most = self.lengths(start, end).argmax(axis=1).tolist()  # of equal ones the first
        stretches = zip(most, start.tolist(), end.tolist(), strict=True)
        return [HostActivity(CLASSES[code], self._longest(code, first, last)) for code, first, last in stretches]

    def _longest(self, code: int, start: int, end: int) -> int | None:
        if CLASSES[code] == NO_CUDA_CALL:
            return None
        rows = self._rows[code]
        if code not in self._reach:
            self._reach[code] = np.maximum.accumulate(self._end[rows])
        low = int(np.searchsorted(self._reach[code], start, side="right"))  # all before have ended
        high = int(np.searchsorted(self._start[rows], end, side="left"))
        rows = rows[low:high]
        overlap = np.minimum(self._end[rows], end) - np.maximum(self._start[rows], start)
        best = rows[overlap == overlap.max()]
        first = best[self._start[best] == self._start[best[0]]]
        return int(self._name[first].min())


def launching_threads(call: Call[Any]) -> dict[int, tuple[int, ...]]:
    """The threads that launched any work of each selected device, in the whole capture, by `gpu`."""
    work = " UNION ALL ".join(
        f"SELECT gpu, thread FROM {table} WHERE {call.on_devices}" for table in ("kernels", "graphs", "copies", "sets")
    )
    rows = call.sql(f"SELECT DISTINCT gpu, thread FROM ({work}) WHERE thread IS NOT NULL ORDER BY gpu, thread")
    return {device.gpu: tuple(thread for gpu, thread in rows if gpu == device.gpu) for device in call.devices}


def host_calls(call: Call[Any], threads: tuple[int, ...], start: int, end: int) -> HostCalls:
    """The calls of these threads that overlap [start, end)."""
    return HostCalls(
        call.arrays(
            f"""SELECT start, "end", host_class, name FROM calls
            WHERE thread IN ({", ".join(map(str, threads)) or "NULL"}) AND start < {end} AND "end" > {start}"""
        )  # in the order of the table: by start
    )


def activities(call: Call[Any], stretches: Sequence[tuple[int, int, int]]) -> list[HostActivity | None]:
    """What the host did for a device during each of a few stretches (`gpu`, start, end).

    None where it is not known which threads launch the device's work.
    """
    threads = launching_threads(call) if stretches else {}
    found: dict[tuple[int, int, int], HostActivity] = {}
    for mine in sorted(set(threads.values()) - {()}):  # devices may share their threads
        these = [stretch for stretch in stretches if threads[stretch[0]] == mine]
        if not these:
            continue
        start = np.array([first for _, first, _ in these], np.int64)
        end = np.array([last for _, _, last in these], np.int64)
        calls = host_calls(call, mine, int(start.min()), int(end.max()))
        found.update(zip(these, calls.activities(start, end), strict=True))
    return [found.get(stretch) for stretch in stretches]
