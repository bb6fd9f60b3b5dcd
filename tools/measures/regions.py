"""Regions: NVTX ranges by name, and the GPU work that they launched. Times in ns.

Loaded by skills when they run, not when they are registered. GPU work belongs to every range around its API call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..call import Call
from ..thresholds.nvtx import OUTLIER_DEVIATIONS, OUTLIER_EXCESS
from .grouping import Ints, group_sums
from .intervals import overlapping
from .levels import NEVER, climb, levels
from .work import WORK_TABLES


@dataclass(frozen=True, slots=True)
class Region:
    """The instances of one name that launched GPU work: ranges whose work, first to last, overlaps the window.

    Attributes:
        name: string id.
        depth: the least depth of the instances.
        instances: how many there are.
        ops: pieces of GPU work in the window, counted for each instance around them.
        projected: first start to last end of the work of an instance, clipped to the window, summed over instances.
        host: whole durations of the instances on the host.
        inclusive: time of kernels launched inside, counted for each instance around them.
        comm: the part of it in collectives.
        own: time of the kernels whose innermost range is an instance.
        once: as `inclusive`, but each kernel counted once.
        med: the median of whole projections.
        outlier: whether a projection lies far above it.
        kernel: string id of the kernel with most time; None without any.
    """

    name: int
    depth: int
    instances: int
    ops: int
    projected: int
    host: int
    inclusive: int
    comm: int
    own: int
    once: int
    med: Fraction
    outlier: bool
    kernel: int | None


@dataclass(frozen=True, slots=True)
class Regions:
    """All regions in scope.

    Attributes:
        page: those of the page asked for, by falling projected time, then by name.
        count: how many there are.
        instances: the instances of all of them.
        clipped: instances whose projection crosses an edge of the window.
        kernel_time: time of all kernels in scope, in a region or not.
        covered: time of the kernels that some region launched.
        nested: regions with an instance inside another one of theirs.
        deepest: the greatest depth of a range that launched work, in the whole capture.
    """

    page: Sequence[Region]
    count: int
    instances: int
    clipped: int
    kernel_time: int
    covered: int
    nested: int
    deepest: int


@dataclass(frozen=True, slots=True)
class Launching:
    """The ranges that launched GPU work in the whole capture, and the forest of stacks that they make.

    Attributes:
        parent: the node above each node of the table `stacks`, -1 for none.
        level: the nodes of each depth of the forest.
        row: the range of each node, as a place in the attributes below.
        name: string id of the name of each range, as recorded or without counters.
        depth: how many ranges of its thread and domain are around it.
        around: the nearest of those, as a place; -1 for none.
        host: its duration on the host.
    """

    parent: Ints
    level: Sequence[Ints]
    row: Ints
    name: Ints
    depth: Ints
    around: Ints
    host: Ints


def launching(call: Call[Any], table: str) -> Launching:
    """The ranges; `table` is `paths` (names as recorded) or `plain_paths` (without counters)."""
    path = "path" if table == "paths" else "plain_path"
    stacks = call.arrays(f"SELECT coalesce(parent, -1) AS parent, range, start, depth, {path} AS path FROM stacks")
    names = call.arrays(f"SELECT name FROM {table}")["name"]
    ranges = call.arrays('SELECT "end", depth, coalesce(parent, -1) AS around FROM nvtx_ranges')
    used = np.zeros(len(ranges["end"]), bool)
    used[stacks["range"]] = True
    rows = np.flatnonzero(used)
    place = np.full(len(used) + 1, -1, np.int64)  # the last place is that of "no parent"
    place[rows] = np.arange(len(rows))
    row = place[stacks["range"]]
    name, start = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    name[row], start[row] = names[stacks["path"]], stacks["start"]
    return Launching(
        parent=stacks["parent"],
        level=levels(stacks["depth"]),
        row=row,
        name=name,
        depth=ranges["depth"][rows].astype(np.int64),
        around=place[ranges["around"][rows]],
        host=ranges["end"][rows] - start,
    )


def regions(call: Call[Any], ranges: Launching, depth: int | None) -> Regions:
    """The regions of the ranges at one depth; without a depth of all ranges."""
    chosen = np.ones(len(ranges.name), bool) if depth is None else ranges.depth == depth
    first, last, ops = _projections(call, ranges)
    here = (overlapping(call.window, first, last) | (ops > 0)) & chosen
    rows = np.flatnonzero(here)
    region = _Numbers(ranges.name[rows])
    of = region.code
    start, end = first[rows], last[rows]
    window = call.window
    part = np.minimum(end, window.end_ns) - np.maximum(start, window.start_ns)
    projected = region.sums(np.maximum(part, 0))
    kernels = _kernel_times(call, ranges, here, region)
    order = np.lexsort((region.names, -projected))
    page = order[call.offset : call.offset + call.max_rows]
    depths = np.full(len(region.names), NEVER)
    np.minimum.at(depths, of, ranges.depth[rows])
    counts, hosts, op_sums = region.sums(np.ones_like(rows)), region.sums(ranges.host[rows]), region.sums(ops[rows])
    by_region = np.argsort(of, kind="stable")
    bounds = np.append(0, np.cumsum(counts))
    found = []
    for code in page.tolist():
        whole = np.sort((end - start)[by_region[bounds[code] : bounds[code + 1]]])
        med, outlier = _spread(whole)
        found.append(
            Region(
                name=int(region.names[code]),
                depth=int(depths[code]),
                instances=int(counts[code]),
                ops=int(op_sums[code]),
                projected=int(projected[code]),
                host=int(hosts[code]),
                inclusive=int(kernels.inclusive[code]),
                comm=int(kernels.comm[code]),
                own=int(kernels.own[code]),
                once=int(kernels.once[code]),
                med=med,
                outlier=outlier,
                kernel=kernels.top(code),
            )
        )
    return Regions(
        page=found,
        count=len(region.names),
        instances=len(rows),
        clipped=int(np.count_nonzero((start < window.start_ns) | (end > window.end_ns))),
        kernel_time=kernels.time,
        covered=kernels.covered,
        nested=kernels.nested,
        deepest=int(ranges.depth.max(initial=0)),
    )


class _Numbers:
    """Region names of instances, numbered: `code` of each instance, `names` by number."""

    def __init__(self, name: Ints) -> None:
        encoded = pa.array(name).dictionary_encode()
        self.names: Ints = encoded.dictionary.to_numpy()
        self.code: Ints = encoded.indices.to_numpy()

    def sums(self, values: Ints) -> Ints:
        total = np.zeros(len(self.names), np.int64)
        np.add.at(total, self.code, values)
        return total


def _projections(call: Call[Any], ranges: Launching) -> tuple[Ints, Ints, Ints]:
    """For every range: first start and last end of its work on the selected devices, and pieces in the window."""
    work = call.arrays(
        " UNION ALL ".join(
            f"""SELECT stack, start, "end", {call.in_window} AS here FROM {table}
            WHERE stack IS NOT NULL AND {call.on_devices}"""
            for table in WORK_TABLES
        )
    )
    nodes = len(ranges.row)
    first, last, ops = np.full(nodes, NEVER), np.full(nodes, -NEVER), np.zeros(nodes, np.int64)
    np.minimum.at(first, work["stack"], work["start"])
    np.maximum.at(last, work["stack"], work["end"])
    np.add.at(ops, work["stack"], work["here"].astype(np.int64))
    climb(ranges.parent, ranges.level, sums=[ops], least=[first], most=[last])
    # Where ranges of two domains cross, a range has several nodes, none of them under another.
    count = len(ranges.name)
    start, end, pieces = np.full(count, NEVER), np.full(count, -NEVER), np.zeros(count, np.int64)
    np.minimum.at(start, ranges.row, first)
    np.maximum.at(end, ranges.row, last)
    np.add.at(pieces, ranges.row, ops)
    return start, end, pieces


def _spread(whole: Ints) -> tuple[Fraction, bool]:
    """The median of ascending durations, and whether the longest is an outlier."""
    middle = len(whole) // 2
    twice = int(whole[middle]) + int(whole[~middle])
    med = Fraction(twice, 2)
    off = np.sort(np.abs(2 * whole - twice))
    deviation = Fraction(int(off[middle]) + int(off[~middle]), 4)
    longest = int(whole[-1])
    far = longest > med + OUTLIER_DEVIATIONS.value * deviation
    return med, bool(far and longest * 100 > med * (100 + OUTLIER_EXCESS.value))


@dataclass(frozen=True, slots=True)
class _KernelTimes:
    """Kernel time by region number, and each region's kernels by falling time, then name."""

    inclusive: Ints
    comm: Ints
    own: Ints
    once: Ints
    time: int
    covered: int
    nested: int
    top_region: Ints
    top_kernel: Ints

    def top(self, code: int) -> int | None:
        place = int(np.searchsorted(self.top_region, code))
        if place == len(self.top_region) or self.top_region[place] != code:
            return None
        return int(self.top_kernel[place])


