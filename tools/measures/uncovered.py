"""Time of some GPU work in which nothing of a class runs on its device. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from typing import Any

from ..call import Call
from .intervals import Cover, unions


def uncovered(call: Call[Any], events: str, kind: str) -> dict[int, int]:
    """The length within the window of the union of events less what is busy of a kind, by device.

    Args:
        call: the call, for its window.
        events: SQL that selects `gpu` as `key`, `start` and `"end"`.
        kind: a kind of the table `busy`.
    """
    found = {}
    for gpu, (start, end) in unions(call, events).items():
        busy = call.arrays(
            f"""SELECT start, "end" FROM busy WHERE gpu = {gpu} AND kind = '{kind}'
                AND start < {call.window.end_ns} AND "end" > {call.window.start_ns} ORDER BY start"""
        )
        cover = Cover(busy["start"], busy["end"])
        found[gpu] = int((end - start).sum()) - int(cover.within(start, end).sum())
    return found
