"""The kernels that NCCL calls launched, by the ranges around their launches.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..call import Call
from .grouping import Ints


def calls_of_kernels(call: Call[Any], ranges: Ints, stacks: Ints) -> Ints:
    """For each stack that a kernel was launched under, the innermost of some calls in it; -1 for none.

    Args:
        call: the call, for its profile.
        ranges: the calls' rows of `nvtx_ranges`, each once.
        stacks: values of a `stack` column.

    Returns:
        places in `ranges`.
    """
    nodes = call.arrays("SELECT coalesce(parent, -1) AS parent, range, depth FROM stacks ORDER BY node")
    order = np.argsort(ranges, kind="stable")
    owner = np.full(len(nodes["range"]) + 1, -1, np.int64)  # the last place is that of no parent
    if len(ranges):
        place = np.minimum(np.searchsorted(ranges[order], nodes["range"]), len(ranges) - 1)
        owner[:-1] = np.where(ranges[order][place] == nodes["range"], order[place], -1)
    # From the second level on: what a node has not, it takes from the node above.
    by_depth = np.argsort(nodes["depth"], kind="stable")
    edges = np.cumsum(np.bincount(nodes["depth"])) if len(by_depth) else np.empty(0, np.int64)
    for low, high in pairwise(edges):
        level = by_depth[low:high]
        owner[level] = np.where(owner[level] >= 0, owner[level], owner[nodes["parent"][level]])
    return owner[stacks]


def message_sizes(call: Call[Any], stacks: Ints) -> Ints:
    """The bytes that the NCCL call around each kernel's launch names; -1 where no call with a payload is around it.

    Args:
        call: the call, for its profile.
        stacks: the kernels' values of `stack`, -1 for none.
    """
    sizes = np.full(len(stacks), -1, np.int64)
    launched = np.flatnonzero(stacks >= 0)
    if call.profile.recorded("nccl_calls") and len(launched):
        calls = call.arrays("SELECT range, bytes FROM nccl_calls WHERE bytes IS NOT NULL")
        owner = calls_of_kernels(call, calls["range"], stacks[launched])
        sizes[launched] = np.append(calls["bytes"], -1)[owner]
    return sizes
