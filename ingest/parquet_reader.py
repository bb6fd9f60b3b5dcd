"""Reads a Parquet export of nsys (`nsys export --type parquetdir`): a directory with one file a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..contracts.errors import ErrorCode, EvidenceError
from .forms.found import changed
from .reader import NONE, Coder, ColumnKind, Columns, Ints, narrowest, resolve_table
from .source import SourceTable

_BATCH_ROWS = 65_536


class ParquetReader:
    """A Parquet export. See `reader.Reader`.

    SQLite has one type of integers, and texts that may be null; values are given here as they are read from there:
    unsigned ones with their bits as they are, so that all ones is -1, and no text as an empty one.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = {file.stem: file for file in files}
        self._schemas: dict[str, pa.Schema] = {}
        self._rows: dict[str, int] = {}
        for table, file in self._files.items():
            with _coded_errors(file):
                described = pq.ParquetFile(file)
                try:
                    self._schemas[table] = described.schema_arrow
                    self._rows[table] = described.metadata.num_rows
                finally:
                    described.close()

    def close(self) -> None:
        """See `Reader.close`; files are open only while they are read."""

    def table_names(self) -> tuple[str, ...]:
        """See `Reader.table_names`."""
        return tuple(self._files)

    def has(self, table: str) -> bool:
        """See `Reader.has`."""
        return resolve_table(table, self._files) is not None

    def column_names(self, table: str) -> frozenset[str]:
        """See `Reader.column_names`."""
        name = resolve_table(table, self._files)
        return frozenset(column.lower() for column in self._schemas[name].names) if name else frozenset()

    def extent(self, table: str, column: str = "start") -> tuple[int, int] | None:
        """See `Reader.extent`."""
        edges = []
        for (start,) in self._batches(table, {column: _integers}):
            bounds = pc.min_max(start)
            if bounds["min"].is_valid:
                edges += [bounds["min"].as_py(), bounds["max"].as_py()]
        return (min(edges), max(edges)) if edges else None

    def strings(self) -> tuple[Ints, pa.ChunkedArray[Any]]:
        """See `Reader.strings`."""
        rows = self._pairs("StringIds", "id", "value")
        rows = rows.take(pc.sort_indices(rows, [("key", "ascending"), ("value", "ascending")]))
        return rows.column("key").to_numpy(), rows.column("value")

    def pairs(self, table: str, key: str, value: str) -> Iterable[tuple[Any, str]]:
        """See `Reader.pairs`."""
        rows = self._pairs(table, key, value)
        return [tuple(_decoded(value) for value in row.values()) for row in rows.to_pylist()]

    def _pairs(self, table: str, key: str, value: str) -> pa.Table:
        """The columns `key` and `value`, the second as bytes, of the rows that have both."""
        batches = [
            pa.table({"key": first, "value": second})
            for first, second in self._batches(table, {key: _plain, value: _bytes})
        ]
        if not batches:
            return pa.table({"key": pa.array([], pa.int64()), "value": pa.array([], pa.binary())})
        return pa.concat_tables(batches).drop_null().combine_chunks()

    def tables(self) -> tuple[SourceTable, ...]:
        """See `Reader.tables`."""
        return tuple(
            SourceTable(table, self._rows[table], tuple((column.name, str(column.type)) for column in schema))
            for table, schema in self._schemas.items()
        )

    def read(
        self,
        table: str,
        columns: Mapping[str, ColumnKind],
        tick: Callable[[float], None],
        only: Mapping[str, Collection[int]] | None = None,
    ) -> Columns:
        """See `Reader.read`."""
        present = self.column_names(table)
        wanted = {column: kind for column, kind in columns.items() if column.lower() in present}
        if not wanted:
            return Columns(0)
        coders = {column: Coder() for column, kind in wanted.items() if kind != "int"}
        chunks: dict[str, list[npt.NDArray[Any]]] = {column: [] for column in wanted}
        done, kept, rows = 0, 0, self._rows[resolve_table(table, self._files) or ""]
        take = {column: _bytes if kind in ("text", "bytes") else _integers for column, kind in wanted.items()}
        for arrays in self._batches(table, take):
            done += len(arrays[0])
            for column, chosen in (only or {}).items():
                if column in wanted:
                    found = pc.is_in(arrays[list(wanted).index(column)], value_set=pa.array(sorted(chosen), pa.int64()))
                    arrays = [array.filter(found) for array in arrays]
            for (column, kind), values in zip(wanted.items(), arrays, strict=True):
                if kind == "int":
                    chunks[column].append(values.fill_null(NONE).to_numpy(zero_copy_only=False))
                else:
                    codes = coders[column].encode(values.fill_null(b"") if kind in ("text", "bytes") else values)
                    chunks[column].append(codes.astype(narrowest(len(coders[column].values)), copy=False))
            kept += len(arrays[0])
            tick(done / max(1, rows))
        result = Columns(kept)
        for column, kind in wanted.items():
            dtype = np.int64 if kind == "int" else narrowest(len(coders[column].values))
            joined = np.concatenate([np.empty(0, dtype), *chunks.pop(column)], dtype=dtype, casting="same_kind")
            if kind == "int":
                result.ints[column] = joined
            else:
                result.codes[column] = joined
                result.values[column] = coders[column].texts() if kind == "text" else coders[column].values
        return result

    def _batches(
        self, table: str, columns: Mapping[str, Callable[[pa.Array[Any]], pa.Array[Any]]]
    ) -> Iterator[list[pa.Array[Any]]]:
        """Columns of a table in this order, each taken as told, a batch at a time; nothing where one is not there."""
        name = resolve_table(table, self._files)
        if name is None:
            return
        spelled = {column.lower(): column for column in self._schemas[name].names}
        if any(column.lower() not in spelled for column in columns):
            return
        chosen = [spelled[column.lower()] for column in columns]
        with _coded_errors(self._files[name]):
            file = pq.ParquetFile(self._files[name], page_checksum_verification=True)
            try:
                for batch in file.iter_batches(_BATCH_ROWS, columns=chosen):
                    yield [take(batch.column(column)) for column, take in zip(chosen, columns.values(), strict=True)]
            finally:
                file.close()


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _plain(values: pa.Array[Any]) -> pa.Array[Any]:
    """Texts as bytes, and anything else as integers: the values of a column that may be either."""
    return _bytes(values) if _is_text(values.type) else _integers(values)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        check(kind)
        for check in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
        )
    )


