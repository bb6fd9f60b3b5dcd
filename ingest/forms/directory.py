"""What a directory may be: a Parquet export, a canonical profile, or the place where captures lie."""

from __future__ import annotations

from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.wire import clean_text
from ..cache import PROFILE_FILES
from ..canonical import not_as_written
from ..integrity import SUMS
from .export import is_nsys_table
from .found import Form, Found, found

_STRINGS = "StringIds.parquet"
_CAPTURES = (".nsys-rep", ".qdrep", ".sqlite", ".parquetdir")
MEMBERS = frozenset((*PROFILE_FILES, SUMS))
"""What a canonical directory is made of, by name."""

_NAMED = 5
"""Captures in a directory that its error names."""


def find_directory(path: Path) -> Found:
    """The capture that a directory is.

    Raises:
        EvidenceError: NOT_A_CAPTURE_DIRECTORY, or PROFILE_CORRUPT for a Parquet export without its string table.
        OSError: when the directory cannot be looked at.
    """
    if (path / SUMS).is_file() or (path / "manifest.json").is_file():
        for file in (files := tuple(path / name for name in sorted((*PROFILE_FILES, SUMS)))):
            if not file.is_file():
                raise not_as_written(path)
        return found(path, Form.CANONICAL, files)
    tables = tuple(sorted(path.glob("*.parquet")))
    if not any(is_nsys_table(table.stem) for table in tables):
        raise _no_capture(path, bool(tables))
    if not any(table.name.lower() == _STRINGS.lower() for table in tables):  # as SQLite has its names
        raise _not_whole(
            f"{path.name} has no {_STRINGS}, without which nothing in it has a name: the export was not finished, or "
            "not copied whole"
        )
    for table in tables:
        if not table.is_file():
            raise _not_whole(f"{table.name} in {path.name} is no file, or a link to none")
    return found(path, Form.PARQUETDIR, tables)


def _not_whole(what: str) -> EvidenceError:
    return EvidenceError(
        ErrorCode.PROFILE_CORRUPT,
        what,
        "copy the directory again, or export the report again: nsys export --type parquetdir --force-overwrite true "
        "REPORT.nsys-rep",
    )


def _no_capture(path: Path, parquet: bool) -> EvidenceError:
    inside = sorted(clean_text(entry.name) for entry in path.iterdir() if entry.suffix.lower() in _CAPTURES)
    what = "Parquet files, but no table of an nsys export" if parquet else "no capture itself"
    more = f" and {len(inside) - _NAMED} more" if len(inside) > _NAMED else ""
    return EvidenceError(
        ErrorCode.NOT_A_CAPTURE_DIRECTORY,
        f"{path.name} is a directory that holds {what}",
        f"give the path of one capture in it: {', '.join(inside[:_NAMED])}{more}"
        if inside
        else "give the path of one capture, such as DIRECTORY/report.nsys-rep or DIRECTORY/report.sqlite",
    )
