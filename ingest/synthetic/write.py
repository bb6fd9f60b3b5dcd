"""Writes a capture as an Nsight Systems SQLite export, in any of the layouts that real exports come in."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from .machine import machine_rows
from .model import Capture
from .rows import Row, Strings, Text, event_rows
from .tables import ABSENT_IN_2021, ENUM_COLUMNS, ENUMS, NEW_SINCE_2021, OLD_COLUMNS, TABLES

_KEY = "INTEGER NOT NULL PRIMARY KEY"


@dataclass(frozen=True, slots=True)
class Layout:
    """How an export stores its capture. None of this changes what the capture says.

    Attributes:
        shuffle: a seed that permutes the rows of every table and the ids of StringIds.
        suffix: table name to the version behind it, as {"NVTX_EVENTS": "_V2"}.
        drop_tables: tables that are left out, by their plain names.
        drop_columns: columns that are left out, by the plain name of the table.
        old_schema: the tables and columns of 2021: no metadata, labels, green contexts, graphs or mangled names.
        empty_tables: write tables without rows too, where nsys would leave them out.
        text: NVTX text as each event says, all inline, or all by reference to StringIds.
        text_affinity: store starts as text, in columns without a type.
        wal: leave everything in a live write-ahead log beside the file.
    """

    shuffle: int | None = None
    suffix: Mapping[str, str] = field(default_factory=dict)
    drop_tables: frozenset[str] = frozenset()
    drop_columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    old_schema: bool = False
    empty_tables: bool = False
    text: Text = "as_given"
    text_affinity: bool = False
    wal: bool = False


_AS_NSYS_DOES = Layout()


def write_sqlite(capture: Capture, path: Path, *, layout: Layout = _AS_NSYS_DOES) -> Path:
    """Write the capture to `path`, replacing what is there, and return the path.

    The same capture and layout give the same bytes (a write-ahead log apart, whose header SQLite salts).
    """
    rng = None if layout.shuffle is None else Random(layout.shuffle)
    strings = Strings(rng)
    rows = event_rows(capture, strings, layout.text) | machine_rows(capture, strings)
    for table, more in capture.extra_tables.items():
        rows[table] = rows.get(table, []) + more
    rows["StringIds"] = strings.rows()
    for table, labels in ENUMS.items():
        rows[table] = [dict(zip(("id", "name", "label"), values, strict=True)) for values in labels]

    log = path.with_name(path.name + "-wal")
    for stale in (path, log):
        stale.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA synchronous = off")
        database.execute(f"PRAGMA journal_mode = {'wal' if layout.wal else 'memory'}")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("BEGIN")
        for table in dict.fromkeys((*TABLES, *rows)):
            if _is_written(table, rows.get(table, []), layout):
                _write_table(database, table, rows.get(table, []), layout, rng)
        database.execute("COMMIT")
        live = [(file, file.read_bytes()) for file in (path, log)] if layout.wal else []
    finally:
        database.close()
    for file, content in live:
        file.write_bytes(content)
    return path


def _is_written(table: str, rows: list[Row], layout: Layout) -> bool:
    if layout.old_schema and (table in ABSENT_IN_2021 or table in ENUMS):
        return False
    return table not in layout.drop_tables and (bool(rows) or layout.empty_tables or table == "StringIds")


def _columns(table: str, rows: list[Row], layout: Layout) -> dict[str, str]:
    """Column names and types: the known ones, then those that only this capture has."""
    known = ENUM_COLUMNS if table in ENUMS else TABLES.get(table, "")
    if layout.old_schema:
        known = OLD_COLUMNS.get(table, known)
    columns: dict[str, str] = {}
    for column in known.split():
        name, _, kind = column.partition(":")
        columns[name] = _KEY if kind == "KEY" else kind or "INTEGER"
    for row in rows:
        for name, value in row.items():
            if name not in columns:
                columns[name] = _kind(value)
    dropped = layout.drop_columns.get(table, frozenset())
    if layout.old_schema:
        newer = set(TABLES.get(table, "").split()) - set(known.split())
        dropped |= NEW_SINCE_2021 | newer
    return {name: kind for name, kind in columns.items() if name not in dropped}


def _kind(value: object) -> str:
    return "TEXT" if isinstance(value, str) else "REAL" if isinstance(value, float) else "INTEGER"


def _write_table(database: sqlite3.Connection, table: str, rows: list[Row], layout: Layout, rng: Random | None) -> None:
    columns = _columns(table, rows, layout)
    if layout.text_affinity and "start" in columns:
        columns["start"] = ""
        rows = [row | {"start": None if row["start"] is None else str(row["start"])} for row in rows]
    values = [tuple(map(row.get, columns)) for row in rows]
    if rng is not None:
        rng.shuffle(values)
    name = table + layout.suffix.get(table, "")
    declared = ", ".join(f'"{column}" {kind}'.rstrip() for column, kind in columns.items())
    database.execute(f'CREATE TABLE "{name}" ({declared})')
    database.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', values)
