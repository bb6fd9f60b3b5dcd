"""`trim` in seconds becomes an exact window, checked against the capture; what cannot be is an error that helps."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.scope import seconds_to_ns, trim_window
from nsys_evidence.contracts.units import Unit, present
from nsys_evidence.contracts.window import Window
from nsys_evidence.contracts.wire import dump_json

quick = settings(max_examples=60, deadline=None)
CAPTURE = Window(155_357_525_002, 156_326_972_607, "capture window", includes_end=True)
GPU = Window(155_400_000_000, 156_300_000_001, "gpu window", includes_end=True)

instants = st.integers(0, 2**62) | st.integers(155_357_525_002, 156_326_972_607)


def refused(trim: tuple[float | str, float | str], gpu: Window | None = GPU) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        trim_window(trim, CAPTURE, gpu)
    return caught.value


@quick
@given(nanoseconds=instants)
def test_a_nanosecond_survives_the_way_through_json_seconds(nanoseconds: int) -> None:
    shown = json.loads(dump_json([present(Unit.S, nanoseconds)]))[0]
    assert seconds_to_ns(shown) == nanoseconds
    assert seconds_to_ns(str(shown)) == nanoseconds


@pytest.mark.parametrize(
    ("seconds", "nanoseconds"),
    [
        (155.357525002, 155_357_525_002),
        (0.1 + 0.2, 300_000_000),
        (1, 10**9),
        ("1152921504.606846977", 1_152_921_504_606_846_977),
        ("1e-9", 1),
        ("0.0000000005", 0),
        ("0.0000000015", 2),
        ("-2.5e-9", -2),
    ],
)
def test_seconds_become_the_nearest_nanosecond_through_decimal(seconds: float | str, nanoseconds: int) -> None:
    assert seconds_to_ns(seconds) == nanoseconds


@pytest.mark.parametrize(
    "seconds",
    [
        "",
        "abc",
        "nan",
        "sNaN",
        "inf",
        "-Infinity",
        float("nan"),
        float("inf"),
        "1s",
        True,
        "1e999999",
        "1e999999999999",
    ],
)
def test_what_is_no_finite_number_is_an_invalid_argument(seconds: float | str) -> None:
    with pytest.raises(EvidenceError) as caught:
        seconds_to_ns(seconds)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    assert "start_s, end_s" in caught.value.hint


@pytest.mark.parametrize(
    ("trim", "fault"),
    [
        ((155.9, 155.9), "is empty"),
        (("155.9000000001", "155.9000000002"), "is empty"),
        ((156.0, 155.9), "is inverted"),
        ((0, 1), "selects nothing"),
        ((155.0, 155.357525002), "selects nothing"),
        ((156.326972607, 200), "selects nothing"),
        (("1e300", "1e301"), "selects nothing"),
    ],
)
def test_a_window_that_cannot_be_is_refused_naming_both_windows(
    trim: tuple[float | str, float | str], fault: str
) -> None:
    error = refused(trim)
    assert error.code is ErrorCode.TRIM_OUT_OF_RANGE
    assert fault in error.message
    for text in (error.message, error.hint):
        assert "capture window is [155.357525002, 156.326972607] s" in text
        assert "GPU window [155.4, 156.300000001] s" in text


def test_a_capture_without_gpu_work_has_one_window_to_name() -> None:
    error = refused((0, 1), gpu=None)
    assert "capture window" in error.message
    assert "GPU" not in error.message + error.hint


def test_one_nanosecond_at_either_edge_is_a_window() -> None:
    first, notes = trim_window(("155.357525002", "155.357525003"), CAPTURE, GPU)
    assert (first.start_ns, first.end_ns, first.includes_end, notes) == (155_357_525_002, 155_357_525_003, False, [])
    last, notes = trim_window(("156.326972606", "156.326972607"), CAPTURE, GPU)
    assert (last.span_ns, last.includes_end, notes) == (1, True, [])


def test_a_window_inside_the_capture_is_taken_as_it_is() -> None:
    window, notes = trim_window((155.5, 156.0), CAPTURE, GPU)
    assert window == Window(155_500_000_000, 156_000_000_000, "trim", includes_end=False)
    assert notes == []


@pytest.mark.parametrize(
    ("trim", "start", "end"),
    [
        ((0, 156), CAPTURE.start_ns, 156_000_000_000),
        ((156, 1000), 156_000_000_000, CAPTURE.end_ns),
        ((-5, 1e9), CAPTURE.start_ns, CAPTURE.end_ns),
    ],
)
def test_a_window_that_reaches_out_of_the_capture_is_clipped_and_that_is_said(
    trim: tuple[float, float], start: int, end: int
) -> None:
    window, notes = trim_window(trim, CAPTURE, GPU)
    assert (window.start_ns, window.end_ns, window.by) == (start, end, "trim")
    assert window.includes_end == (end == CAPTURE.end_ns)
    assert len(notes) == 1
    assert f"trim [{trim[0]}, {trim[1]}] s was clipped to the capture window [155.357525002, 156.326972607] s" in notes


@quick
@given(a=st.integers(-10, 60), b=st.integers(-10, 60), clock=st.sampled_from((0, 155_357_525_002, 2**61)))
def test_a_trim_selects_exactly_what_it_shares_with_the_capture(a: int, b: int, clock: int) -> None:
    capture = Window(clock + 10, clock + 40, "capture window", includes_end=True)
    trim = tuple(str(Decimal(clock + edge).scaleb(-9)) for edge in (a, b))
    shared = sorted(set(range(a, b)) & set(range(10, 40)))
    if not shared:
        with pytest.raises(EvidenceError):
            trim_window(trim, capture, None)
        return
    window, notes = trim_window(trim, capture, None)
    assert (window.start_ns - clock, window.end_ns - clock) == (shared[0], shared[-1] + 1)
    assert window.includes_end == (b >= 40)
    assert bool(notes) == (a < 10 or b > 40)
