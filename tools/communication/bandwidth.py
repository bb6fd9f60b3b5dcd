"""Bandwidths of collectives as nccl-tests defines them: algbw = S/time, busbw = algbw times a factor.

The source is the function GetBw of each test in its directory src, read at NVIDIA/nccl-tests a0b82b2 (July 2026); its
doc/PERFORMANCE.md derives the factors. `count` is what the call of NCCL names, n the ranks:

    all_reduce                                         S = count                factor 2(n-1)/n
    all_gather, reduce_scatter                         S = count times n        factor (n-1)/n
    alltoall, gather, scatter                          S = count times n        factor (n-1)/n
    broadcast, reduce, sendrecv                        S = count                factor 1

alltoall.cu, gather.cu and scatter.cu compute `baseBw = count * nranks * typesize / sec` like all_gather.cu, although
doc/PERFORMANCE.md says nothing of gather and scatter.
"""

from __future__ import annotations

from fractions import Fraction

_IN_PARTS = ("AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter")
"""Operations whose call names the part of one rank, or for one peer: the message is that times the ranks."""


def moved_bytes(operation: str, size: int, ranks: int | None) -> int | None:
    """S of nccl-tests, given the bytes that the call names; None where it takes the ranks and they are not known."""
    if operation not in _IN_PARTS:
        return size
    return None if ranks is None else size * ranks


def bus_factor(operation: str, ranks: int | None) -> Fraction | None:
    """What the algorithm bandwidth is multiplied with; None where it takes the ranks and they are not known."""
    if operation != "AllReduce" and operation not in _IN_PARTS:
        return Fraction(1)
    if not ranks:
        return None
    return Fraction((2 if operation == "AllReduce" else 1) * (ranks - 1), ranks)
