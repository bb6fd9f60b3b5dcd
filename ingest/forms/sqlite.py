"""What is checked of an SQLite export before it is opened."""

from __future__ import annotations

from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError

MAGIC = b"SQLite format 3\0"


def side_files(path: Path) -> list[Path]:
    """Where SQLite keeps changes of a database that are not in it yet; the files need not be there."""
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")]


def check_sqlite(path: Path, head: bytes) -> None:
    """Refuse a database that is being written, and one that is shorter than its header, 100 bytes, says.

    Raises:
        EvidenceError: PROFILE_IN_USE or PROFILE_CORRUPT.
        OSError: when the file cannot be looked at.
    """
    for side in side_files(path):
        if side.is_file() and side.stat().st_size:
            raise EvidenceError(
                ErrorCode.PROFILE_IN_USE,
                f"{path.name} has unwritten changes in {side.name}: reading it now would miss them",
                "wait until the program that writes it has closed it, or close it with: "
                f"sqlite3 {path.name} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            )
    page = int.from_bytes(head[16:18])
    page = 65_536 if page == 1 else page
    pages, valid = int.from_bytes(head[28:32]), head[24:28] == head[92:96]
    if len(head) < 100 or page < 512 or (valid and path.stat().st_size < pages * page):
        raise EvidenceError(
            ErrorCode.PROFILE_CORRUPT,
            f"{path.name} is cut short: its header promises {pages * page} bytes, it has {path.stat().st_size}",
            "copy the capture again, or export it again: nsys export --type sqlite REPORT.nsys-rep",
        )
