from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from nsys_evidence.contracts.window import Window
from nsys_evidence.tools.measures.intervals import overlapping


@pytest.mark.parametrize("includes_end", [True, False])
@pytest.mark.parametrize(("first", "last"), [(3, 6), (4, 4), (4, 5)])
def test_intervals_in_numpy_overlap_a_window_when_the_window_says_so(first: int, last: int, includes_end: bool) -> None:
    window = Window(first, last, "trim", includes_end)
    pairs = [(start, end) for start, end in product(range(10), repeat=2) if start <= end]
    start, end = np.array(pairs).T
    assert overlapping(window, start, end).tolist() == [window.overlaps(*pair) for pair in pairs]
