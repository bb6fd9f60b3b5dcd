"""Iterations: the repeating steps of a capture, and one of them as a window."""

from __future__ import annotations

from typing import Any

from ..contracts.window import Window
from .call import Call


def iteration_window(call: Call[Any], iteration: int, marker: str | None) -> tuple[Window, list[str]]:
    """The window of one iteration, and notes on how its boundaries were found."""
    raise NotImplementedError
