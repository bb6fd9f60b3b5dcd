"""How ranges of one thread nest: parents, depths, and the ranges around an instant. Vectorised, no loop over events.

All functions take the ranges of one thread in nesting order: by start, then falling end, then the other columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .order import Positions, group_bounds
from .reader import Ints


def enclosing(end: Ints) -> Positions:
    """For each range the nearest earlier one that ends no earlier, -1 for none.

    Start from the previous range and, where it ends too early, jump to its own candidate, until none moves: everything
    that is jumped over ends earlier still.
    """
    candidate = np.arange(-1, len(end) - 1, dtype=np.int64)
    moving = np.flatnonzero(candidate >= 0)
    while len(moving):
        ahead = candidate[moving]
        moving = moving[end[ahead] < end[moving]]
        candidate[moving] = candidate[candidate[moving]]
        moving = moving[candidate[moving] >= 0]
    return candidate


def depths(parent: Positions) -> npt.NDArray[np.int16]:
    """The number of ancestors of each, by pointer doubling; capped at 32,767."""
    depth = (parent >= 0).astype(np.int32)
    pointer = parent.copy()
    active = np.flatnonzero(pointer >= 0)
    while len(active):
        target = pointer[active]
        gained, onward = depth[target], pointer[target]
        depth[active] += gained
        pointer[active] = onward
        active = active[onward >= 0]
    return np.minimum(depth, np.iinfo(np.int16).max).astype(np.int16)


def crossed(start: Ints, end: Ints, outer: Positions, touching: bool) -> bool:
    """Whether some range starts inside an earlier one and outlives it, so that ranges around an instant are no chain.

    With `touching`, a range that ends where the other starts counts too: both contain an instant there.
    """
    # Everything between a range and its `outer` ends earlier than the range does; the latest of those ends tells.
    previous = np.arange(-1, len(end) - 1, dtype=np.int64)
    moving = np.flatnonzero(previous > outer)
    at = previous[moving]
    while len(moving):
        inside = end[at] >= start[moving] if touching else end[at] > start[moving]
        if inside.any():
            return True
        at = outer[at]
        still = at > outer[moving]
        moving, at = moving[still], at[still]
    return False


def innermost(start: Ints, end: Ints, outer: Positions, first: Ints, last: Ints) -> Positions:
    """For each interval [first, last] the latest range that contains it, -1 for none."""
    at = np.searchsorted(start, first, side="right") - 1
    moving = np.flatnonzero(at >= 0)
    while len(moving):
        moving = moving[end[at[moving]] < last[moving]]
        at[moving] = outer[at[moving]]
        moving = moving[at[moving] >= 0]
    return at


@dataclass(slots=True)
class Stacks:
    """The stacks that intervals lie in, as a forest: a node is a range under the node of the stack around it.

    Attributes:
        parent: parent node of each node, -1 for none.
        range: the range of each node.
        node: the node of each interval asked about, -1 where no range contains it.
    """

    parent: Positions
    range: Positions
    node: Positions


def stacks(start: Ints, end: Ints, outer: Positions, first: Ints, last: Ints) -> Stacks:
    """The stack of ranges that contain each interval [first, last], outermost first by start."""
    inner = innermost(start, end, outer, first, last)
    touching = bool((first == last).any())
    if crossed(start, end, outer, touching):
        return _crossing_stacks(end, outer, inner, last)
    # Ranges nest: the ranges around an interval are the innermost one and what encloses it. One node a range.
    used = np.zeros(len(end) + 1, bool)  # the last place takes the -1s
    frontier = np.unique(inner)
    while len(frontier):
        frontier = frontier[~used[frontier]]
        used[frontier] = True
        frontier = np.unique(outer[frontier[frontier >= 0]])
        frontier = frontier[frontier >= 0]
    used[-1] = False
    ranges = np.flatnonzero(used)
    number = np.full(len(end) + 1, -1, np.int64)
    number[ranges] = np.arange(len(ranges))
    return Stacks(parent=number[outer[ranges]], range=ranges, node=number[inner])


def _crossing_stacks(end: Ints, outer: Positions, inner: Positions, last: Ints) -> Stacks:
    """Where ranges cross, each interval's containing ranges are walked one by one, innermost first."""
    layers = []
    intervals = np.flatnonzero(inner >= 0)
    at = inner[intervals]
    while len(intervals):
        layers.append((intervals, at))
        at = at - 1  # the next one out: the nearest earlier range that contains the interval
        moving = np.flatnonzero(at >= 0)
        while len(moving):
            moving = moving[end[at[moving]] < last[intervals[moving]]]
            at[moving] = outer[at[moving]]
            moving = moving[at[moving] >= 0]
        intervals, at = intervals[at >= 0], at[at >= 0]
    depth = np.zeros(len(inner), np.int64)
    for intervals, _ in layers:
        depth[intervals] += 1
    asked = np.concatenate([intervals for intervals, _ in layers] or [np.empty(0, np.int64)])
    found = np.concatenate([at for _, at in layers] or [np.empty(0, np.int64)])
    layer = np.repeat(np.arange(len(layers)), [len(at) for _, at in layers])
    level = depth[asked] - 1 - layer
    order, bounds = group_bounds(level, int(depth.max(initial=0)))
    node = np.full(len(inner), -1, np.int64)
    parents, ranges, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for low, high in pairwise(bounds):  # from the outside in: a node is a range under one stack
        rows = order[low:high]
        keys, inverse = np.unique(np.stack([node[asked[rows]], found[rows]]), axis=1, return_inverse=True)
        parents.append(keys[0])
        ranges.append(keys[1])
        node[asked[rows]] = count + inverse.reshape(-1)
        count += keys.shape[1]
    return Stacks(parent=np.concatenate(parents), range=np.concatenate(ranges), node=node)
