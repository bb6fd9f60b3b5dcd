"""From scope arguments to a Window: seconds to nanoseconds, checks, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from .errors import ErrorCode, EvidenceError
from .units import Unit, present
from .window import Window

_MOST_DIGITS = 400


def seconds_to_ns(seconds: float | int | str) -> int:
    """Seconds on the capture clock to the nearest nanosecond, through decimal, so that 155.357525002 stays exact.

    Raises:
        EvidenceError: INVALID_ARGUMENT when the value is no finite number.
    """
    try:
        value = Decimal(str(seconds))
        if value.adjusted() > _MOST_DIGITS:
            raise ValueError("more digits than anybody means, and slow to compute with")
        return int((value * 10**9).to_integral_value(ROUND_HALF_EVEN))
    except (ArithmeticError, ValueError):
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"trim: {str(seconds)[:40]!r} is no number of seconds",
            "give trim as [start_s, end_s] in seconds on the capture clock; profile_info shows its windows",
        ) from None


def _named(window: Window) -> str:
    return f"[{present(Unit.S, window.start_ns)}, {present(Unit.S, window.end_ns)}] s"


def trim_window(trim: Sequence[float | int | str], capture: Window, gpu: Window | None) -> tuple[Window, list[str]]:
    """The window that `trim` selects, checked against and clipped to the capture window, and what was clipped.

    Raises:
        EvidenceError: TRIM_OUT_OF_RANGE when the window is empty, inverted or selects nothing of the capture.
    """
    start, end = (seconds_to_ns(value) for value in trim)
    return window_between(start, end, f"trim [{trim[0]}, {trim[1]}] s", "trim", capture, gpu)


def window_between(
    start: int, end: int, asked: str, by: str, capture: Window, gpu: Window | None
) -> tuple[Window, list[str]]:
    """The window from one instant to another, checked against and clipped to the capture window, and what was clipped.

    Args:
        start: its first nanosecond.
        end: the first after it.
        asked: the window in words, as it was asked for.
        by: how it was chosen, as `Window.by`.
        capture: the capture window.
        gpu: the GPU window, where there is one.

    Raises:
        EvidenceError: TRIM_OUT_OF_RANGE when the window is empty, inverted or selects nothing of the capture.
    """
    known = f"the capture window is {_named(capture)}" + (f", the GPU window {_named(gpu)}" if gpu else "")
    hint = f"choose start < end inside the capture, whose clock does not start at zero: {known}"
    if start >= end:
        fault = "is empty" if start == end else "is inverted"
        raise EvidenceError(ErrorCode.TRIM_OUT_OF_RANGE, f"{asked} {fault}; {known}", hint)
    if end <= capture.start_ns or start >= capture.end_ns:
        raise EvidenceError(ErrorCode.TRIM_OUT_OF_RANGE, f"{asked} selects nothing; {known}", hint)
    window = Window(max(start, capture.start_ns), min(end, capture.end_ns), by, includes_end=end >= capture.end_ns)
    notes = []
    if (window.start_ns, window.end_ns) != (start, end):
        notes.append(f"{asked} was clipped to the capture window {_named(capture)}")
    return window, notes
