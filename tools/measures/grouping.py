"""Sums by group in numpy, exact in integers.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.integer[Any]]


def group_sums(key: Ints, *values: Ints) -> tuple[Ints, ...]:
    """The distinct keys, in no particular order, and for each of `values` its sums over equal keys."""
    encoded = pa.array(key).dictionary_encode()
    distinct, group = encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
    found = []
    for value in values:
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, group, value)
        found.append(sums)
    return (distinct, *found)


def distinct(key: Ints) -> Ints:
    """The distinct keys, ascending. By sorting: what numpy.unique does instead may take long for keys made of two."""
    ascending = np.sort(key)
    found: Ints = ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
    return found
