"""Progress of an ingest as a client sees it: rarely, and never backwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import anyio.from_thread

STEP = 0.05
"""The share of the work between two reports."""

Send = Callable[[float, float | None, str | None], Coroutine[Any, Any, None]]
"""Sends one report: how far, out of how much, and what is being done."""


class ProgressReports:
    """Passes progress from a worker thread to the event loop, about 20 times at most, always rising."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._last: float | None = None

    def __call__(self, share: float, what: str) -> None:
        """Report the share done, 0 to 1, unless it is hardly more than at the last report."""
        share = min(max(share, 0.0), 1.0)
        if self._last is not None and (share <= self._last or (share < 1 and share - self._last < STEP)):
            return
        self._last = share
        with contextlib.suppress(Exception, asyncio.CancelledError):  # a client that has gone must not fail the ingest
            anyio.from_thread.run(self._send, share, 1.0, what)
