"""What a path holds, by content and not by suffix alone, and the reader for it; or the error that says what to do."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..contracts.errors import ErrorCode, EvidenceError
from .reader import Reader
from .sqlite_reader import SqliteReader

_SQLITE = b"SQLite format 3\0"
_REPORT = b"NVIDIA Tegra Profiler Report"
_REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
_NSYS_TABLES = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "OSRT_API", "TARGET_INFO_", "META_DATA_EXPORT", "PROCESSES")
_NEWEST_SCHEMA = (3, 25)
"""The newest export schema that was seen; a newer minor is read with a warning, a newer major is refused."""


def open_reader(path: Path) -> Reader:
    """Open a capture for reading.

    Raises:
        EvidenceError: PROFILE_NOT_FOUND, PATH_NOT_ALLOWED, PROFILE_EMPTY, NOT_A_CAPTURE, NOT_A_CAPTURE_DIRECTORY,
            UNSUPPORTED_FORMAT, PROFILE_IN_USE, PROFILE_CORRUPT, NOT_AN_NSYS_EXPORT or UNSUPPORTED_SCHEMA.
    """
    check_capture(path)
    reader = SqliteReader(path)
    try:
        _check_export(path, reader)
    except BaseException:
        reader.close()
        raise
    return reader


def check_capture(path: Path) -> os.stat_result:
    """What is cheap to see of a capture, and the errors that follow from it; see `open_reader`."""
    with reading(path):
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise _directory(path)
        if not stat.S_ISREG(found.st_mode):
            raise EvidenceError(
                ErrorCode.NOT_A_CAPTURE, f"{path.name} is no regular file", "give the path of an nsys SQLite export"
            )
        with path.open("rb") as file:
            head = file.read(100)
    if not head:
        raise EvidenceError(
            ErrorCode.PROFILE_EMPTY,
            f"{path.name} is empty (0 bytes)",
            f"export the report again: nsys export --type sqlite --force-overwrite true {path.stem}.nsys-rep",
        )
    if not head.startswith(_SQLITE):
        raise _unreadable(path, head)
    with reading(path):
        _check_sqlite(path, head)
    return found


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A block that touches the capture; what the file system says against it becomes a coded error."""
    try:
        yield
    except FileNotFoundError:
        raise EvidenceError(
            ErrorCode.PROFILE_NOT_FOUND,
            f"there is no file {path.name} at that path",
            "give the absolute path of an nsys SQLite export, or a profile id that list_profiles shows",
        ) from None
    except OSError as error:
        raise EvidenceError(
            ErrorCode.PATH_NOT_ALLOWED,
            f"{path.name} cannot be read: {error.strerror or 'unreadable path'}",
            "give a path that this user may read",
        ) from None


def _directory(path: Path) -> EvidenceError:
    if any(path.glob("*.parquet")):
        return EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{path.name} is a directory of Parquet files, which this version does not read",
            "export the report to SQLite instead: nsys export --type sqlite REPORT.nsys-rep",
        )
    return EvidenceError(
        ErrorCode.NOT_A_CAPTURE_DIRECTORY,
        f"{path.name} is a directory that holds no export",
        "give the path of one capture, such as DIRECTORY/report.sqlite",
    )


def _unreadable(path: Path, head: bytes) -> EvidenceError:
    name, suffix = path.name, path.suffix.lower()
    if suffix == ".qdstrm":
        return EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{name} is a raw stream that nsys did not finish",
            f"import it on a machine with Nsight Systems: QdstrmImporter -i {name}, then nsys export --type sqlite",
        )
    if head.startswith(_REPORT) or suffix in _REPORT_SUFFIXES:
        return EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{name} is an nsys report, which this version does not read itself",
            f"export it first: nsys export --type sqlite {name}",
        )
    if suffix in (".json", ".jsonl", ".arrow", ".h5", ".hdf", ".txt.gz") or head.startswith(b"ARROW1"):
        return EvidenceError(
            ErrorCode.UNSUPPORTED_FORMAT,
            f"{name} is an export of a form that is not read",
            "export the report to SQLite: nsys export --type sqlite REPORT.nsys-rep",
        )
    return EvidenceError(
        ErrorCode.NOT_A_CAPTURE,
        f"{name} is no capture: its content is neither SQLite nor an nsys report",
        "give the path of an nsys SQLite export: nsys export --type sqlite REPORT.nsys-rep",
    )


def _check_sqlite(path: Path, head: bytes) -> None:
    """Refuse a database that is being written, and one that is shorter than its header says."""
    for suffix in ("-wal", "-journal"):
        side = path.with_name(path.name + suffix)
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


def _check_export(path: Path, reader: Reader) -> None:
    names = reader.table_names()
    if not any(name.startswith(_NSYS_TABLES) for name in names):
        raise EvidenceError(
            ErrorCode.NOT_AN_NSYS_EXPORT,
            f"{path.name} is an SQLite file, but nsys did not write it: it has none of nsys's tables",
            "give the path of an nsys SQLite export: nsys export --type sqlite REPORT.nsys-rep",
        )
    version = versions(reader)[1]
    major = version.partition(".")[0] if version else ""
    if major.isdigit() and int(major) > _NEWEST_SCHEMA[0]:
        raise EvidenceError(
            ErrorCode.UNSUPPORTED_SCHEMA,
            f"{path.name} has export schema {version}; schemas up to {_NEWEST_SCHEMA[0]}.x are read",
            "export the report with an older nsys, or install a newer nsys-evidence",
        )


def versions(reader: Reader) -> tuple[str | None, str | None]:
    """Version of the nsys that exported the capture, and of the export schema; None where the export does not say."""
    facts = {str(key): str(value) for key, value in reader.pairs("META_DATA_EXPORT", "name", "value")}
    return facts.get("EXPORT_PRODUCT_VERSION"), facts.get("EXPORT_SCHEMA_VERSION")


def schema_warnings(schema_version: str | None) -> tuple[str, ...]:
    """A warning for an export schema newer than any that was seen."""
    parts = (schema_version or "").split(".")
    if (
        len(parts) >= 2
        and parts[0].isdigit()
        and parts[1].isdigit()
        and (int(parts[0]), int(parts[1])) > _NEWEST_SCHEMA
    ):
        newest = ".".join(map(str, _NEWEST_SCHEMA))
        return (
            f"export schema {schema_version} is newer than the newest one known ({newest}): columns may have changed",
        )
    return ()
