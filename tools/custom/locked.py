"""The DuckDB that custom SQL runs in: canonical tables in, no file, no network, no attaching, nothing left to set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from ...contracts.wire import clean_text
from ...ingest.tables import TABLES
from .sql import RefusedSqlError, SqlChecker, ordered

MEMORY_LIMIT = "1GB"
"""What DuckDB may hold; what it does not count is held by the child's own limit."""

MAX_COLUMNS = 40

LOCKS = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET disabled_filesystems = 'LocalFileSystem,HTTPFileSystem'",
    "SET lock_configuration = true",
)
"""Set once the tables are there, in this order."""

_INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG", "HUGE")} | {
    "INTEGER",
    "UINTEGER",
}
_VALUES = {
    "integer": duckdb.LongValue,
    "number": duckdb.DoubleValue,
    "text": duckdb.StringValue,
    "flag": duckdb.BooleanValue,
}


def connect(tables: Mapping[str, pa.Table | ds.Dataset]) -> duckdb.DuckDBPyConnection:
    """A fresh DuckDB in memory that has these tables and reaches nothing else.

    One thread, so that no figure depends on how work was split; nothing spills to disk.
    """
    connection = duckdb.connect(
        config={
            "threads": 1,
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": "",
            "max_temp_directory_size": "0B",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "allow_persistent_secrets": "false",
            "preserve_insertion_order": "true",
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        connection.register(name, table)
    for lock in LOCKS:
        connection.execute(lock)
    return connection


def empty_tables() -> dict[str, pa.Table | ds.Dataset]:
    """Every canonical table without a row."""
    return {name: schema.empty_table() for name, schema in TABLES.items()}


def tables_in(directory: Path, names: set[str]) -> dict[str, pa.Table | ds.Dataset]:
    """Canonical tables of a profile, read by Arrow while the query runs."""
    files = LocalFileSystem()
    found: dict[str, pa.Table | ds.Dataset] = {}
    for name in sorted(names):
        path = directory / f"{name}.parquet"
        path.stat()  # a profile that is gone is told apart from SQL that fails
        found[name] = ds.dataset([str(path)], schema=TABLES[name], format="parquet", filesystem=files)
    return found


def bind(sql: str, types: Mapping[str, str]) -> dict[str, Any]:
    """Check SQL and bind it to empty tables: its columns with their kinds, the tables and parameters that it uses.

    Args:
        sql: the SQL.
        types: the parameters that it may use, with their types.

    Raises:
        RefusedSqlError: when it is refused, or does not bind.
    """
    checked = _checker().check(sql, types)
    samples = {name: value(kind, _SAMPLES[kind]) for name, kind in types.items() if name in checked.parameters}
    columns = _described(_empty(), _checker().text(checked.tree), sql, samples)
    if len(columns) > MAX_COLUMNS:
        raise RefusedSqlError(f"the result has more than {MAX_COLUMNS} columns", "choose the columns that matter")
    return {
        "columns": [[name, _kind(name, kind)] for name, kind in columns],
        "tables": sorted(checked.tables),
        "parameters": sorted(checked.parameters),
    }


@cache
def _checker() -> SqlChecker:
    return SqlChecker(connect({}))


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    """Canonical tables without rows, for binding only."""
    return connect(empty_tables())


_SAMPLES: dict[str, Any] = {"integer": 1, "number": 1.0, "text": "", "flag": True, "integers": [0]}


def run(
    sql: str, types: Mapping[str, str], given: Mapping[str, Any], directory: Path, offset: int, max_rows: int
) -> dict[str, Any]:
    """Run checked SQL over a profile: the rows of the page, the number of all rows, and whether a value was no number.

    Raises:
        RefusedSqlError: when the SQL fails.
        FileNotFoundError: when the profile is gone.
    """
    checker = _checker()
    checked = checker.check(sql, types)
    connection = connect(tables_in(directory, checked.tables))
    parameters = {name: value(types[name], given[name]) for name in checked.parameters}
    plain = _checked_again(checker, checked.tree, types)
    try:
        columns = [
            (row[0], str(row[1])) for row in connection.execute(f"DESCRIBE ({plain})", parameters or None).fetchall()
        ]
        text = _checked_again(checker, ordered(checked.tree, len(columns)), types)
        counted = connection.execute(f"SELECT count(*) FROM ({plain})", parameters or None).fetchone()
        page = f"SELECT * FROM ({text}) LIMIT {max_rows:d} OFFSET {offset:d}"
        rows = connection.execute(page, parameters or None).fetchall()
    except duckdb.Error as error:
        raise failed(error) from None
    kinds = [_kind(name, kind) for name, kind in columns]
    shown = [[_plain(kind, cell) for kind, cell in zip(kinds, row, strict=True)] for row in rows]
    unknown = any(isinstance(cell, float) and not math.isfinite(cell) for row in rows for cell in row)
    return {"rows": shown, "total_rows": counted[0] if counted else 0, "not_finite": unknown, "kinds": kinds}


def value(kind: str, given: Any) -> Any:
    """A parameter as DuckDB binds it, always of the same type."""
    return [int(number) for number in given] if kind == "integers" else _VALUES[kind](given)


def failed(error: duckdb.Error) -> RefusedSqlError:
    """The error for SQL that DuckDB does not bind or cannot finish."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return RefusedSqlError(
            f"the SQL needs more than {MEMORY_LIMIT} of memory", "filter and aggregate before joining and sorting"
        )
    message = str(error).split("\n", 1)[0]
    return RefusedSqlError(f"DuckDB: {message}", "correct the SQL; docs/custom-skills.md lists tables and columns")


def _checked_again(checker: SqlChecker, tree: dict[str, Any], types: Mapping[str, str]) -> str:
    """The text of a tree, which is what runs: it is checked as it is."""
    text = checker.text(tree)
    checker.check(text, types)
    return text


def _described(
    connection: duckdb.DuckDBPyConnection, text: str, sql: str, parameters: Mapping[str, Any]
) -> list[tuple[str, str]]:
    try:
        rows = connection.execute(f"DESCRIBE ({text})", dict(parameters) or None).fetchall()
        return [(row[0], str(row[1])) for row in rows]
    except duckdb.Error as error:
        refusal = failed(error)
    try:  # the same error once more, with its place in the SQL as it was written
        connection.execute(f"EXPLAIN {sql}", dict(parameters) or None)
    except duckdb.Error as error:
        refusal.position = _place(str(error), sql)
    raise refusal


def _place(message: str, sql: str) -> int | None:
    """Where DuckDB's `LINE n:` points, in bytes of the SQL."""
    for line in message.splitlines():
        head, colon, _ = line.partition(":")
        word, _, number = head.partition(" ")
        if colon and word == "LINE" and number.isdigit():
            lines = sql.split("\n")[: int(number) - 1]
            return len("".join(f"{before}\n" for before in lines).encode())
    return None


def _kind(name: str, kind: str) -> str:
    """What a column of this DuckDB type holds."""
    if kind in _INTEGERS:
        return "integer"
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL("):
        return "number"
    if kind == "VARCHAR":
        return "text"
    if kind == "BOOLEAN":
        return "flag"
    raise RefusedSqlError(
        f"the column {name} is {kind}", "columns are integers, numbers, texts or flags: cast it, or take it apart"
    )


def _plain(kind: str, cell: Any) -> Any:
    """A value as JSON carries it to the parent: numbers exactly, texts clean and capped."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return None
    if kind == "text":
        return clean_text(str(cell))
    if kind == "number":
        return str(Decimal(cell))
    return bool(cell) if kind == "flag" else int(cell)
