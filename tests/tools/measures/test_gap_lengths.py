"""The histogram and the pages of gaps are those of a list of gaps that is sorted and counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.tools.measures.gap_lengths import GapLengths

GAPS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(-1, 2), st.integers(-50, 50), st.sampled_from([0, 1, 2, 9, 10, 11, 99, 2**62])
    ),
    max_size=40,
)


def of(gaps: list[tuple[int, int, int, int]]) -> GapLengths:
    gpu, stream, start, length = np.array(gaps, np.int64).reshape(-1, 4).T
    return GapLengths(gpu, stream, start, length)


@given(gaps=GAPS, least=st.sampled_from([0, 1, 10, 100]), offset=st.integers(0, 45), rows=st.integers(1, 45))
def test_a_page_is_that_of_all_gaps_in_order(
    gaps: list[tuple[int, int, int, int]], least: int, offset: int, rows: int
) -> None:
    gaps = [(gpu, stream, start, min(length, 2**62 - 100)) for gpu, stream, start, length in gaps]
    ordered = sorted((-length, start, gpu, stream) for gpu, stream, start, length in gaps if length >= least)
    expected = [
        (gpu, None if stream < 0 else stream, start, start - shorter) for shorter, start, gpu, stream in ordered
    ]
    assert of(gaps).longest(least, offset, rows) == expected[offset : offset + rows]


@given(gaps=GAPS, least=st.sampled_from([0, 1, 10, 100]))
def test_counts_and_sums_are_exact_also_beyond_64_bits(gaps: list[tuple[int, int, int, int]], least: int) -> None:
    lengths = [length for *_, length in gaps]
    bounds = [(0, 10), (10, 100), (100, 2**63)]
    expected = [[length for length in lengths if low <= length < high] for low, high in bounds]
    assert of(gaps).histogram([10, 100]) == [(len(found), sum(found)) for found in expected]
    kept = [length for length in lengths if length >= least]
    assert of(gaps).at_least(least) == (len(kept), sum(kept))
