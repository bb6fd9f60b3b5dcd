"""Stopping work from outside: one flag that a running query and a running ingest both obey."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import duckdb

from ..contracts.errors import ErrorCode, EvidenceError

_INSIST_S = 0.02


class ProfileGoneError(EvidenceError):
    """An opened profile left the cache before it was read: opening the capture again gives the answer."""


def gone() -> ProfileGoneError:
    """The error for a profile that is not there, or not whole, any more."""
    return ProfileGoneError(
        ErrorCode.PROFILE_NOT_FOUND,
        "the profile left the cache while it was read",
        "call again: a capture that is given by its path is ingested again",
    )


@contextmanager
def reading_profile() -> Iterator[None]:
    """A profile whose files are gone, evicted by another process or removed, is an error of the closed list."""
    try:
        yield
    except (duckdb.IOException, FileNotFoundError):
        raise gone() from None


class Interruptible(Protocol):
    """What can be stopped from another thread: a DuckDB cursor, or a child process."""

    def interrupt(self) -> None:
        """Stop what is running."""


class Interrupt:
    """Set by the caller of a skill or an ingest (client cancelled, deadline passed); seen by the worker thread.

    A DuckDB cursor that is tracked while it runs is interrupted at once; everything else looks at `check` between
    batches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code: ErrorCode | None = None
        self._cursors: list[Interruptible] = []

    def set(self, code: ErrorCode = ErrorCode.CANCELLED) -> None:
        """Stop the work; `code` is CANCELLED or TIMEOUT."""
        with self._lock:
            first, self._code = self._code is None, self._code or code
        if first and self._interrupt_cursors():
            threading.Thread(target=self._insist, daemon=True).start()

    def _interrupt_cursors(self) -> bool:
        """Interrupt the tracked cursors, and tell whether there are any."""
        with self._lock:
            for cursor in self._cursors:
                cursor.interrupt()
            return bool(self._cursors)

    def _insist(self) -> None:
        """Interrupt until no cursor is tracked: one whose query was only about to start has not noticed."""
        while self._interrupt_cursors():
            time.sleep(_INSIST_S)

    def check(self) -> None:
        """Raise the error that the work was stopped with, if it was."""
        if self._code is not None:
            raise EvidenceError(
                self._code,
                "the call ran out of time" if self._code is ErrorCode.TIMEOUT else "the call was cancelled",
                "ask for a narrower window with trim, or take the capture in first: nsys-evidence ingest CAPTURE"
                if self._code is ErrorCode.TIMEOUT
                else "call again if the answer is still wanted",
            )

    @contextmanager
    def track(self, cursor: Interruptible) -> Iterator[None]:
        """While the block runs, `set` interrupts this cursor; the interruption arrives as the coded error."""
        with self._lock:
            self._cursors.append(cursor)
        try:
            self.check()
            with reading_profile():
                yield
        except duckdb.InterruptException:
            self.check()
            raise
        finally:
            with self._lock:
                self._cursors.remove(cursor)
