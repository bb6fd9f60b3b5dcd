"""Where no range bounds a step, the kernels that repeat do: found as by looking at every stretch and every period."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Capture, Copy, Kernel
from nsys_evidence.tools.measures.kernel_sequences import Repetition, repetitions
from tests.support import ask, rows_of, written

US = 1_000


def slow_repetitions(sequence: list[int]) -> set[tuple[int, int, int]]:
    """First, period and times of every maximal stretch, from the definition."""
    found = set()
    for period in range(3, len(sequence) // 3 + 1):
        same = [a == b for a, b in zip(sequence, sequence[period:], strict=False)] + [False]
        first = 0
        for place, equal in enumerate(same):
            if equal:
                continue
            length = place - first + period
            stretch = sequence[first : first + length]
            shorter = any(
                all(a == b for a, b in zip(stretch, stretch[p:], strict=False)) for p in range(1, min(period, length))
            )
            if place > first and length >= 3 * period and not shorter:
                found.add((first, period, length // period))
            first = place + 1
    return found


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 3), max_size=4),
    st.lists(st.integers(0, 3), max_size=9),
    st.integers(0, 5),
    st.lists(st.integers(0, 3), max_size=30),
)
def test_repetitions_are_those_of_looking_at_every_stretch_and_every_period(
    before: list[int], period: list[int], times: int, after: list[int]
) -> None:
    sequence = [*before, *(period * times), *after]
    found = repetitions(np.array(sequence, np.int64))
    assert len(found) == len(set(found))
    assert {(r.first, r.period, r.times) for r in found} == slow_repetitions(sequence)


def test_a_kernel_or_a_pair_that_repeats_is_no_sequence_of_three() -> None:
    assert repetitions(np.array([7] * 40)) == []
    assert repetitions(np.array([7, 8] * 20)) == []
    assert repetitions(np.array([7, 8, 9] * 3)) == [Repetition(0, 3, 3)]
    assert repetitions(np.array([7, 8, 9] * 2)) == []


def launched(names: str, gap: int = 5) -> list[Kernel]:
    """A kernel of 10 µs for each letter, one after the other on one stream."""
    return [
        Kernel((10 + gap) * n * US, ((10 + gap) * n + 10) * US, 0, 1, 7, None, 101, f"kernel_{name}")
        for n, name in enumerate(names)
    ]


def test_layers_inside_a_step_do_not_hide_the_step_which_repeats_over_a_longer_stretch() -> None:
    envelope = ask("iteration_timing", written(Capture(launched("i" + ("embed" + "lay" * 3 + "head") * 4 + "x"))))
    assert envelope["totals"]["count"] == 4
    assert envelope["totals"]["source"] == "kernel sequence"
    assert "sequence of 18 kernels" in envelope["totals"]["marker"]
    rows = rows_of(envelope)
    assert [row["kernels"] for row in rows] == [18] * 4
    assert [row["wall_ms"] for row in rows] == [0.27, 0.27, 0.27, 0.265]  # the last to the end of its kernels
    assert [row["idle_ms"] for row in rows] == [0.09, 0.09, 0.09, 0.085]
    assert any("may be a layer and not a step" in note for note in envelope["notes"])


def test_the_busiest_stream_decides_and_its_sequence_bounds_all_work() -> None:
    other = [Kernel(k.start, k.end - 5 * US, 0, 1, 13, None, 101, f"{k.name}_b") for k in launched("pqr" * 9)]
    envelope = ask("iteration_timing", written(Capture(launched("abcd" * 5) + other)))
    assert envelope["totals"]["count"] == 5
    assert "stream 7 of process 101" in envelope["notes"][0]
    assert rows_of(envelope)[0]["kernels"] == 8


def test_an_iteration_found_by_kernels_is_a_scope_like_any_other() -> None:
    path = written(Capture(launched("abcd" * 5)))
    of_second = rows_of(ask("iteration_timing", path))[1]
    scope = ask("pipeline_bubble_metrics", path, iteration=1)["scope"]
    assert scope["start_s"] == of_second["start_s"]
    assert scope["span_ms"] == of_second["wall_ms"]
    assert scope["by"] == "iteration 1 of the sequence of 4 kernels from kernel_a"


@pytest.mark.parametrize("names", ["abc" * 2, "ab" * 9, "a" * 9, "abcabdabeabf"])
def test_what_does_not_repeat_three_times_is_no_iteration_however_regular_its_gaps(names: str) -> None:
    envelope = ask("iteration_timing", written(Capture(launched(names, gap=500))))
    assert envelope["status"] == "abstained"
    assert envelope["missing"] == ["iterations"]
    assert "range_push" in envelope["capture_hint"]


def test_gaps_alone_and_copies_alone_never_make_an_iteration() -> None:
    copies = [Copy(n * 100 * US, (n * 100 + 10) * US, 0, 1, 7, None, 101, 64, 1) for n in range(9)]
    assert ask("iteration_timing", written(Capture(copies=copies)))["status"] == "abstained"
