"""Statistics of durations: the SQL that gathers them in one scan, and the exact figures made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...contracts.units import sample_stddev
from ..call import Call

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MEASURES = 8
"""How many columns `duration_sql` selects."""


def duration_sql(call: Call[Any]) -> str:
    """The select list that a `Durations` is read from, over events of an event table that are in the window."""
    whole = '("end" - start)'
    return f"""count(*), count(*) FILTER ({call.crosses}), sum({call.clipped}), sum({whole}),
        sum({whole}::HUGEINT * {whole}), median({whole}), min({whole}), max({whole})"""


@dataclass(frozen=True, slots=True)
class Durations:
    """A group of events in the window. All times in ns; all but `total` are of whole events.

    Attributes:
        count: events that overlap the window.
        clipped: those of them that cross an edge of the window.
        total: the sum of durations, clipped to the window.
        whole: the sum of whole durations.
        squares: the sum of their squares.
        med: the median.
        shortest: the minimum.
        longest: the maximum.
    """

    count: int
    clipped: int
    total: int
    whole: int
    squares: int
    med: Fraction
    shortest: int
    longest: int

    @property
    def avg(self) -> Fraction:
        """The mean."""
        return Fraction(self.whole, self.count)

    @property
    def stddev(self) -> Fraction | None:
        """The sample standard deviation; None of a single event."""
        return sample_stddev(self.count, self.whole, self.squares)


def durations_of(values: Sequence[Any]) -> Durations:
    """The statistics in the columns that `duration_sql` selected, of a group that is not empty."""
    count, clipped, total, whole, squares, med, shortest, longest = values
    return Durations(count, clipped, total, whole, squares, Fraction(med), shortest, longest)


def percentile(ascending: Sequence[int] | npt.NDArray[np.int64], percent: int) -> Fraction | None:
    """A percentile of ascending integers, interpolated linearly between neighbours; None of none."""
    if not len(ascending):
        return None
    place, rest = divmod((len(ascending) - 1) * percent, 100)
    low, high = int(ascending[place]), int(ascending[min(place + 1, len(ascending) - 1)])
    return low + Fraction((high - low) * rest, 100)
