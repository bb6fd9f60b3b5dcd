"""Events are sorted by start, ties by everything else, whatever order they come in."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.order import canonical_order, group_bounds

quick = settings(max_examples=60, deadline=None)

values = st.integers(0, 3) | st.sampled_from((-(2**63), -1, 2**63 - 1))
tables = st.lists(st.tuples(values, values, st.booleans(), st.integers(-3, 3)), max_size=20)
Row = tuple[int, int, bool, int]


def sorted_rows(rows: list[Row]) -> list[Row]:
    kinds = (np.int64, np.int64, np.bool_, np.int32)
    keys: list[npt.NDArray[Any]] = [np.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    order = canonical_order(*keys)
    assert sorted(order.tolist()) == list(range(len(rows)))
    return [rows[place] for place in order]


@quick
@given(rows=tables, random=st.randoms(use_true_random=False))
def test_the_order_is_that_of_all_keys_whatever_the_order_of_the_rows(rows: list[Row], random: object) -> None:
    shuffled = rows[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sorted_rows(rows) == sorted_rows(shuffled) == sorted(rows)


@quick
@given(keys=st.lists(st.integers(0, 3), max_size=20))
def test_with_one_key_equal_rows_keep_their_places(keys: list[int]) -> None:
    expected = sorted(range(len(keys)), key=lambda place: keys[place])
    assert canonical_order(np.array(keys, np.int64)).tolist() == expected


@pytest.mark.parametrize("groups", [4, 1 << 16, (1 << 16) + 5])
@quick
@given(codes=st.lists(st.integers(0, 3), max_size=20))
def test_groups_are_brought_together_in_order_with_their_bounds(groups: int, codes: list[int]) -> None:
    shifted = np.array([groups - 1 - code for code in codes], np.int64)
    order, bounds = group_bounds(shifted, groups)
    assert len(bounds) == groups + 1
    for group in range(groups - 4, groups):
        members = order[bounds[group] : bounds[group + 1]].tolist()
        assert members == [place for place, code in enumerate(shifted.tolist()) if code == group]
