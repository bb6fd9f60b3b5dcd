"""How ranges nest, and which ranges are around an instant, against the slow and obvious way to find out."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.nesting import Stacks, crossed, depths, enclosing, innermost, stacks
from tests.strategies import nested_ranges

quick = settings(max_examples=60, deadline=None)
Interval = tuple[int, int]
Ints = npt.NDArray[np.int64]

small = st.integers(0, 12)
pairs = st.tuples(small, small).map(lambda pair: (min(pair), max(pair)))
intervals = st.lists(pairs, max_size=10)
origins = st.sampled_from((0, 155_357_525_002, 2**61))


def nesting_order(ranges: list[Interval]) -> list[Interval]:
    return sorted(ranges, key=lambda r: (r[0], -r[1]))


crossing_threads = st.lists(pairs, max_size=14).map(nesting_order)
"""Anything: twins, ranges without length, ranges that touch and ranges that cross."""

laminar_threads = nested_ranges().map(
    lambda ranges: nesting_order([(start + 12, end + 12) for start, end, _ in ranges])
)
"""What push and pop make: ranges nest."""

threads = st.one_of(crossing_threads, laminar_threads)


def columns(intervals: list[Interval], origin: int = 0) -> tuple[Ints, Ints]:
    start = np.array([start + origin for start, _ in intervals], np.int64)
    return start, np.array([end + origin for _, end in intervals], np.int64)


def nearest_around(ranges: list[Interval], place: int) -> int:
    """The nearest earlier range that ends no earlier."""
    return next((p for p in reversed(range(place)) if ranges[p][1] >= ranges[place][1]), -1)


def containing(ranges: list[Interval], first: int, last: int) -> list[int]:
    """The ranges around an interval, outermost first by start."""
    return [place for place, (start, end) in enumerate(ranges) if start <= first and end >= last]


def chain_of(found: Stacks, interval: int) -> list[int]:
    """The ranges of the stack of an interval, outermost first."""
    chain, node = [], int(found.node[interval])
    while node >= 0:
        chain.append(int(found.range[node]))
        node = int(found.parent[node])
    return chain[::-1]


@quick
@given(ranges=threads, origin=origins)
def test_the_enclosing_range_is_the_nearest_earlier_one_that_ends_no_earlier(
    ranges: list[Interval], origin: int
) -> None:
    _, end = columns(ranges, origin)
    before = end.copy()
    assert enclosing(end).tolist() == [nearest_around(ranges, place) for place in range(len(ranges))]
    assert (end == before).all()


def test_of_twins_the_later_one_is_inside_the_earlier_one() -> None:
    twins = [(0, 10), (2, 5), (2, 5), (2, 5), (5, 5), (5, 5)]
    assert enclosing(columns(twins)[1]).tolist() == [-1, 0, 1, 2, 3, 4]


def test_a_range_without_length_is_inside_what_ends_or_starts_there() -> None:
    assert enclosing(columns([(0, 5), (5, 9), (5, 5), (9, 9)])[1]).tolist() == [-1, -1, 1, 1]


@quick
@given(ranges=threads)
def test_the_depth_is_the_number_of_ranges_that_enclose_one_another(ranges: list[Interval]) -> None:
    parent = enclosing(columns(ranges)[1])
    expected: list[int] = []
    for above in parent.tolist():
        expected.append(0 if above < 0 else expected[above] + 1)
    assert depths(parent).tolist() == expected


def test_depth_is_capped_where_its_column_ends() -> None:
    parent = np.arange(-1, 39_999, dtype=np.int64)
    found = depths(parent)
    assert found.dtype == np.int16
    assert found[:3].tolist() == [0, 1, 2]
    assert found[32_766:32_769].tolist() == [32_766, 32_767, 32_767]


@quick
@given(ranges=threads, touching=st.booleans())
def test_ranges_cross_when_one_starts_inside_another_and_outlives_it(ranges: list[Interval], touching: bool) -> None:
    start, end = columns(ranges)
    expected = any(
        late[1] > early[1] and (late[0] <= early[1] if touching else late[0] < early[1])
        for place, late in enumerate(ranges)
        for early in ranges[:place]
    )
    assert crossed(start, end, enclosing(end), touching) == expected


@quick
@given(ranges=laminar_threads)
def test_what_push_and_pop_make_never_crosses(ranges: list[Interval]) -> None:
    start, end = columns(ranges)
    assert not crossed(start, end, enclosing(end), touching=False)


@quick
@given(ranges=threads, asked=intervals)
def test_the_innermost_range_is_the_latest_one_around_an_interval(
    ranges: list[Interval], asked: list[Interval]
) -> None:
    (start, end), (first, last) = columns(ranges), columns(asked)
    expected = [max(containing(ranges, *interval), default=-1) for interval in asked]
    assert innermost(start, end, enclosing(end), first, last).tolist() == expected


@pytest.mark.parametrize("kind", ["crossing", "laminar"])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), asked=intervals, origin=origins)
def test_a_stack_is_every_range_around_the_interval_and_no_other(
    kind: str, data: st.DataObject, asked: list[Interval], origin: int
) -> None:
    ranges = data.draw(crossing_threads if kind == "crossing" else laminar_threads)
    (start, end), (first, last) = columns(ranges, origin), columns(asked, origin)
    found = stacks(start, end, enclosing(end), first, last)
    chains = [chain_of(found, place) for place in range(len(asked))]
    assert chains == [containing(ranges, *interval) for interval in asked]


@pytest.mark.parametrize("outer", [[], [(0, 9)]])
def test_an_instant_where_one_range_ends_and_the_next_starts_is_in_both(outer: list[Interval]) -> None:
    ranges = [*outer, (1, 5), (5, 8)]
    (start, end), (first, last) = columns(ranges), columns([(5, 5), (5, 6), (4, 5)])
    found = stacks(start, end, enclosing(end), first, last)
    above = list(range(len(outer)))
    both, left, right = [*above, len(outer), len(outer) + 1], [*above, len(outer)], [*above, len(outer) + 1]
    assert [chain_of(found, place) for place in range(3)] == [both, right, left]


@quick
@given(ranges=threads, asked=intervals)
def test_equal_stacks_are_one_node_and_every_node_is_a_stack_or_above_one(
    ranges: list[Interval], asked: list[Interval]
) -> None:
    (start, end), (first, last) = columns(ranges), columns(asked)
    found = stacks(start, end, enclosing(end), first, last)
    prefixes = {
        tuple(chain[:depth])
        for interval in asked
        if (chain := containing(ranges, *interval))
        for depth in range(1, len(chain) + 1)
    }
    assert len(found.range) == len(found.parent) == len(prefixes)
    node_of = {tuple(chain_of(found, place)): int(found.node[place]) for place in range(len(asked))}
    assert all(int(found.node[place]) == node_of[tuple(chain_of(found, place))] for place in range(len(asked)))


@pytest.mark.parametrize("shape", ["staircase", "comb", "tower", "nested combs"])
def test_long_threads_of_every_shape_nest_like_a_stack_machine_says(shape: str) -> None:
    size = 4_000
    ranges = {
        "staircase": [(i, i + 3) for i in range(size)],  # each crosses the next two
        "comb": [(0, 2 * size), *((2 * i, 2 * i + 1) for i in range(size))],
        "tower": [(i, 2 * size - i) for i in range(size)],
        "nested combs": [(i - i % 100, i - i % 100 + 99) if i % 100 == 0 else (i, i) for i in range(size)],
    }[shape]
    ranges = nesting_order(ranges)
    expected, open_ranges = [], list[int]()
    for place, (_, end) in enumerate(ranges):
        while open_ranges and ranges[open_ranges[-1]][1] < end:
            open_ranges.pop()
        expected.append(open_ranges[-1] if open_ranges else -1)
        open_ranges.append(place)
    assert enclosing(columns(ranges)[1]).tolist() == expected


def test_no_ranges_and_no_intervals_are_fine() -> None:
    nothing = np.empty(0, np.int64)
    one = np.array([5], np.int64)
    assert enclosing(nothing).tolist() == depths(enclosing(nothing)).tolist() == []
    assert not crossed(nothing, nothing, nothing, touching=True)
    assert stacks(nothing, nothing, nothing, one, one).node.tolist() == [-1]
    empty = stacks(one, one, enclosing(one), nothing, nothing)
    assert (empty.node.tolist(), empty.range.tolist()) == ([], [])
