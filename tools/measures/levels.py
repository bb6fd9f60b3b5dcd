"""Sums and extremes up a forest in numpy, from its deepest nodes to its roots, a level at a time.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .grouping import Ints

NEVER = np.iinfo(np.int64).max
"""The start of no work at all; its end is -NEVER."""


def levels(depth: Ints) -> list[Ints]:
    """The nodes of each depth, the roots first."""
    order = np.argsort(depth, kind="stable")
    return [order[low:high] for low, high in pairwise(np.cumsum([0, *np.bincount(depth)]).tolist())]


def climb(
    parent: Ints,
    level: Sequence[Ints],
    *,
    sums: Sequence[Ints] = (),
    least: Sequence[Ints] = (),
    most: Sequence[Ints] = (),
) -> None:
    """Gather in every node, in place, what is in it and in all nodes under it: sums, minima and maxima."""
    for nodes in reversed(level[1:]):
        around = parent[nodes]
        for gather, measures in ((np.add, sums), (np.minimum, least), (np.maximum, most)):
            for measure in measures:
                gather.at(measure, around, measure[nodes])
