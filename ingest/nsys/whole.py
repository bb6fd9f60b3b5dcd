"""Whether what nsys wrote is whole: nsys can end well and leave nothing or half."""

from __future__ import annotations

import os
from pathlib import Path

_SQLITE = b"SQLite format 3\0"
_PARQUET = b"PAR1"
_STRINGS = "StringIds.parquet"


def flaw_of_sqlite(path: Path) -> str | None:
    """What an SQLite export lacks, as the end of a sentence; None when it is whole by its header and side files."""
    if not path.is_file():
        return "wrote no file"
    if any(path.with_name(path.name + side).exists() for side in ("-journal", "-wal")):
        return "left an SQLite file with unfinished changes"
    with path.open("rb") as file:
        head = file.read(100)
        size = file.seek(0, os.SEEK_END)
    page, pages = int.from_bytes(head[16:18]), int.from_bytes(head[28:32])
    if not head.startswith(_SQLITE) or not pages or size != pages * (65_536 if page == 1 else page):
        return "left an SQLite file that is cut short"
    return None


def flaw_of_parquetdir(path: Path) -> str | None:
    """What a directory of Parquet files lacks, as the end of a sentence; None when it has the string table and every
    file has both its ends."""
    tables = sorted(path.glob("*.parquet"))
    if not tables:
        return "wrote no table"
    if not (path / _STRINGS).is_file():
        return f"left no {_STRINGS}"
    return next((f"left a {table.name} that is cut short" for table in tables if not _has_both_ends(table)), None)


def _has_both_ends(table: Path) -> bool:
    if not table.is_file():  # a pipe would be waited for
        return False
    with table.open("rb") as file:
        head = file.read(len(_PARQUET))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(_PARQUET), 0))
        return size > 2 * len(_PARQUET) and head == _PARQUET == file.read()
