"""The forest of NVTX stacks in numpy: which ranges GPU work was launched under.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..call import Call
from .grouping import Ints


@dataclass(frozen=True, slots=True)
class StackForest:
    """All stacks of a capture, their nodes numbered depth first: all that is under a node comes right after it.

    So the nodes above a node b that are not above (and are not) an earlier node a are those with a number above a's.

    Attributes:
        parent: the node above each node, -1 for none.
        path: the path of each node, as recorded or without counters.
        number: the number here of each node of the table `stacks`; None where the table has the same order.
    """

    parent: Ints
    path: Ints
    number: Ints | None

    def nodes(self, stacks: Ints) -> Ints:
        """Nodes here of values of a `stack` column."""
        return stacks if self.number is None else self.number[stacks]


def stack_forest(call: Call[Any], path_column: str) -> StackForest:
    """The stacks of the whole capture; `path_column` is `path` or `plain_path`."""
    columns = call.arrays(f"SELECT coalesce(parent, -1) AS parent, range, depth, {path_column} AS path FROM stacks")
    parent, path, ranges = columns["parent"], columns["path"], columns["range"]
    # Ranges stand in nesting order. A node per range, in their order, is depth first. Where ranges of two domains
    # cross, a range has several nodes, and they are numbered otherwise.
    if bool((ranges[1:] > ranges[:-1]).all()):
        return StackForest(parent, path, None)
    number = depth_first(parent, columns["depth"])
    order = np.argsort(number)
    above = parent[order]
    return StackForest(np.where(above >= 0, number[above], -1), path[order], number)


def depth_first(parent: Ints, depth: Ints) -> Ints:
    """The place of each node of a forest in depth-first order, siblings in their order."""
    by_depth = np.argsort(depth, kind="stable")
    levels = [by_depth[low:high] for low, high in pairwise(np.cumsum([0, *np.bincount(depth)]).tolist())]
    size = np.ones(len(parent), np.int64)
    for nodes in reversed(levels[1:]):
        np.add.at(size, parent[nodes], size[nodes])
    # A node's place is that of its parent, one on, after all under its earlier siblings.
    siblings = np.argsort(parent, kind="stable")
    around = parent[siblings]
    before = np.cumsum(size[siblings]) - size[siblings]
    place = np.empty_like(size)
    place[siblings] = before - before[np.searchsorted(around, around)]
    for nodes in levels[1:]:
        place[nodes] += place[parent[nodes]] + 1
    return place
