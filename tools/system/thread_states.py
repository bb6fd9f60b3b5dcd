"""Thread states in words, as ENUM_SAMPLING_THREAD_STATE of an export names its numbers."""

from __future__ import annotations

from collections.abc import Iterable

STATES = (
    "unknown",
    "running",
    "interruptible",
    "uninterruptible",
    "stopped",
    "terminated",
    "unscheduled",
    "waiting",
    "os runtime",
    "initialized",
    "transition",
)
"""A state is a position here."""


def states_text(counts: Iterable[tuple[int, int]]) -> str:
    """States with how often each was seen, the most frequent first: `interruptible 12, terminated 1`."""
    ordered = sorted(counts, key=lambda found: (-found[1], found[0]))
    return ", ".join(f"{_word(state)} {count}" for state, count in ordered)


def _word(state: int) -> str:
    return STATES[state] if 0 <= state < len(STATES) else f"state {state}"
