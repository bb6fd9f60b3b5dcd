"""Kernels by the NVTX ranges that launched them: counts and times per path and kernel. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..call import Call
from .grouping import Ints, group_sums
from .stack_forest import StackForest, stack_forest

NO_RANGE = -1
"""The path of kernels that no range contains, or whose launching call is not known."""

_NO_CALL = -2


@dataclass(frozen=True, slots=True)
class KernelPaths:
    """A row for every path and kernel, ancestors of a kernel's own path too.

    Ordered by falling inclusive time, then path, then kernel name.

    Attributes:
        path: number of the path, NO_RANGE for none.
        name: string id of the kernel's name.
        ranges: ranges with that path that contain a launch of the kernel; 0 without a path.
        kernels: kernels launched inside (inclusive).
        own: time of the kernels whose innermost range this is.
        inclusive: time of all kernels launched inside; without a path the same as `own`.
        count: kernels in scope.
        attributed: time of those in some range.
        clipped: kernels that cross an edge of the window.
        without_call: kernels whose launching call is not known.
    """

    path: Ints
    name: Ints
    ranges: Ints
    kernels: Ints
    own: Ints
    inclusive: Ints
    count: int
    attributed: int
    clipped: int
    without_call: int


def kernel_paths(call: Call[Any], table: str) -> KernelPaths:
    """The rows of the kernels in scope; `table` is `paths` (names as recorded) or `plain_paths` (without counters)."""
    kernels = call.arrays(
        f"""SELECT name, {call.clipped} AS ns, {call.crosses} AS crosses,
            CASE WHEN stack IS NOT NULL THEN stack WHEN thread IS NULL THEN {_NO_CALL} ELSE {NO_RANGE} END AS stack
        FROM kernels WHERE {call.on_devices} AND {call.in_window}"""
    )
    forest = stack_forest(call, "path" if table == "paths" else "plain_path")
    paths = call.arrays(f"SELECT coalesce(parent, -1) AS parent, depth FROM {table}")
    ids = call.arrays("SELECT name FROM kernel_names ORDER BY name")["name"]
    code = _codes(ids, kernels["name"])
    inside = kernels["stack"] >= 0
    node = forest.nodes(kernels["stack"][inside])
    width = max(len(paths["parent"]), 1)
    key, ranges = _ranges(forest, node, code[inside], width)
    counts, own = _sums(key, code[inside] * width + forest.path[node], kernels["ns"][inside])
    inclusive = own.copy()
    _climb(key, width, paths["parent"], paths["depth"], counts, inclusive)
    bare, bare_counts, bare_ns = _outside(code[~inside], kernels["ns"][~inside], len(ids))
    path = np.concatenate([key % width, np.full(len(bare), NO_RANGE)])
    name = np.concatenate([ids[key // width], ids[bare]])
    inclusive = np.concatenate([inclusive, bare_ns])
    order = np.lexsort((name, path, -inclusive))
    return KernelPaths(
        path=path[order],
        name=name[order],
        ranges=np.concatenate([ranges, np.zeros_like(bare)])[order],
        kernels=np.concatenate([counts, bare_counts])[order],
        own=np.concatenate([own, bare_ns])[order],
        inclusive=inclusive[order],
        count=len(code),
        attributed=int(kernels["ns"][inside].sum()),
        clipped=int(np.count_nonzero(kernels["crosses"])),
        without_call=int(np.count_nonzero(kernels["stack"] == _NO_CALL)),
    )


def _codes(ids: Ints, names: Ints) -> npt.NDArray[np.int64]:
    """The place of each name among the sorted ids."""
    place = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
    place[ids] = np.arange(len(ids))
    return place[names]


def _ranges(forest: StackForest, node: Ints, code: Ints, width: int) -> tuple[Ints, Ints]:
    """The rows, as keys code * width + path in order, and how many ranges each has.

    Every distinct pair of kernel and node, its ancestors included, is one range that contains a launch. In depth-first
    order those above a pair's node that no earlier node of the same kernel was under come after that earlier node.
    """
    size = max(len(forest.parent), 1)
    pairs = np.sort(code * size + node)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
    row, at = (pairs // size) * width, pairs % size
    earlier = np.full(len(pairs), -1, np.int64)
    earlier[1:] = np.where(row[1:] == row[:-1], at[:-1], -1)
    visited = [np.empty(0, np.int64)]
    while len(at):
        visited.append(row + forest.path[at])
        at = forest.parent[at]
        new = at > earlier
        at, row, earlier = at[new], row[new], earlier[new]
    keys = np.sort(np.concatenate(visited))
    heads = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    return keys[heads], np.diff(np.append(heads, len(keys)))


def _sums(key: Ints, of: Ints, ns: Ints) -> tuple[Ints, Ints]:
    """How many kernels have each key, and their time."""
    distinct, count, time = group_sums(of, np.ones_like(of), ns)
    place = np.searchsorted(key, distinct)
    counts, total = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
    counts[place], total[place] = count, time
    return counts, total


def _climb(key: Ints, width: int, parent: Ints, depth: Ints, *measures: Ints) -> None:
    """Add each row's measures to the row of the path around it, from the innermost out."""
    path, level = key % width, depth[key % width]
    around = np.searchsorted(key, key - path + parent[path])  # of outermost paths meaningless, and not used
    for deep in range(int(level.max(initial=0)), 0, -1):
        rows = np.flatnonzero(level == deep)
        for measure in measures:
            np.add.at(measure, around[rows], measure[rows])


def _outside(code: Ints, ns: Ints, names: int) -> tuple[Ints, Ints, Ints]:
    """Kernels in no range: the codes that there are, how many kernels each has, and their time."""
    counts, total = np.bincount(code, minlength=names), np.zeros(names, np.int64)
    np.add.at(total, code, ns)
    there = np.flatnonzero(counts)
    return there, counts[there], total[there]
