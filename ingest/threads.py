"""Threads: what they are called, when they ran on a CPU, and where samples found them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .numbering import Table
from .raw import Events, Ints32
from .reader import NONE, Reader
from .strings import StringPool


def thread_names(reader: Reader, threads: Mapping[int, int], pool: StringPool) -> Ints32:
    """The provisional code of each thread's name, -1 where the capture does not say; other names are passed over.

    Of several names of a thread the one with the lowest priority number holds, ties by text: captures show 0 with names
    from NVTX, 10 with those that a library gave, 20 with what the system calls the thread.
    """
    wanted = {"globalTid": "code", "nameId": "code", "priority": "code"}
    named = reader.read("ThreadNames", wanted, lambda share: None)  # type: ignore[arg-type]
    found: dict[int, tuple[int, str]] = {}
    for row in range(named.rows):
        thread = threads.get(named.value("globalTid", row, None))
        text = pool.text_of(named.value("nameId", row, NONE))
        if thread is not None and text is not None:
            candidate = (named.value("priority", row, 1 << 32), text)
            found[thread] = min(found.get(thread, candidate), candidate)
    codes = np.full(len(threads), -1, np.int32)
    for thread, (_, text) in sorted(found.items()):
        codes[thread] = pool.add(text)
    return codes


def running_table(events: Events, threads: Mapping[int, int]) -> tuple[Table, int]:
    """The stretches in which threads ran, unsorted, and how many scheduler events bound none.

    A thread runs from an event that puts it on a CPU to its next event, when that takes it off. An event without such a
    counterpart bounds a stretch of unknown length: nothing of it is kept.
    """
    thread, start = events.mapped("globalTid", threads), events.integer("start")
    direction = events.decoded("isSchedIn")
    cpu, state = _small(events, "cpu"), _small(events, "threadState")
    known = np.flatnonzero(direction != NONE)
    on = direction[known] != 0
    order = np.lexsort((state[known], cpu[known], on, start[known], thread[known]))
    rows, on = known[order], on[order]
    ran = np.flatnonzero(on[:-1] & ~on[1:] & (thread[rows[:-1]] == thread[rows[1:]]))
    first, last = rows[ran], rows[ran + 1]
    table: Table = {
        "start": start[first],
        "end": start[last],
        "thread": thread[first],
        "cpu": cpu[first],
        "state": state[last],
    }
    return table, len(start) - 2 * len(ran)


def sample_table(events: Events, threads: Mapping[int, int]) -> Table:
    """CPU samples, unsorted."""
    return {
        "start": events.integer("start"),
        "thread": events.mapped("globalTid", threads),
        "cpu": _small(events, "cpu"),
        "state": _small(events, "threadState"),
    }


def _small(events: Events, column: str) -> Ints32:
    """A column of small numbers, -1 where there is none."""
    wide = events.decoded(column, none=-1, sentinels=True)
    return np.where((wide >= 0) & (wide < 2**31), wide, -1).astype(np.int32)
