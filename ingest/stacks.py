"""Attribution: the stack of NVTX ranges that each API call was made in, and the names of these stacks as paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .nesting import depths, stacks
from .order import Positions, group_bounds
from .ranges import Nested
from .raw import Ints32
from .reader import Ints

_COUNTERS = r", (seq|op_id) = [0-9]+|, sizes = \[.*\]"
"""PyTorch's own counters in the names of its ranges; steps and layers keep their numbers."""


def plain_names(texts: list[str]) -> list[str]:
    """Range names without PyTorch's counters."""
    cut: list[str] = pc.replace_substring_regex(pa.array(texts, pa.string()), _COUNTERS, "").to_pylist()  # type: ignore[assignment]
    return cut


@dataclass(slots=True)
class StackForest:
    """All stacks of a capture that an API call was made in. See the table `stacks`.

    Attributes:
        parent: parent node, -1 for none.
        range: row of `nvtx_ranges`.
        depth: how many nodes are above it.
        call_node: the node of each call asked about, -1 where no range contains it.
    """

    parent: Positions
    range: Positions
    depth: npt.NDArray[np.int16]
    call_node: Positions


def attribute(nested: Nested, start: Ints, end: Ints, thread: Ints32) -> StackForest:
    """The stack around each API call, given its start, end and thread: the ranges of its thread that contain it."""
    threads = len(nested.bounds) - 1
    order, bounds = group_bounds(np.where(thread < 0, threads, thread), threads + 1)
    call_node = np.full(len(start), -1, np.int64)
    parents, ranges, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for number in range(threads):
        calls = order[bounds[number] : bounds[number + 1]]
        low, high = int(nested.bounds[number]), int(nested.bounds[number + 1])
        if not len(calls) or low == high:
            continue
        outer = nested.outer[low:high].astype(np.int64)
        outer[outer >= 0] -= low
        found = stacks(nested.start[low:high], nested.end[low:high], outer, start[calls], end[calls])
        parents.append(np.where(found.parent >= 0, found.parent + count, -1))
        ranges.append(found.range + low)
        call_node[calls] = np.where(found.node >= 0, found.node + count, -1)
        count += len(found.range)
    parent = np.concatenate(parents)
    return StackForest(parent=parent, range=np.concatenate(ranges), depth=depths(parent), call_node=call_node)


@dataclass(slots=True)
class Paths:
    """Distinct stacks by name: a path is a name under a path.

    Attributes:
        path: the path of each node.
        parent: parent path of each path, -1 for none.
        name: string number of each path's last range.
        depth: how many names are above it.
    """

    path: Ints32
    parent: Ints32
    name: Ints32
    depth: npt.NDArray[np.int16]


def name_paths(forest: StackForest, names: Ints32) -> Paths:
    """The paths of a forest, given the string number of each node's name; numbered level by level, by first node."""
    levels = int(forest.depth.max(initial=-1)) + 1
    order, bounds = group_bounds(forest.depth, levels)
    path = np.full(len(names) + 1, -1, np.int32)  # the last place is the path of "no parent"
    names_range = int(names.max(initial=0)) + 1
    parents, last_names, per_level, count = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [], 0
    for level in range(levels):
        nodes = order[bounds[level] : bounds[level + 1]]
        key = (path[forest.parent[nodes]].astype(np.int64) + 1) * names_range + names[nodes]
        encoded = pa.array(key).dictionary_encode()
        distinct = encoded.dictionary.to_numpy()
        path[nodes] = encoded.indices.to_numpy() + count
        parents.append((distinct // names_range - 1).astype(np.int32))
        last_names.append((distinct % names_range).astype(np.int32))
        per_level.append(len(distinct))
        count += len(distinct)
    depth = np.repeat(np.arange(levels, dtype=np.int16), per_level)
    return Paths(path=path[:-1], parent=np.concatenate(parents), name=np.concatenate(last_names), depth=depth)
