"""Section 1.3: one window, checked at the border, for the numerator and the denominator of every skill."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.errors import ErrorCode
from nsys_evidence.ingest.synthetic import Capture, capture_window
from nsys_evidence.tools.registry import SCOPE
from nsys_evidence.tools.run import Envelope
from tests.pitfalls.asking import MS, TRIMMED, WINDOWED, answer, as_recorded, end_of, figures, small, small_capture
from tests.strategies import Span
from tests.support import ask, rows_of, written

FIRST, LAST = capture_window(small_capture())

OUTSIDE: dict[str, tuple[object, ErrorCode]] = {
    "before the capture": (["0", "0.5"], ErrorCode.TRIM_OUT_OF_RANGE),
    "after the capture": (["9000", "9001"], ErrorCode.TRIM_OUT_OF_RANGE),
    "inverted": (Span(FIRST + 2 * MS, FIRST + MS).trim, ErrorCode.TRIM_OUT_OF_RANGE),
    "of no length": (Span(FIRST + MS, FIRST + MS).trim, ErrorCode.TRIM_OUT_OF_RANGE),
    "without an end": (Span(FIRST, LAST).trim[:1], ErrorCode.INVALID_ARGUMENT),
    "with a null end": ([Span(FIRST, LAST).trim[0], None], ErrorCode.INVALID_ARGUMENT),
    "that is a number": (1.5, ErrorCode.INVALID_ARGUMENT),
}


@pytest.mark.parametrize("window", OUTSIDE)
def test_a_window_that_cannot_be_is_refused_by_every_skill(window: str) -> None:
    trim, code = OUTSIDE[window]
    assert {name: answer(skill, small(), trim=trim) for name, skill in TRIMMED.items()} == dict.fromkeys(TRIMMED, code)


@pytest.mark.parametrize("name", ["trim_start", "start", "end_s", "window", "trim_end_ns"])
def test_half_a_window_under_another_name_is_refused_by_every_skill(name: str) -> None:
    found = {skill.name: answer(skill, small(), **{name: 73.3}) for skill in WINDOWED.values()}
    taken = {skill for skill in found if name in WINDOWED[skill].params.model_fields}
    assert taken == set()
    assert found == dict.fromkeys(WINDOWED, ErrorCode.UNKNOWN_ARGUMENT)


def test_a_window_that_is_null_is_the_default_one_and_selects_the_same() -> None:
    for name, skill in WINDOWED.items():
        null = dict.fromkeys(part for part in SCOPE if part in skill.scope and part not in skill.example)
        given, plain = answer(skill, small(), **null), as_recorded()[name]
        assert not isinstance(plain, ErrorCode)
        assert given == plain, name
        assert plain["scope"]["span_ms"] > 0, name


def test_no_skill_trims_unasked() -> None:
    windows = {row["window"]: (row["start_s"], row["end_s"]) for row in rows_of(ask("profile_info", small()))}
    assert windows["capture"] == (FIRST / 10**9, LAST / 10**9)
    for name, skill in WINDOWED.items():
        if "iteration" in skill.params.model_fields or "start_ns" in skill.params.model_fields:
            continue  # about a step or a stretch that is asked for by its name
        envelope = as_recorded()[name]
        assert not isinstance(envelope, ErrorCode)
        scope = envelope["scope"]
        assert (scope["start_s"], scope["end_s"]) == windows[skill.window], name
        assert scope["by"] == f"{skill.window} window", name


def test_a_window_beyond_the_end_counts_only_what_it_shares_with_the_capture() -> None:
    middle = (FIRST + LAST) // 2
    for name, skill in TRIMMED.items():
        exact = answer(skill, small(), trim=Span(middle, LAST).trim)
        beyond = answer(skill, small(), trim=Span(middle, LAST + 3600 * 10**9).trim)
        if isinstance(exact, ErrorCode) or isinstance(beyond, ErrorCode):
            assert exact == beyond, name
            continue
        assert figures(exact) == figures(beyond), name
        assert exact["scope"]["span_ms"] == beyond["scope"]["span_ms"], name
        assert any("clipped" in note for note in beyond["notes"]), name


# A window in which nothing happens.

IDLE_TIME = {"span_ms", "idle_ms", "idle_pct", "gaps", "gap_ms", "gap_us", "listed_ms", "other_gaps", "other_ms"}
"""What a device does in such a window: nothing, for all of it."""

BOUND_BY_THE_HOST = {"host_ms", "host_pct", "margin_pct", "kernels_0_ms", "recoverable_ms", "share_pct"}
"""Idle time under the names that skills give it, and its share of the window."""

NO_MEASURE = {
    *("device", "devices", "processes", "start_ns", "depth", "bucket_s", "buckets"),
    *("findings", "unanswered", "value", "rows"),
}
"""Identities, facts of the whole capture that say so, and counts of what was judged."""

GIVEN = {"intensity_flop_per_byte", "ridge_flop_per_byte", "peak_tflops", "hbm_gb_per_s", "checked", "not_checked"}
"""Parameters and properties of the GPU."""

QUIET_MS = 890


@cache
def quiet() -> tuple[Path, Span]:
    """The small capture with one more kernel a second later, and a window between the two in which nothing happens."""
    capture = small_capture()
    end = end_of(capture)
    late = replace(capture.kernels[-1], start=end + 1000 * MS, end=end + 1001 * MS, correlation=None)
    later: Capture = replace(capture, kernels=[*capture.kernels, late], session=None)
    return written(later), Span(end + 10 * MS, end + (10 + QUIET_MS) * MS)


@cache
def in_quiet(name: str) -> Envelope | ErrorCode:
    path, window = quiet()
    return answer(TRIMMED[name], path, trim=window.trim)


@pytest.mark.parametrize("name", TRIMMED)
def test_a_window_in_which_nothing_happens_shows_idle_time_and_nothing_of_the_rest_of_the_capture(name: str) -> None:
    envelope = in_quiet(name)
    assert not isinstance(envelope, ErrorCode)
    busy: list[tuple[str, Any]] = []
    for table in (None, *envelope["tables"]):
        part = envelope["tables"][table] if table else envelope
        for values in (part["totals"] or {}, *rows_of(envelope, table)):
            shown = {
                key: value for key, value in values.items() if isinstance(value, int | float) and value is not True
            }
            allowed = IDLE_TIME | BOUND_BY_THE_HOST | NO_MEASURE | GIVEN
            busy += [(key, value) for key, value in shown.items() if value and key not in allowed]
            assert all(shown.get(key, 0) in (0, QUIET_MS, 2 * QUIET_MS) for key in ("span_ms", "idle_ms", "host_ms"))
    assert busy == []


@pytest.mark.parametrize("name", TRIMMED)
def test_another_window_gives_another_result(name: str) -> None:
    if name == "cutracer_analysis":  # about files that this capture does not come with
        return
    step = Span(FIRST, end_of(small_capture()))
    there, elsewhere = answer(TRIMMED[name], quiet()[0], trim=step.trim), in_quiet(name)
    assert not isinstance(there, ErrorCode)
    assert not isinstance(elsewhere, ErrorCode)
    assert figures(there) != figures(elsewhere)
