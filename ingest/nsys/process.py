"""Running nsys: no input, its own process group, a deadline, bounded output, and nothing left running when we end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..interrupt import Interrupt

_POLL_S = 0.02
_KEPT_BYTES = 65_536
_CHUNK_BYTES = 1_048_576
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE")
"""All that nsys gets of the environment: what it is not given it can neither print nor pass on."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: exit status, negative for a signal; None when the deadline passed and it was killed.
        output: the last 64 KiB of standard output and standard error together.
    """

    code: int | None
    output: str


def run(command: Sequence[str], place: Path, deadline_s: float, interrupt: Interrupt) -> Ended:
    """Run a command in `place`, which is its working, home and temporary directory too, and wait for its end.

    Whatever it started in its process group is dead when this returns or raises.

    Raises:
        EvidenceError: CANCELLED or TIMEOUT, what the interrupt was set with.
        OSError: the command cannot be started.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    process = subprocess.Popen(
        command,
        cwd=place,
        env=environment | {"HOME": str(place), "TMPDIR": str(place)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process, _ended_with_this_process(process.pid):
        try:
            output = _output_until_end(process, time.monotonic() + deadline_s, interrupt)
            return Ended(process.poll(), output.decode("utf-8", "replace"))
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _ended_with_this_process(group: int) -> Iterator[None]:
    """Have a process group killed when this process ends, however it does: by any signal, or by the system.

    A shell waits for the end of a pipe that this process alone holds, which the system closes with it.
    """
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", 'read _; kill -9 "-$1"', "sh", str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with watcher:
        try:
            yield
        finally:
            watcher.kill()  # before the pipe is closed


def _output_until_end(process: subprocess.Popen[bytes], ends: float, interrupt: Interrupt) -> bytes:
    """The tail of what the process says until it exits or the deadline (a `time.monotonic`) passes."""
    assert process.stdout is not None
    source = process.stdout.fileno()
    os.set_blocking(source, False)
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while process.poll() is None and time.monotonic() < ends:
            interrupt.check()
            if selector.select(_POLL_S):
                chunk = _read(source)
                if chunk == b"":
                    selector.unregister(source)
                kept = (kept + (chunk or b""))[-_KEPT_BYTES:]
    return (kept + (_read(source) or b""))[-_KEPT_BYTES:]


def _read(source: int) -> bytes | None:
    """What stands ready; empty at the end of the stream, None when there is nothing yet."""
    try:
        return os.read(source, _CHUNK_BYTES)
    except BlockingIOError:
        return None
