"""Paths of NVTX ranges that launched the GPU work of a window. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..call import Call
from .grouping import Ints, distinct
from .levels import climb, levels
from .work import WORK_TABLES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A path of ranges that launched some of the GPU work in the window.

    Attributes:
        path: its number in `plain_paths`.
        time: GPU time in the window launched inside, summed over pieces of work.
        own: the part of it whose innermost range has this path.
        ops: pieces of that work.
        kernels: the kernels among them.
        ranges: ranges of this path that launched it.
        opened: how much of the window some of these were open on the host.
    """

    path: int
    time: int
    own: int
    ops: int
    kernels: int
    ranges: int
    opened: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """All candidates of the window, and what they are a share of.

    Attributes:
        page: those of the page asked for, by falling time, then the deepest, then by path.
        count: how many there are.
        time: GPU time in the window.
        attributed: the part of it that some range launched.
        ops: pieces of GPU work in the window.
    """

    page: Sequence[Candidate]
    count: int
    time: int
    attributed: int
    ops: int


def code_candidates(call: Call[Any], least_open: Fraction) -> Candidates:
    """The candidates whose ranges were open for at least this share of the window."""
    work = call.arrays(
        " UNION ALL ".join(
            f"""SELECT coalesce(stack, -1) AS stack, {call.clipped} AS ns, {table == "kernels"} AS kernel
            FROM {table} WHERE {call.on_devices} AND {call.in_window}"""
            for table in WORK_TABLES
        )
    )
    inside = work["stack"] >= 0
    node, ns, kernel = (work[name][inside] for name in ("stack", "ns", "kernel"))
    stacks = call.arrays("SELECT coalesce(parent, -1) AS parent, range, start, depth, plain_path AS path FROM stacks")
    paths = call.arrays("SELECT coalesce(parent, -1) AS parent, depth FROM plain_paths")
    own, time, ops, kernels = (np.zeros(len(paths["parent"]), np.int64) for _ in range(4))
    at = stacks["path"][node]
    np.add.at(own, at, ns)
    np.add.at(ops, at, 1)
    np.add.at(kernels, at, kernel.astype(np.int64))
    time += own
    climb(paths["parent"], levels(paths["depth"]), sums=[time, ops, kernels])
    launched = np.zeros(len(stacks["parent"]), np.int64)
    launched[node] = 1
    climb(stacks["parent"], levels(stacks["depth"]), most=[launched])
    ranges, opened = _opened(call, stacks, np.flatnonzero(launched), len(own))
    span = call.window.span_ns
    enough = opened * least_open.denominator >= span * least_open.numerator if least_open else np.ones(len(own), bool)
    found = np.flatnonzero((ops > 0) & enough)
    order = found[np.lexsort((found, -paths["depth"][found].astype(np.int64), -time[found]))]
    page = order[call.offset : call.offset + call.max_rows].tolist()
    columns = (time, own, ops, kernels, ranges, opened)
    return Candidates(
        page=[Candidate(path, *(int(column[path]) for column in columns)) for path in page],
        count=len(order),
        time=int(work["ns"].sum()),
        attributed=int(ns.sum()),
        ops=len(inside),
    )


def _opened(call: Call[Any], stacks: dict[str, Ints], nodes: Ints, paths: int) -> tuple[Ints, Ints]:
    """Of every path: how many ranges these nodes are, and for how much of the window some of them were open."""
    ends = call.arrays('SELECT "end" FROM nvtx_ranges')["end"]
    # Where ranges of two domains cross, a range has several nodes: of one path if those around it have one name.
    path, rows = (stacks[name][nodes].astype(np.int64) for name in ("path", "range"))
    counts = np.bincount(distinct(path * len(ends) + rows) // max(len(ends), 1), minlength=paths)
    start = np.maximum(stacks["start"][nodes], call.window.start_ns)
    end = np.minimum(ends[rows], call.window.end_ns)
    here = np.flatnonzero(start < end)
    here = here[np.lexsort((start[here], path[here]))]
    start, end, path = start[here] - call.window.start_ns, end[here] - call.window.start_ns, path[here]
    # What the earlier ones of its path have covered already: their latest end, by rank, each path above the one before.
    instants, rank = np.unique(end, return_inverse=True)
    late = np.maximum.accumulate(path * max(len(instants), 1) + rank.reshape(-1))
    before = np.zeros(len(path), np.int64)
    same = path[1:] == path[:-1]
    before[1:] = np.where(same, instants[late[:-1] % max(len(instants), 1)], 0)
    opened = np.zeros(paths, np.int64)
    np.add.at(opened, path, np.maximum(end - np.maximum(start, before), 0))
    return counts, opened
