"""Calls off the event loop: a few at a time, each with a deadline, each stopped when nobody waits for it any more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from ..contracts.errors import ErrorCode, EvidenceError
from .limits import Limits

if TYPE_CHECKING:
    from ..ingest.interrupt import Interrupt

T = TypeVar("T")


class Calls:
    """Runs blocking work in worker threads for one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = anyio.CapacityLimiter(limits.calls)

    async def run(self, work: Callable[[Interrupt], T]) -> T:
        """The value of `work`, computed in a worker thread.

        When the deadline passes or the caller is cancelled, the work's `Interrupt` is set and the work is waited for
        briefly. Work that does not stop keeps its slot until it does.

        Raises:
            EvidenceError: TIMEOUT when the deadline passed, BUSY when it passed before the work could begin.
        """
        from ..ingest.interrupt import Interrupt  # here, since it loads DuckDB, which must not delay the first reply

        interrupt = Interrupt()
        began = False
        with anyio.move_on_after(self._limits.deadline_s) as deadline:
            slot = object()
            await self._slots.acquire_on_behalf_of(slot)
            began = True
            job = _Job(work, interrupt, lambda: self._slots.release_on_behalf_of(slot))
            try:
                return await anyio.to_thread.run_sync(job.run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
            except anyio.get_cancelled_exc_class():
                interrupt.set(ErrorCode.TIMEOUT if deadline.cancel_called else ErrorCode.CANCELLED)
                with anyio.CancelScope(shield=True), anyio.move_on_after(self._limits.grace_s):
                    await job.stopped()
                raise
        if began:
            interrupt.check()
        raise EvidenceError(
            ErrorCode.BUSY,
            f"{self._limits.calls} other calls are running and none of them ended in time",
            "call again later, or cancel calls that are no longer wanted",
        )


class _Job(Generic[T]):
    """Work on its way through a worker thread, which may be abandoned before, while or after it runs."""

    def __init__(self, work: Callable[[Interrupt], T], interrupt: Interrupt, release: Callable[[], None]) -> None:
        self._work = work
        self._interrupt = interrupt
        self._release = release
        self._claim = threading.Lock()
        self._finished = anyio.Event()

    def run(self) -> T:
        """The work, in the worker thread."""
        if not self._claim.acquire(blocking=False):
            raise RuntimeError("abandoned before it began")  # seen by nobody
        try:
            self._interrupt.check()
            return self._work(self._interrupt)
        finally:
            with contextlib.suppress(RuntimeError):  # the event loop may be gone
                anyio.from_thread.run_sync(self._finish)

    async def stopped(self) -> None:
        """Wait until the work has ended. Work that no thread has taken up never will be."""
        if self._claim.acquire(blocking=False):
            self._finish()
        await self._finished.wait()

    def _finish(self) -> None:
        if not self._finished.is_set():
            self._release()
            self._finished.set()
