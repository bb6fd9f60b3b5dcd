"""Which form of capture a path holds, by content and not by suffix alone; or the error that says what to do."""

from __future__ import annotations

import stat
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from ..nsys.report import REPORT_HEAD, check_whole
from .directory import find_directory
from .found import Form, Found, found, reading
from .sqlite import MAGIC as SQLITE
from .sqlite import check_sqlite

_REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
_OTHER_EXPORTS = (".json", ".jsonl", ".arrow", ".h5", ".hdf", ".txt.gz")


def find_capture(path: Path) -> Found:
    """What is cheap to see of the capture at a path.

    Raises:
        EvidenceError: PROFILE_NOT_FOUND, PATH_NOT_ALLOWED, PROFILE_EMPTY, NOT_A_CAPTURE, NOT_A_CAPTURE_DIRECTORY,
            UNSUPPORTED_FORMAT, PROFILE_IN_USE or PROFILE_CORRUPT.
    """
    with reading(path):
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            return find_directory(path)
        if not stat.S_ISREG(kind):
            raise EvidenceError(
                ErrorCode.NOT_A_CAPTURE,
                f"{path.name} is no regular file",
                "give the path of an nsys report or of one of its exports",
            )
        with path.open("rb") as file:
            head = file.read(100)
        if not head:
            raise EvidenceError(
                ErrorCode.PROFILE_EMPTY,
                f"{path.name} is empty (0 bytes)",
                "copy it again from where it was recorded"
                if path.suffix.lower() in _REPORT_SUFFIXES
                else "copy it again, or export the report again: nsys export --type sqlite --force-overwrite true "
                f"{path.stem}.nsys-rep",
            )
        if head.startswith(SQLITE):
            check_sqlite(path, head)
            return found(path, Form.SQLITE, (path,))
        if head.startswith(REPORT_HEAD):
            check_whole(path)
            return found(path, Form.REPORT, (path,))
    raise _unreadable(path, head)


def _unreadable(path: Path, head: bytes) -> EvidenceError:
    name, suffix = path.name, path.suffix.lower()
    if suffix == ".qdstrm":
        return EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{name} is a raw stream that nsys did not finish",
            f"import it on a machine with Nsight Systems: QdstrmImporter -i {name}; give the report that it writes",
        )
    if suffix in _REPORT_SUFFIXES:
        return EvidenceError(
            ErrorCode.PROFILE_CORRUPT,
            f"{name} has the name of an nsys report, but not the content of one",
            "copy the report again, from the machine on which it was recorded",
        )
    if suffix in _OTHER_EXPORTS or head.startswith(b"ARROW1"):
        return EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{name} is an export of a form that is not read",
            "give the report itself, or export it to SQLite: nsys export --type sqlite REPORT.nsys-rep",
        )
    if head.startswith(b"PAR1"):
        return EvidenceError(
            ErrorCode.NOT_A_CAPTURE,
            f"{name} is one table of a Parquet export, not the whole",
            "give the path of the directory that it is in",
        )
    return EvidenceError(
        ErrorCode.NOT_A_CAPTURE,
        f"{name} is no capture: its content is neither an nsys report nor an export of one",
        "give the path of a .nsys-rep, or of an export: nsys export --type sqlite REPORT.nsys-rep",
    )