def _kernel_times(call: Call[Any], ranges: Launching, here: npt.NDArray[np.bool_], region: _Numbers) -> _KernelTimes:
    kernels = call.arrays(
        f"""SELECT coalesce(stack, -1) AS stack, name, comm, {call.clipped} AS ns
        FROM kernels WHERE {call.on_devices} AND {call.in_window}"""
    )
    count = len(region.names)
    code_of = np.full(len(ranges.name), -1, np.int64)
    code_of[here] = region.code
    code = code_of[ranges.row]
    chain, above, of = _chains(ranges, code, count)
    inside = kernels["stack"] >= 0
    stack, name, ns = kernels["stack"][inside], kernels["name"][inside].astype(np.int64), kernels["ns"][inside]
    own = np.zeros(count + 1, np.int64)  # the last place takes kernels whose innermost range is no instance
    np.add.at(own, code[stack], ns)
    # Kernel time by chain of regions and kernel name, gathered up the chains.
    width = int(name.max(initial=0)) + 1
    at = chain[stack]
    in_some = at >= 0
    key, time, collective = group_sums(
        at[in_some] * width + name[in_some], ns[in_some], (ns * kernels["comm"][inside])[in_some]
    )
    nested = _nested(above, of)
    inclusive, comm, once = (np.zeros(count, np.int64) for _ in range(3))
    pairs: list[tuple[Ints, Ints]] = []
    while len(key):
        link, kernel = key // width, key % width
        np.add.at(inclusive, of[link], time)
        np.add.at(comm, of[link], collective)
        first = ~nested[link]
        np.add.at(once, of[link[first]], time[first])
        pairs.append((of[link[first]] * width + kernel[first], time[first]))
        up = above[link]
        more = up >= 0
        key, time, collective = group_sums(up[more] * width + kernel[more], time[more], collective[more])
    keys = np.concatenate([np.empty(0, np.int64), *(key for key, _ in pairs)])
    pair, total = group_sums(keys, np.concatenate([np.empty(0, np.int64), *(time for _, time in pairs)]))
    order = np.lexsort((pair % width, -total, pair // width))
    top = order[np.append(True, np.diff(pair[order] // width) > 0)[: len(order)]]
    return _KernelTimes(
        inclusive=inclusive,
        comm=comm,
        own=own[:count],
        once=once,
        time=int(kernels["ns"].sum()),
        covered=int(ns[in_some].sum()),
        nested=len(np.unique(of[nested])),
        top_region=pair[top] // width,
        top_kernel=pair[top] % width,
    )


def _chains(ranges: Launching, code: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Distinct stacks of regions: a chain is a region under a chain; ranges that are no instances are passed over.

    Returns:
        The chain of each node, -1 for none; the chain above each chain, -1 for none; and the region of each chain.
    """
    chain = np.full(len(code) + 1, -1, np.int64)  # the last place is that of "no parent"
    above, of, made = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for nodes in ranges.level:
        around = chain[ranges.parent[nodes]]
        mine = code[nodes] >= 0
        chain[nodes[~mine]] = around[~mine]
        encoded = pa.array((around[mine] + 1) * count + code[nodes[mine]]).dictionary_encode()
        distinct = encoded.dictionary.to_numpy()
        chain[nodes[mine]] = made + encoded.indices.to_numpy()
        above.append(distinct // max(count, 1) - 1)
        of.append(distinct % max(count, 1))
        made += len(distinct)
    return chain[:-1], np.concatenate(above), np.concatenate(of)


def _nested(above: Ints, of: Ints) -> npt.NDArray[np.bool_]:
    """Which chains end in a region that is further up in them already."""
    nested = np.zeros(len(of), bool)
    link, up = np.arange(len(of)), above.copy()
    while len(link := link[up >= 0]):
        up = up[up >= 0]
        nested[link] |= of[up] == of[link]
        up = above[up]
    return nested
