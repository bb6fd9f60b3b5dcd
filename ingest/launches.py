"""Launches: the API call that each piece of GPU work came from."""

from __future__ import annotations

import numpy as np

from .order import Positions, canonical_order
from .raw import Ints32
from .reader import NONE, Ints


class LaunchIndex:
    """Finds the API call of a process and correlation id; never by correlation id alone.

    Where a runtime and a driver row share process and correlation id, the outer, longer one is the launch.
    """

    def __init__(self, process: Ints32, correlation: Ints, start: Ints, end: Ints) -> None:
        known = np.flatnonzero(correlation != NONE)
        self._correlations = np.unique(correlation[known])
        key = self._key(process[known], correlation[known])
        order = canonical_order(key, start[known] - end[known], start[known])
        self._keys, self._calls = key[order], known[order]

    def _key(self, process: Ints32, correlation: Ints) -> Ints:
        rank = np.searchsorted(self._correlations, correlation)
        return process.astype(np.int64) * (len(self._correlations) + 1) + rank

    def find(self, process: Ints32, correlation: Ints) -> Positions:
        """The call of each piece of work, -1 where none was recorded."""
        if not len(self._keys):
            return np.full(len(correlation), -1, np.int64)
        rank = np.minimum(np.searchsorted(self._correlations, correlation), len(self._correlations) - 1)
        key = self._key(process, correlation)
        place = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        found = (self._keys[place] == key) & (self._correlations[rank] == correlation)
        return np.where(found, self._calls[place], -1)
