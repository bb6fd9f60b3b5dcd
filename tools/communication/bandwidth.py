"""Bandwidths of collectives as nccl-tests defines them (its doc/PERFORMANCE.md, and GetBw of each test)."""

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
