"""The reader for a capture of any form that is read directly."""

from __future__ import annotations

from ..parquet_reader import ParquetReader
from ..reader import Reader
from ..sqlite_reader import SqliteReader
from .export import check_export
from .found import Form, Found


def open_reader(found: Found) -> Reader:
    """Open an export for reading.

    Raises:
        EvidenceError: PROFILE_CORRUPT, NOT_AN_NSYS_EXPORT or UNSUPPORTED_SCHEMA.
    """
    reader: Reader = ParquetReader(found.files) if found.form is Form.PARQUETDIR else SqliteReader(found.path)
    try:
        check_export(found.path.name, reader)
    except BaseException:
        reader.close()
        raise
    return reader
