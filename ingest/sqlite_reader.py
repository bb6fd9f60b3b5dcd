"""Reads an SQLite export of nsys through ADBC into Arrow batches: no DuckDB extension, no download."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_manager
import adbc_driver_sqlite.dbapi as adbc
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..contracts.errors import ErrorCode, EvidenceError
from .reader import NONE, Coder, ColumnKind, Columns, Ints, narrowest, resolve_table
from .source import SourceTable

_BATCH_ROWS = 65_536
_TICK_S = 0.05
_CONNECTIONS = 2
"""Two connections on halves of the rowid range read nearly twice as fast as one; more gain nothing on two cores."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class SqliteReader:
    """An SQLite export, opened read-only and immutable: nothing is written beside it. See `reader.Reader`."""

    def __init__(self, path: Path) -> None:
        self._uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
        with _CodedErrors():
            self._connection = adbc.connect(self._uri)
            try:
                self._tables = self._described()
            except BaseException:
                self._connection.close()
                raise

    def _described(self) -> dict[str, dict[str, str]]:
        """Every table with its columns and their declared types."""
        names = self._rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return {
            name: {row[1]: row[2] for row in self._rows(f"PRAGMA table_info({_quoted(name)})")} for (name,) in names
        }

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.cursor()
        try:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def _find(self, table: str, column: str) -> str | None:
        """The name of a column as the source spells it."""
        name = resolve_table(table, self._tables)
        columns = self._tables[name] if name else {}
        return next((spelled for spelled in columns if spelled.lower() == column.lower()), None)

    def table_names(self) -> tuple[str, ...]:
        """See `Reader.table_names`."""
        return tuple(self._tables)

    def has(self, table: str) -> bool:
        """See `Reader.has`."""
        return resolve_table(table, self._tables) is not None

    def column_names(self, table: str) -> frozenset[str]:
        """See `Reader.column_names`."""
        name = resolve_table(table, self._tables)
        return frozenset(column.lower() for column in self._tables[name]) if name else frozenset()

    def extent(self, table: str, column: str = "start") -> tuple[int, int] | None:
        """See `Reader.extent`."""
        name, start = resolve_table(table, self._tables), self._find(table, column)
        if name is None or start is None:
            return None
        value = f"CAST({_quoted(start)} AS INTEGER)"
        with _CodedErrors():
            low, high = self._rows(f"SELECT min({value}), max({value}) FROM {_quoted(name)}")[0]
        return None if low is None else (low, high)

    def strings(self) -> tuple[Ints, pa.ChunkedArray[Any]]:
        """See `Reader.strings`."""
        query = self._pairs_query("StringIds", "id", "value")
        if query is None:
            return np.empty(0, np.int64), pa.chunked_array([], pa.binary())
        with _CodedErrors(), self._connection.cursor() as cursor:
            cursor.execute(f"{query} ORDER BY 1, 2")
            table = cursor.fetch_arrow_table()
        return table.column(0).cast(pa.int64()).to_numpy(), table.column(1)

    def pairs(self, table: str, key: str, value: str) -> Iterable[tuple[Any, str]]:
        """See `Reader.pairs`."""
        query = self._pairs_query(table, key, value)
        if query is None:
            return []
        with _CodedErrors():
            return [(a, b.decode("utf-8", "replace")) for a, b in self._rows(query)]

    def _pairs_query(self, table: str, key: str, value: str) -> str | None:
        name, first, second = resolve_table(table, self._tables), self._find(table, key), self._find(table, value)
        if name is None or first is None or second is None:
            return None
        # As bytes, since texts need not be UTF-8; without nulls, since ADBC takes a column's type from its first batch.
        return (
            f"SELECT {_quoted(first)}, CAST(CAST({_quoted(second)} AS TEXT) AS BLOB) FROM {_quoted(name)} "
            f"WHERE {_quoted(first)} IS NOT NULL AND {_quoted(second)} IS NOT NULL"
        )

    def tables(self) -> tuple[SourceTable, ...]:
        """See `Reader.tables`."""
        found = []
        with _CodedErrors():
            for name, columns in self._tables.items():
                rows = self._rows(f"SELECT count(*) FROM {_quoted(name)}")[0][0]
                found.append(SourceTable(name, rows, tuple(columns.items())))
        return tuple(found)

    def read(
        self,
        table: str,
        columns: Mapping[str, ColumnKind],
        tick: Callable[[float], None],
        only: Mapping[str, Collection[int]] | None = None,
    ) -> Columns:
        """See `Reader.read`."""
        name = resolve_table(table, self._tables)
        wanted = {column: kind for column, kind in columns.items() if self._find(table, column)}
        if name is None or not wanted:
            return Columns(0)
        expressions = ", ".join(self._expression(table, column, kind) for column, kind in wanted.items())
        chosen = "".join(
            f" AND {self._expression(table, column, 'int')} IN ({', '.join(map(str, sorted(values)))})"
            for column, values in (only or {}).items()
            if column in wanted
        )
        with _CodedErrors():
            last = self._rows(f"SELECT coalesce(max(rowid), 0) FROM {_quoted(name)}")[0][0]
            first = self._rows(f"SELECT coalesce(min(rowid), 0) FROM {_quoted(name)}")[0][0] - 1
        coders = {column: Coder() for column, kind in wanted.items() if kind != "int"}
        edges = [first + (last - first) * part // _CONNECTIONS for part in range(_CONNECTIONS + 1)]
        parts = [
            _Part(
                self._uri,
                f"SELECT {expressions} FROM {_quoted(name)} WHERE rowid > {low} AND rowid <= {high}{chosen}",
                wanted,
            )
            for low, high in pairwise(edges)
        ]
        threads = [threading.Thread(target=part.run, args=(coders,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(_TICK_S)
                tick(min(1.0, sum(part.rows for part in parts) / max(1, last - first)))
        finally:  # what `tick` raises stops the other threads too
            for part in parts:
                part.stopped = True
            for thread in threads:
                thread.join()
        for part in parts:
            if part.error is not None:
                raise part.error
        result = Columns(sum(part.rows for part in parts))
        for column, kind in wanted.items():
            dtype = np.int64 if kind == "int" else narrowest(len(coders[column].values))
            chunks = [chunk for part in parts for chunk in part.chunks.pop(column)]
            joined = np.concatenate([np.empty(0, dtype), *chunks], dtype=dtype, casting="same_kind")
            if kind == "int":
                result.ints[column] = joined
            else:
                result.codes[column] = joined
                result.values[column] = coders[column].texts() if kind == "text" else coders[column].values
        return result

    def _expression(self, table: str, column: str, kind: ColumnKind) -> str:
        spelled = self._find(table, column)
        assert spelled is not None
        # ADBC takes the type of a column from its first batch, so that a column of nulls that turns to text later
        # fails: texts are never null. Integers may stand in columns of any affinity, so they are cast.
        quoted = _quoted(spelled)
        if kind == "bytes":
            return f"CAST(coalesce({quoted}, '') AS BLOB)"
        return f"CAST(coalesce({quoted}, '') AS TEXT)" if kind == "text" else f"CAST({quoted} AS INTEGER)"


class _Part:
    """One connection's share of a table."""

    def __init__(self, uri: str, query: str, columns: Mapping[str, ColumnKind]) -> None:
        self.chunks: dict[str, list[npt.NDArray[Any]]] = {column: [] for column in columns}
        self.rows = 0
        self.error: BaseException | None = None
        self.stopped = False
        self._uri, self._query, self._columns = uri, query, columns

    def run(self, coders: Mapping[str, Coder]) -> None:
        """Read it; an error is kept for the thread that waits."""
        try:
            with _CodedErrors(), adbc.connect(self._uri) as connection, connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
                cursor.execute(self._query)
                for batch in cursor.fetch_record_batch():
                    self._take(batch, coders)
                    self.rows += batch.num_rows
                    if self.stopped:
                        return
        except BaseException as error:
            self.error = error

    def _take(self, batch: pa.RecordBatch, coders: Mapping[str, Coder]) -> None:
        for position, (column, kind) in enumerate(self._columns.items()):
            array = batch.column(position)
            if kind == "int":
                if array.null_count:
                    array = array.cast(pa.int64()).fill_null(NONE)
                # a copy, so that the batch and its text can go
                self.chunks[column].append(np.array(array.to_numpy(zero_copy_only=False), np.int64))
            else:
                codes = coders[column].encode(array)
                self.chunks[column].append(codes.astype(narrowest(len(coders[column].values)), copy=False))


class _CodedErrors:
    """What SQLite says of a damaged file becomes PROFILE_CORRUPT."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, adbc_driver_manager.Error | OSError | pa.ArrowInvalid) and not isinstance(
            error, EvidenceError
        ):
            reason = str(error).splitlines()[0].rpartition(": ")[2][:120]
            raise EvidenceError(
                ErrorCode.PROFILE_CORRUPT,
                f"the SQLite file cannot be read: {reason}",
                "copy the capture again, or export it again: nsys export --type sqlite REPORT.nsys-rep",
            ) from None
