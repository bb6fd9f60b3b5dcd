"""Canonical directories outside the cache: written to be copied elsewhere, and taken in again there."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path

from ..contracts.errors import ErrorCode, EvidenceError
from .cache import DISK_FULL, PROFILE_FILES
from .forms.found import reading
from .integrity import SUMS, is_intact
from .interrupt import Interrupt, gone, reading_profile
from .manifest import Manifest, read_manifest
from .source import Source, read_source
from .tables import FORMAT_VERSION, TABLES

_AGAIN = "copy the directory again, or write it again where the capture is: nsys-evidence ingest CAPTURE -o DIRECTORY"


def not_as_written(path: Path) -> EvidenceError:
    """The error for a canonical directory that is damaged or not whole."""
    return EvidenceError(
        ErrorCode.PROFILE_CORRUPT, f"{path.name} is not as it was written: it is damaged or not whole", _AGAIN
    )


def take_in(path: Path, directory: Path, interrupt: Interrupt) -> tuple[Source, Manifest]:
    """Copy the canonical directory at `path` into an empty one, and check that the copy is whole.

    Its digests tell damage, not malice: who wrote it can have written anything into it. `Cache.publish` therefore
    prefers what was made of a capture itself.

    Raises:
        EvidenceError: UNSUPPORTED_FORMAT for one that another version wrote, PROFILE_CORRUPT for a damaged one.
        OSError: when the copy cannot be written.
    """
    with reading(path):
        text = (path / "manifest.json").read_bytes()
    try:
        version = json.loads(text)["format_version"]
        known = isinstance(version, int)
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise not_as_written(path)
    if version != FORMAT_VERSION:
        raise EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{path.name} is a profile of format {version}; this version reads format {FORMAT_VERSION}",
            "write it again with this version, where the capture is: nsys-evidence ingest CAPTURE -o DIRECTORY",
        )
    for name in (*PROFILE_FILES, SUMS):
        interrupt.check()
        with reading(path):
            content = (path / name).open("rb")
        with content, (directory / name).open("wb") as copy:
            shutil.copyfileobj(content, copy)
    if not is_intact(directory, PROFILE_FILES, interrupt.check):
        raise not_as_written(path)
    try:
        source, manifest = read_source(directory / "source.json"), read_manifest(directory)
        sizes = {name: (directory / f"{name}.parquet").stat().st_size for name in TABLES}
    except (ValueError, KeyError, TypeError):
        raise not_as_written(path) from None
    if source.profile_id != manifest.profile_id or sizes != manifest.files or set(manifest.rows) != set(TABLES):
        raise not_as_written(path)
    return source, manifest


def write_out(profile: Path, target: Path) -> None:
    """Copy a profile of the cache to a directory that does not exist yet, or is empty.

    Raises:
        EvidenceError: INVALID_ARGUMENT when something is there, DISK_FULL or CACHE_UNWRITABLE when the directory cannot
            be written, PROFILE_NOT_FOUND when the profile has left the cache.
    """
    target = target.absolute()
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise EvidenceError(
                ErrorCode.INVALID_ARGUMENT,
                f"{target.name} is there already, and not an empty directory",
                "give the name of a new directory: nsys-evidence ingest CAPTURE -o DIRECTORY",
            )
        partial.mkdir(parents=True)
        for name in (*PROFILE_FILES, SUMS):
            with reading_profile():
                content = (profile / name).open("rb")
            with content, (partial / name).open("wb") as copy:
                shutil.copyfileobj(content, copy)
        if not is_intact(partial, PROFILE_FILES):
            raise gone()
        partial.rename(target)
    except OSError as error:
        raise EvidenceError(
            ErrorCode.DISK_FULL if error.errno in DISK_FULL else ErrorCode.CACHE_UNWRITABLE,
            f"{target.name} cannot be written: {os.strerror(error.errno) if error.errno else 'input/output error'}",
            "give a directory with room that this user may write: nsys-evidence ingest CAPTURE -o DIRECTORY",
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
