"""Work finds the API call that launched it by process and correlation id, never by the correlation id alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.launches import LaunchIndex
from nsys_evidence.ingest.reader import NONE

quick = settings(max_examples=60, deadline=None)
Call = tuple[int, int, int, int]
"""Process, correlation id, start, end."""

# Small ones meet often, large ones reach the ends of 64 bits.
correlations = st.one_of(
    st.integers(0, 4),
    st.sampled_from((NONE, NONE + 1, -1, 2**31, 2**32 - 1, 2**53, 2**60, 2**61 - 1, 2**62, 2**63 - 1)),
)
processes = st.integers(0, 9)


@st.composite
def calls(draw: st.DrawFn) -> list[Call]:
    """Calls in the order of their table: by start."""
    found = []
    for _ in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, 20))
        found.append((draw(processes), draw(correlations), start, start + draw(st.integers(0, 5))))
    return sorted(found, key=lambda call: call[2:])


def index_of(calls: list[Call]) -> LaunchIndex:
    process, correlation, start, end = (list(column) for column in zip(*calls, strict=True)) if calls else ([],) * 4
    return LaunchIndex(np.array(process, np.int32), *(np.array(c, np.int64) for c in (correlation, start, end)))


def found_by(index: LaunchIndex, work: list[tuple[int, int]]) -> list[int]:
    process = np.array([process for process, _ in work], np.int32)
    places: list[int] = index.find(process, np.array([correlation for _, correlation in work], np.int64)).tolist()
    return places


@settings(max_examples=100, deadline=None)
@given(calls=calls(), work=st.lists(st.tuples(processes, correlations), max_size=12))
def test_the_launch_is_the_longest_call_of_the_process_with_the_correlation_id(
    calls: list[Call], work: list[tuple[int, int]]
) -> None:
    found = found_by(index_of(calls), work)
    for (process, correlation), place in zip(work, found, strict=True):
        candidates = [
            candidate
            for candidate, call in enumerate(calls)
            if call[:2] == (process, correlation) and correlation != NONE
        ]
        # The longest; of equally long ones the earliest, which comes first in the table.
        expected = min(candidates, key=lambda c: (calls[c][2] - calls[c][3], calls[c][2]), default=-1)
        if place >= 0 and expected >= 0:
            assert calls[place] == calls[expected]
        else:
            assert place == expected


def test_the_runtime_call_wins_over_the_driver_call_inside_it() -> None:
    runtime, driver = (0, 7, 100, 200), (0, 7, 110, 190)
    assert found_by(index_of([runtime, driver]), [(0, 7)]) == [0]
    assert found_by(index_of([driver, (0, 7, 105, 300)]), [(0, 7)]) == [1]


def test_equal_correlation_ids_of_two_processes_do_not_meet() -> None:
    index = index_of([(0, 1, 10, 20), (1, 1, 12, 99)])
    assert found_by(index, [(0, 1), (1, 1), (2, 1)]) == [0, 1, -1]


@pytest.mark.parametrize("far", [2**31, 2**60, 2**61 - 1, 2**62, 2**63 - 1])
def test_ids_that_lie_far_apart_are_not_confused_between_processes(far: int) -> None:
    index = index_of([(0, 0, 1, 2), (0, far, 3, 4)])
    work = [(process, correlation) for process in range(40) for correlation in (0, far)]
    assert found_by(index, work) == [0, 1] + [-1] * 78


def test_without_calls_or_without_an_id_nothing_is_found() -> None:
    assert found_by(index_of([]), [(0, 1), (0, NONE)]) == [-1, -1]
    assert found_by(index_of([(0, NONE, 1, 2)]), [(0, NONE), (0, 0)]) == [-1, -1]
    assert found_by(index_of([(0, 1, 1, 2)]), []) == []
