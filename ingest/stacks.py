"""Attribution: the stack of NVTX ranges that each API call was made in, and the names of these stacks as paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .nesting import depths, stacks
from .order import group_bounds
from .ranges import ThreadRanges
from .raw import Ints32
from .reader import Ints

_COUNTERS = r", (seq|op_id) = [0-9]+|, sizes = \[.*\]"
"""PyTorch's own counters in the names of its ranges; steps and layers keep their numbers."""


def plain_names(texts: list[str]) -> list[str]:
    """Range names without PyTorch's counters."""
    cut: list[str] = pc.replace_substring_regex(pa.array(texts, pa.string()), _COUNTERS, "").to_pylist()  # type: ignore[assignment]
    return cut


class StackForest:
    """All stacks of a capture that a launching API call was made in, gathered thread by thread.

    Attributes:
        call_node: the node of each call, -1 where no range contains it.
    """

    def __init__(self, start: Ints, end: Ints, thread: Ints32, threads: int) -> None:
        """Begin with the calls to attribute: their start, end and thread (-1 for none)."""
        self._start, self._end = start, end
        self._order, self._bounds = group_bounds(np.where(thread < 0, threads, thread), threads + 1)
        self.call_node = np.full(len(start), -1, np.int32)
        self._count = 0
        self._parts: list[dict[str, npt.NDArray[Any]]] = []

    def add(self, ranges: ThreadRanges) -> None:
        """Attribute the calls of a thread to its ranges: those of the thread that contain the call."""
        calls = self._order[self._bounds[ranges.thread] : self._bounds[ranges.thread + 1]]
        if not len(calls):
            return
        found = stacks(ranges.start, ranges.end, ranges.outer, self._start[calls], self._end[calls])
        self.call_node[calls] = np.where(found.node >= 0, found.node + self._count, -1)
        self._parts.append(
            {
                "parent": np.where(found.parent >= 0, found.parent + self._count, -1).astype(np.int32),
                "range": (found.range + ranges.first).astype(np.int32),
                "start": ranges.start[found.range],
                "name": ranges.name[found.range],
                "depth": depths(found.parent),
            }
        )
        self._count += len(found.range)

    def nodes(self) -> dict[str, npt.NDArray[Any]]:
        """The nodes: parent, range, start and name of the range, and depth, by number."""
        kinds = {"parent": np.int32, "range": np.int32, "start": np.int64, "name": np.int32, "depth": np.int16}
        return {
            name: np.concatenate([np.empty(0, kind), *(part[name] for part in self._parts)])
            for name, kind in kinds.items()
        }


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


def name_paths(parent: Ints32, depth: npt.NDArray[np.int16], names: Ints32) -> Paths:
    """The paths of a forest, given the string number of each node's name; numbered level by level, by first node."""
    levels = int(depth.max(initial=-1)) + 1
    order, bounds = group_bounds(depth, levels)
    path = np.full(len(names) + 1, -1, np.int32)  # the last place is the path of "no parent"
    names_range = int(names.max(initial=0)) + 1
    parents, last_names, per_level, count = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [], 0
    for level in range(levels):
        nodes = order[bounds[level] : bounds[level + 1]]
        key = (path[parent[nodes]].astype(np.int64) + 1) * names_range + names[nodes]
        encoded = pa.array(key).dictionary_encode()
        distinct = encoded.dictionary.to_numpy()
        path[nodes] = encoded.indices.to_numpy() + count
        parents.append((distinct // names_range - 1).astype(np.int32))
        last_names.append((distinct % names_range).astype(np.int32))
        per_level.append(len(distinct))
        count += len(distinct)
    return Paths(
        path=path[:-1],
        parent=np.concatenate(parents),
        name=np.concatenate(last_names),
        depth=np.repeat(np.arange(levels, dtype=np.int16), per_level),
    )