def _bytes(values: pa.Array[Any]) -> pa.Array[Any]:
    """Texts as bytes, which need not be UTF-8; numbers as their digits."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if not _is_text(values.type):
        values = values.cast(pa.string()) if pa.types.is_floating(values.type) else _integers(values).cast(pa.string())
    return values.cast(pa.binary())


def _integers(values: pa.Array[Any]) -> pa.Array[Any]:
    """Any column as signed 64-bit integers, as SQLite stores and casts them."""
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pa.types.is_uint64(values.type):
        return values.view(pa.int64())
    if pa.types.is_floating(values.type):
        return _from_floats(values.cast(pa.float64()))
    return values.cast(pa.int64())


def _from_floats(values: pa.Array[Any]) -> pa.Array[Any]:
    """Floats as integers, as SQLite has them: the fraction cut, the nearest integer beyond 64 bits, null for NaN."""
    floats = values.to_numpy(zero_copy_only=False)  # nulls become NaN
    absent = np.isnan(floats)
    high, low = floats >= 2.0**63, floats < -(2.0**63)
    whole = np.where(absent | high | low, 0.0, floats).astype(np.int64)
    whole[high], whole[low] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    return pa.array(whole, pa.int64(), mask=absent)


@contextmanager
def _coded_errors(file: Path) -> Iterator[None]:
    """What Arrow says of a damaged file becomes PROFILE_CORRUPT; what the system says of one, PATH_NOT_ALLOWED."""
    try:
        yield
    except FileNotFoundError:
        raise changed(file.parent) from None
    except PermissionError:
        raise EvidenceError(
            ErrorCode.PATH_NOT_ALLOWED, f"{file.name} cannot be read", "give a path that this user may read"
        ) from None
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or ["no reason is given"])[0].replace(str(file), file.name)[:120]
        raise EvidenceError(
            ErrorCode.PROFILE_CORRUPT,
            f"{file.name} cannot be read: {reason}",
            "copy the directory again, or export the report again: nsys export --type parquetdir --force-overwrite "
            "true REPORT.nsys-rep",
        ) from None
