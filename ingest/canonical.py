"""Canonical directories outside the cache: written to be copied elsewhere, and taken in again there."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

from ..contracts.errors import ErrorCode, EvidenceError
from .cache import DISK_FULL, PROFILE_FILES
from .integrity import SUMS, is_intact
from .interrupt import Interrupt
from .manifest import Manifest, read_manifest
from .source import Source, read_source
from .tables import FORMAT_VERSION

_AGAIN = "copy the directory again, or write it again where the capture is: nsys-evidence ingest CAPTURE -o DIRECTORY"


def take_in(path: Path, directory: Path, interrupt: Interrupt) -> tuple[Source, Manifest]:
    """Copy the canonical directory at `path` into an empty one, and check that the copy is whole.

    Raises:
        EvidenceError: UNSUPPORTED_FORMAT for one that another version wrote, PROFILE_CORRUPT for a damaged one.
        OSError: when the copy cannot be written.
    """
    damaged = EvidenceError(
        ErrorCode.PROFILE_CORRUPT, f"{path.name} is not as it was written: it is damaged or not whole", _AGAIN
    )
    try:
        version = json.loads((path / "manifest.json").read_text(encoding="utf-8"))["format_version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise damaged from None
    if version != FORMAT_VERSION:
        raise EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{path.name} is a profile of format {version}; this version reads format {FORMAT_VERSION}",
            "write it again with this version, where the capture is: nsys-evidence ingest CAPTURE -o DIRECTORY",
        )
    for name in (*PROFILE_FILES, SUMS):
        interrupt.check()
        if not (path / name).is_file():
            raise damaged
        shutil.copyfile(path / name, directory / name)
    if not is_intact(directory, PROFILE_FILES, interrupt.check):
        raise damaged
    try:
        return read_source(directory / "source.json"), read_manifest(directory)
    except (OSError, ValueError, KeyError, TypeError):
        raise damaged from None


def write_out(profile: Path, target: Path) -> None:
    """Copy a profile of the cache to a directory that does not exist yet, or is empty.

    Raises:
        EvidenceError: INVALID_ARGUMENT when something is there, DISK_FULL or CACHE_UNWRITABLE.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"{target.name} is there already, and not an empty directory",
            "give the name of a new directory: nsys-evidence ingest CAPTURE -o DIRECTORY",
        )
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(profile, partial)
        partial.rename(target)
    except OSError as error:
        raise EvidenceError(
            ErrorCode.DISK_FULL if error.errno in DISK_FULL else ErrorCode.CACHE_UNWRITABLE,
            f"{target.name} cannot be written: {os.strerror(error.errno) if error.errno else 'input/output error'}",
            "give a directory with room that this user may write: nsys-evidence ingest CAPTURE -o DIRECTORY",
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
