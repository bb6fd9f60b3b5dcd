"""The depth of the layers: where ranges under one parent differ by a number, as `layer.0` and `layer.1` do.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..call import Call
from ..thresholds.nvtx import NUMBERED_SIBLINGS
from .grouping import Ints, distinct
from .regions import Launching

_NUMBER = re.compile("[0-9]+")


def layer_depth(call: Call[Any], ranges: Launching) -> int | None:
    """The shallowest depth with siblings enough whose names, without counters, differ by one number; None without.

    Siblings are ranges with the same parent in their thread and domain; ranges without a parent have no siblings: steps
    are no layers. Only ranges that launched GPU work anywhere in the capture count, so that every window of it has the
    same depth.
    """
    ids = np.unique(ranges.name)
    texts = call.strings(ids.tolist())
    slots: dict[tuple[str, str], int] = {}  # what stands around a number of a name, numbered
    owner, slot, value = [], [], []
    for place, text in enumerate(texts[number] or "" for number in ids.tolist()):
        for found in _NUMBER.finditer(text):
            owner.append(place)
            slot.append(slots.setdefault((text[: found.start()], text[found.end() :]), len(slots)))
            value.append(int(found[0]))
    if not owner:
        return None
    numbers = {number: code for code, number in enumerate(sorted(set(value)))}
    # Of each name the numbers in it: `first` of the first, then as many as there are.
    first = np.searchsorted(owner, np.arange(len(ids) + 1))
    slot_of, value_of = np.array(slot), np.array([numbers[number] for number in value])
    name = np.searchsorted(ids, ranges.name)
    numbered = np.flatnonzero((first[name + 1] > first[name]) & (ranges.around >= 0))
    for depth in np.unique(ranges.depth[numbered]).tolist():
        rows = numbered[ranges.depth[numbered] == depth]
        if _repeats(ranges.around[rows], name[rows], first, slot_of, value_of):
            return int(depth)
    return None


def _repeats(around: Ints, name: Ints, first: Ints, slot: Ints, value: Ints) -> bool:
    """Whether, under one parent, one slot of a name takes values enough."""
    pairs = distinct(around * len(first) + name)
    around, name = pairs // len(first), pairs % len(first)
    count = first[name + 1] - first[name]
    at = np.repeat(first[name] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    around = np.repeat(around, count)
    # Distinct names of one slot have distinct numbers, but for leading zeros: 01 and 1 are one number.
    keys = np.stack([around, slot[at], value[at]])[:, np.lexsort((value[at], slot[at], around))]
    new = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
    around, slot = keys[0][new], keys[1][new]
    least = NUMBERED_SIBLINGS.value - 1
    return bool(((around[least:] == around[:-least]) & (slot[least:] == slot[:-least])).any())
