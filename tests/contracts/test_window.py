"""Windows are half-open; those that reach the end of the capture include it. Parts add up to the whole."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.window import Window

quick = settings(max_examples=60, deadline=None)
HALF_OPEN = Window(10, 20, "trim")
CLOSED = Window(10, 20, "capture window", includes_end=True)

origins = st.sampled_from((0, 155_357_525_002, 2**60))
small = st.integers(0, 40)


@st.composite
def events(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Events of any length, also none, anywhere in 0 to 40."""
    pairs = draw(st.lists(st.tuples(small, small), max_size=12))
    return [(min(pair), max(pair)) for pair in pairs]


@st.composite
def partitions(draw: st.DrawFn) -> list[Window]:
    """0 to 40 cut anywhere into half-open windows, the last of which includes its end."""
    edges = sorted({0, 40, *draw(st.lists(small, max_size=6))})
    return [Window(a, b, "trim", includes_end=b == 40) for a, b in pairwise(edges)]


@pytest.mark.parametrize(
    ("instant", "half_open", "closed"), [(9, 0, 0), (10, 1, 1), (19, 1, 1), (20, 0, 1), (21, 0, 0)]
)
def test_an_instant_at_the_end_is_only_in_a_window_that_includes_it(instant: int, half_open: int, closed: int) -> None:
    assert HALF_OPEN.contains(instant) == HALF_OPEN.overlaps(instant, instant) == half_open
    assert CLOSED.contains(instant) == CLOSED.overlaps(instant, instant) == closed


@pytest.mark.parametrize("window", [HALF_OPEN, CLOSED])
@pytest.mark.parametrize(
    ("start", "end", "inside", "part", "cut"),
    [
        (0, 10, False, 0, False),  # ends where the window starts
        (0, 11, True, 1, True),
        (10, 20, True, 10, False),
        (12, 15, True, 3, False),
        (0, 30, True, 10, True),
        (19, 20, True, 1, False),
        (19, 21, True, 1, True),
        (20, 30, False, 0, False),  # starts where the window ends
        (15, 15, True, 0, False),
    ],
)
def test_an_event_is_in_a_window_when_it_overlaps_it(
    window: Window, start: int, end: int, inside: bool, part: int, cut: bool
) -> None:
    assert window.overlaps(start, end) == inside
    assert window.clip(start, end) == part
    assert window.crosses(start, end) == cut


def test_the_span_is_the_window_and_not_the_work_in_it() -> None:
    assert HALF_OPEN.span_ns == CLOSED.span_ns == 10


@quick
@given(events=events(), windows=partitions(), origin=origins)
def test_clipped_times_over_any_partition_add_up_to_the_whole(
    events: list[tuple[int, int]], windows: list[Window], origin: int
) -> None:
    moved = [Window(w.start_ns + origin, w.end_ns + origin, w.by, w.includes_end) for w in windows]
    for start, end in events:
        assert sum(window.clip(start + origin, end + origin) for window in moved) == end - start
    assert sum(window.span_ns for window in moved) == 40


@quick
@given(events=events(), windows=partitions())
def test_every_event_is_in_a_part_and_one_of_no_length_in_exactly_one(
    events: list[tuple[int, int]], windows: list[Window]
) -> None:
    for start, end in events:
        parts = [window for window in windows if window.overlaps(start, end)]
        assert parts
        assert len(parts) == 1 or start < end
        assert sum(window.contains(start) for window in windows) == 1
        assert any(window.crosses(start, end) for window in parts) == (len(parts) > 1)


@quick
@given(event=st.tuples(small, small), window=st.tuples(small, small), closed=st.booleans())
def test_overlap_clip_and_crossing_agree_with_counting_nanoseconds(
    event: tuple[int, int], window: tuple[int, int], closed: bool
) -> None:
    (start, end), (low, high) = sorted(event), sorted(window)
    looked_at = Window(low, high, "trim", closed)
    shared = len(set(range(start, end)) & set(range(low, high)))
    assert looked_at.clip(start, end) == shared
    if start < end and low < high:
        assert looked_at.overlaps(start, end) == (shared > 0)
        assert looked_at.crosses(start, end) == (0 < shared < end - start)
