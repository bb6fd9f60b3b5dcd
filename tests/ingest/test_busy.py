"""Busy time is the union of intervals."""

from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.busy import busy_rows, common, merged, overlapping
from nsys_evidence.ingest.reader import NONE
from nsys_evidence.ingest.synthetic.truth import intersection, union

quick = settings(max_examples=60, deadline=None)
Interval = tuple[int, int]

small = st.integers(0, 30)
intervals = st.lists(st.tuples(small, small).map(lambda pair: (min(pair), max(pair))), max_size=14).map(sorted)
origins = st.sampled_from((0, 2**61))


def merge(intervals: list[Interval], origin: int = 0) -> list[Interval]:
    start, end = (np.array([pair[side] + origin for pair in intervals], np.int64) for side in (0, 1))
    first, last = merged(start, end)
    return [(a - origin, b - origin) for a, b in zip(first.tolist(), last.tolist(), strict=True)]


@quick
@given(intervals=intervals, origin=origins)
def test_merged_intervals_cover_exactly_the_same_nanoseconds(intervals: list[Interval], origin: int) -> None:
    found = merge(intervals, origin)
    assert found == union(intervals)
    covered = {t for start, end in intervals for t in range(start, end)}
    assert sum(end - start for start, end in found) == len(covered)
    assert {t for start, end in found for t in range(start, end)} == covered


@quick
@given(intervals=intervals)
def test_merged_intervals_are_in_order_and_apart(intervals: list[Interval]) -> None:
    found = merge(intervals)
    assert all(start < end for start, end in found)
    assert all(end < start for (_, end), (start, _) in pairwise(found))


def test_what_touches_is_one_and_what_has_no_length_adds_nothing() -> None:
    assert merge([(0, 5), (5, 9)]) == [(0, 9)]
    assert merge([(0, 9), (2, 3), (4, 12)]) == [(0, 12)]
    assert merge([(5, 5), (7, 7)]) == []
    assert merge([(0, 4), (5, 5), (6, 8)]) == [(0, 4), (6, 8)]
    assert merge([]) == []


@quick
@given(intervals=intervals)
def test_every_interval_knows_the_end_of_the_one_before_it(intervals: list[Interval]) -> None:
    start, end = (np.array([pair[side] for pair in intervals], np.int64) for side in (0, 1))
    rows = busy_rows(*merged(start, end))
    assert list(zip(rows["start"].tolist(), rows["end"].tolist(), strict=True)) == union(intervals)
    assert rows["previous_end"].tolist() == [NONE, *rows["end"].tolist()][: len(rows["end"])]


def depths(intervals: list[Interval]) -> list[tuple[int, int, int]]:
    start, end = (np.array([pair[side] for pair in intervals], np.int64) for side in (0, 1))
    return list(zip(*(edges.tolist() for edges in overlapping(start, end)), strict=True))


@quick
@given(intervals=intervals, order=st.randoms(use_true_random=False))
def test_stretches_tell_for_every_nanosecond_how_many_intervals_are_open(
    intervals: list[Interval], order: Random
) -> None:
    order.shuffle(intervals)
    found = depths(intervals)
    told = {t: depth for start, end, depth in found for t in range(start, end)}
    opened = {t: sum(start <= t < end for start, end in intervals) for t in range(31)}
    assert told == {t: depth for t, depth in opened.items() if depth > 1}
    assert [start for start, *_ in found] == sorted({start for start, *_ in found})
    assert all(start < end for start, end, _ in found)


def test_what_ends_where_another_starts_is_not_open_with_it() -> None:
    assert depths([(0, 5), (5, 9)]) == []
    assert depths([(0, 5), (3, 3)]) == []
    assert depths([(0, 5), (3, 9), (4, 9)]) == [(3, 4, 2), (4, 5, 3), (5, 9, 2)]


@quick
@given(one=intervals, other=intervals)
def test_what_two_unions_have_in_common_is_in_both(one: list[Interval], other: list[Interval]) -> None:
    arrays = [[np.array([pair[side] for pair in these], np.int64) for side in (0, 1)] for these in (one, other)]
    found = list(zip(*(edges.tolist() for edges in common(*(merged(*pair) for pair in arrays))), strict=True))
    assert found == intersection(union(one), union(other))
