"""The profile id: a hash of the canonical rows that does not depend on their order, nor on any library's version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..contracts.wire import canonical_json

_BLOCK = 1 << 15
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def _key(text: str) -> np.uint64:
    """An odd 64-bit multiplier for a column, from its name."""
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) | 1)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014), in place."""
    values ^= values >> _S30
    values *= _M1
    values ^= values >> _S27
    values *= _M2
    values ^= values >> _S31
    return values


class RowsHash:
    """The sum over rows of two 64-bit hashes of each row: equal for equal multisets of rows, in any order or split."""

    def __init__(self, table: str, columns: Iterable[str]) -> None:
        self._keys = {name: (_key(f"{table}.{name}.a"), _key(f"{table}.{name}.b")) for name in columns}
        self._seeds = (_key(f"{table}.0"), _key(f"{table}.1"))
        self._sums = [0, 0]

    def add(self, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add rows, by column; columns that are not hashed are passed over."""
        rows = len(next(iter(columns.values())))
        for low in range(0, rows, _BLOCK):
            blocks = {
                name: columns[name][low : low + _BLOCK].astype(np.int64, copy=False).view(np.uint64)
                for name in self._keys
            }
            for lane in (0, 1):
                state = np.full(min(_BLOCK, rows - low), self._seeds[lane])
                for name, block in blocks.items():
                    state += block * self._keys[name][lane]
                self._sums[lane] += int(_mix(state).sum(dtype=np.uint64))

    def digest(self) -> str:
        """128 bits in hex."""
        return "".join(f"{total & (2**64 - 1):016x}" for total in self._sums)


def profile_id(parts: Mapping[str, object]) -> str:
    """The id, `p-` and 80 bits in hex, of everything that makes a profile: hashes of rows, strings, devices, counts."""
    return "p-" + hashlib.sha256(canonical_json(dict(parts)).encode()).hexdigest()[:20]
