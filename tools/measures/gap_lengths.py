"""How long gaps are: their histogram, and the longest of them, from one reading of the busy intervals. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..call import Call
from .intervals import Ints


@dataclass(frozen=True, slots=True)
class GapLengths:
    """The gaps of the window.

    Attributes:
        gpu: the device of each.
        stream: the stream of each; -1 for gaps of whole devices.
        start: where each starts.
        length: how long each is.
    """

    gpu: Ints
    stream: Ints
    start: Ints
    length: Ints

    def histogram(self, edges: Sequence[int]) -> list[tuple[int, int]]:
        """For each range of lengths how many gaps there are, and their sum; a lower edge belongs to its range."""
        bucket = np.searchsorted(np.array(edges), self.length, side="right")
        inside = [self.length[bucket == number] for number in range(len(edges) + 1)]
        return [(len(lengths), _total(lengths)) for lengths in inside]

    def at_least(self, length: int) -> tuple[int, int]:
        """How many gaps are at least so long, and their sum."""
        kept = self.length[self.length >= length]
        return len(kept), _total(kept)

    def longest(self, length: int, offset: int, rows: int) -> list[tuple[int, int | None, int, int]]:
        """A page of the gaps that are at least so long, the longest first, then by start, device and stream.

        Each is (gpu, stream or None, start, end).
        """
        kept = np.flatnonzero(self.length >= length)
        if (beyond := len(kept) - (offset + rows)) > 0:  # only those as long as the last of the page are sorted
            lengths = self.length[kept]
            kept = kept[lengths >= np.partition(lengths, beyond)[beyond]]
        order = np.lexsort((self.stream[kept], self.gpu[kept], self.start[kept], -self.length[kept]))
        page = kept[order][offset : offset + rows]
        columns = (self.gpu, self.stream, self.start, self.start + self.length)
        found = zip(*(column[page].tolist() for column in columns), strict=True)
        return [(gpu, None if stream < 0 else stream, start, end) for gpu, stream, start, end in found]


def gap_lengths(call: Call[Any], gaps: str) -> GapLengths:
    """The gaps that SQL selects as gpu, stream (or null), start and "end"."""
    found = call.arrays(f'SELECT gpu, coalesce(stream, -1) AS stream, start, "end" - start AS length FROM ({gaps})')
    return GapLengths(found["gpu"], found["stream"], found["start"], found["length"])


def _total(lengths: Ints) -> int:
    """The exact sum, which 64 bits may not hold."""
    return (int((lengths >> 32).sum()) << 32) + int((lengths & 0xFFFFFFFF).sum())
