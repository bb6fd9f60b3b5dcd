"""What stands at a path: the form of the capture, and the state of its files, by which a change is noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from ..integrity import digest_of


class Form(StrEnum):
    """A form of a capture that is taken in."""

    SQLITE = "sqlite"
    PARQUETDIR = "parquetdir"
    REPORT = "nsys-rep"
    CANONICAL = "canonical"


FileState = tuple[str, int, int, int, int, int]
"""A file's name, device, number, size and times of change, ns."""


@dataclass(frozen=True, slots=True)
class Found:
    """A capture at a path, not yet read.

    Attributes:
        path: where it is.
        form: its form.
        files: the files that it is made of, in order of their names.
        states: what was seen of each file.
    """

    path: Path
    form: Form
    files: tuple[Path, ...]
    states: tuple[FileState, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(state[3] for state in self.states)

    @property
    def changed(self) -> float:
        """When one of the files was last changed, in seconds since the epoch."""
        return max(max(state[4:]) for state in self.states) / 1e9

    def digest(self, tick: Callable[[], None]) -> str:
        """SHA-256 of the content: of a file its own, of a directory that of its files' names and digests."""
        if self.files == (self.path,):
            return digest_of(self.path, tick)
        hasher = hashlib.sha256()
        for file in self.files:
            hasher.update(f"{digest_of(file, tick)}  {file.name}\n".encode("utf-8", "surrogateescape"))
        return hasher.hexdigest()


def changed(path: Path) -> EvidenceError:
    """The error for a capture that is not what it was when it was found."""
    return EvidenceError(
        ErrorCode.PROFILE_IN_USE,
        f"{path.name} changed while it was read",
        "wait until the program that writes it has finished, then call again",
    )


def found(path: Path, form: Form, files: tuple[Path, ...]) -> Found:
    """A capture made of these files, with their state."""
    return Found(path, form, files, tuple(state_of(file) for file in files))


def state_of(file: Path) -> FileState:
    """The state of a file. Raises OSError."""
    seen: os.stat_result = file.stat()
    return (file.name, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A block that touches the capture; what the file system says against it becomes a coded error."""
    try:
        yield
    except FileNotFoundError:
        raise EvidenceError(
            ErrorCode.PROFILE_NOT_FOUND,
            f"there is no file {path.name} at that path",
            "give the absolute path of a capture, or a profile id that list_profiles shows",
        ) from None
    except OSError as error:
        raise EvidenceError(
            ErrorCode.PATH_NOT_ALLOWED,
            f"{path.name} cannot be read: {error.strerror or 'unreadable path'}",
            "give a path that this user may read",
        ) from None
