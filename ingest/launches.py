"""Launches: the API call that each piece of GPU work came from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .order import Positions, canonical_order
from .raw import Ints32
from .reader import NONE, Ints


class LaunchIndex:
    """Finds the API call of a process and correlation id; never by correlation id alone.

    Where a runtime and a driver row share process and correlation id, the outer, longer one is the launch.
    """

    def __init__(self, process: Ints32, correlation: Ints, start: Ints, end: Ints) -> None:
        known = np.flatnonzero(correlation != NONE)
        self._low = int(correlation[known].min(initial=0))
        self._span = int(correlation[known].max(initial=0)) - self._low + 1
        self._ranks: Ints | None = None
        if self._span >= 1 << 31:  # ids too far apart: process number times span must fit, whatever process is asked
            self._ranks = np.unique(correlation[known])
            self._span = len(self._ranks)
        key, _ = self._keys_of(process[known], correlation[known])
        order = canonical_order(key, start[known] - end[known], start[known])
        self._keys, self._calls = key[order], known[order]

    def _keys_of(self, process: Ints32, correlation: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """One integer for process and correlation id, and whether the id lies among those of the calls."""
        if self._ranks is None:
            inside = (correlation >= self._low) & (correlation < self._low + self._span)
            place = np.where(inside, correlation, self._low) - self._low
        else:
            place = np.minimum(np.searchsorted(self._ranks, correlation), len(self._ranks) - 1)
            inside = self._ranks[place] == correlation
        return process.astype(np.int64) * self._span + place, inside

    def find(self, process: Ints32, correlation: Ints) -> Positions:
        """The call of each piece of work, -1 where none was recorded."""
        if not len(self._keys):
            return np.full(len(correlation), -1, np.int64)
        key, inside = self._keys_of(process, correlation)
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(inside & (self._keys[place] == key), self._calls[place], -1)
