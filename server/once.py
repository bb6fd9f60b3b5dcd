"""A value that is made at first need, once, whichever thread asks first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio.to_thread

T = TypeVar("T")


class Once(Generic[T]):
    """Makes a value when it is first asked for. A failure is not kept: the next caller tries again."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def get(self) -> T:
        """The value; blocks while another thread makes it."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

    async def wait(self) -> T:
        """The value, made off the event loop."""
        return self._made[0] if self._made else await anyio.to_thread.run_sync(self.get)
