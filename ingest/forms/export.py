"""Whether an export, SQLite or Parquet, is one of nsys, and of a schema that is known."""

from __future__ import annotations

from ...contracts.errors import ErrorCode, EvidenceError
from ..reader import Reader

_NSYS_TABLES = (
    "CUPTI_ACTIVITY_KIND_",
    "NVTX_EVENTS",
    "OSRT_API",
    "TARGET_INFO_",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "PROCESSES",
)
_NEWEST_SCHEMA = (3, 25)
"""The newest export schema that was seen; a newer minor is read with a warning, a newer major is refused."""


def is_nsys_table(name: str) -> bool:
    """Whether nsys writes tables of this name, and hardly anybody else does."""
    return name.startswith(_NSYS_TABLES)


def check_export(name: str, reader: Reader) -> None:
    """Refuse a database of another program, and an export of a schema that is not known yet.

    Raises:
        EvidenceError: NOT_AN_NSYS_EXPORT or UNSUPPORTED_SCHEMA.
    """
    if not any(map(is_nsys_table, reader.table_names())):
        raise EvidenceError(
            ErrorCode.NOT_AN_NSYS_EXPORT,
            f"nsys did not write {name}: it has none of nsys's tables",
            "give the path of an nsys report, or of an export: nsys export --type sqlite REPORT.nsys-rep",
        )
    version = versions(reader)[1]
    major = version.partition(".")[0] if version else ""
    if major.isdigit() and int(major) > _NEWEST_SCHEMA[0]:
        raise EvidenceError(
            ErrorCode.UNSUPPORTED_SCHEMA,
            f"{name} has export schema {version}; schemas up to {_NEWEST_SCHEMA[0]}.x are read",
            "export the report with an older nsys, or install a newer nsys-evidence",
        )


def versions(reader: Reader) -> tuple[str | None, str | None]:
    """Version of the nsys that exported the capture, and of the export schema; None where the export does not say."""
    facts = {
        str(key): value
        for table in ("EXPORT_META_DATA", "META_DATA_EXPORT")  # the older and the newer name
        for key, value in reader.pairs(table, "name", "value")
    }
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
