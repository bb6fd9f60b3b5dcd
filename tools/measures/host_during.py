"""What the host did during a stretch of time, on the threads that launch work for a device. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ingest.tables import HOST_CLASSES
from ..call import Call
from .intervals import Cover, Ints
from .work import WORK_TABLES

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
        start, end, code = columns["start"], columns["end"], columns["host_class"]
        rows = [np.flatnonzero(code == number) for number in range(len(HOST_CLASSES))]
        self._calls = [(start[mine], end[mine], columns["name"][mine]) for mine in rows]
        self._covers = [Cover(first, last) for first, last, _ in self._calls]
        self._any = Cover(start, end)

    def lengths(self, start: Ints, end: Ints) -> npt.NDArray[np.int64]:
        """For each stretch [start, end) a row: how much of it each of `CLASSES` covers.

        Each class is the union of its calls over the threads, so classes may overlap; `no_cuda_call` is what no call
        covers.
        """
        covered = [cover.within(start, end) for cover in self._covers]
        return np.stack([*covered, end - start - self._any.within(start, end)], axis=1)

    def activities(self, start: Ints, end: Ints) -> list[HostActivity]:
        """What covers most of each stretch [start, end); for the few that are shown."""
        most = self.lengths(start, end).argmax(axis=1)  # of equal ones the first
        found: dict[int, HostActivity] = {}
        for code in set(most.tolist()):
            which = np.flatnonzero(most == code)
            names = self._longest(code, start[which].tolist(), end[which].tolist())
            found.update(zip(which.tolist(), (HostActivity(CLASSES[code], name) for name in names), strict=True))
        return [found[place] for place in range(len(start))]

    def _longest(self, code: int, starts: list[int], ends: list[int]) -> Iterator[int | None]:
        """The names of the calls of one class that overlap each of some stretches longest."""
        if CLASSES[code] == NO_CUDA_CALL:
            yield from (None for _ in starts)
            return
        begin, finish, name = self._calls[code]
        reach = np.maximum.accumulate(finish)
        for start, end in zip(starts, ends, strict=True):
            low = int(np.searchsorted(reach, start, side="right"))  # all before have ended
            high = int(np.searchsorted(begin, end, side="left"))
            overlap = np.minimum(finish[low:high], end) - np.maximum(begin[low:high], start)
            best = low + np.flatnonzero(overlap == overlap.max())
            first = best[begin[best] == begin[best[0]]]
            yield int(name[first].min())


def launching_threads(call: Call[Any]) -> dict[int, tuple[int, ...]]:
    """The threads that launched any work of each device, in the whole capture, by `gpu`; only of devices with any."""

    def find() -> dict[int, tuple[int, ...]]:
        work = " UNION ".join(f"SELECT gpu, thread FROM {table}" for table in WORK_TABLES)
        found: dict[int, tuple[int, ...]] = {}
        for gpu, thread in call.sql(f"SELECT gpu, thread FROM ({work}) WHERE thread IS NOT NULL ORDER BY gpu, thread"):
            found[gpu] = (*found.get(gpu, ()), thread)
        return found

    return call.profile.once("launching threads", find)


def host_calls(call: Call[Any], stretches: Mapping[tuple[int, ...], Cover]) -> dict[tuple[int, ...], HostCalls]:
    """For each group of threads their calls that overlap the stretches asked about."""
    if not stretches:
        return {}
    threads = sorted(set().union(*stretches))
    first = min(cover.bounds[0] for cover in stretches.values())
    last = max(cover.bounds[1] for cover in stretches.values())
    calls = call.arrays(
        f"""SELECT start, "end", thread, host_class, name FROM calls
        WHERE thread IN ({", ".join(map(str, threads))}) AND start < {last} AND "end" > {first}"""
    )  # in the order of the table: by start
    found = {}
    for group, cover in stretches.items():
        mine = np.zeros(threads[-1] + 1, bool)
        mine[list(group)] = True
        rows = cover.touching(calls["start"], calls["end"])
        rows = rows[mine[calls["thread"][rows]]]
        found[group] = HostCalls({name: values[rows] for name, values in calls.items()})
    return found


def activities(call: Call[Any], stretches: Sequence[tuple[int, int, int]]) -> list[HostActivity | None]:
    """What the host did for a device during each of a few stretches (`gpu`, start, end).

    None where it is not known which threads launch the device's work.
    """
    threads = launching_threads(call) if stretches else {}
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}  # devices may share their threads
    for gpu, start, end in stretches:
        if gpu in threads:
            groups.setdefault(threads[gpu], []).append((start, end))
    edges = {group: np.array(sorted(set(these)), np.int64).T for group, these in groups.items()}
    calls = host_calls(call, {group: Cover(start, end) for group, (start, end) in edges.items()})
    found = {}
    for group, (start, end) in edges.items():
        times = zip(start.tolist(), end.tolist(), strict=True)
        found.update(
            {(group, *time): did for time, did in zip(times, calls[group].activities(start, end), strict=True)}
        )
    return [found.get((threads.get(gpu, ()), start, end)) for gpu, start, end in stretches]
