"""Writing canonical tables as Parquet, on a thread of its own so that computing goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from .fingerprint import RowsHash
from .integrity import digest_of
from .reader import NONE
from .tables import TABLES

ColumnArrays = Mapping[str, "npt.NDArray[Any] | pa.Array[Any]"]
"""Columns of a table by name; Arrow arrays are written as they are."""

_ROW_GROUP = 131_072
_CLIMBING = (
    "start",
    "end",
    "previous_end",
    "call_start",
    "call_end",
    "correlation",
    "parent",
    "outer",
    "range",
    "node",
)
"""Columns whose values differ from row to row, mostly by little: stored as differences. The others repeat."""


def _column(values: npt.NDArray[Any] | pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """An Arrow column; `NONE` in 64-bit columns and -1 in smaller ones become null."""
    if isinstance(values, pa.Array):
        return values
    if not pa.types.is_integer(kind):
        return pa.array(values, kind)
    absent = values == (NONE if kind.bit_width == 64 else -1)
    return pa.array(values, kind, mask=absent) if absent.any() else pa.array(values, kind)


def _close(writer: pq.ParquetWriter) -> None:
    """Close a writer for good; where the disk is full, it would try again whenever it is collected."""
    with suppress(OSError):
        writer.close()
    writer.is_open = False


class TableWriter:
    """Writes the tables of one profile and remembers their rows and, of what is not derived, their hashes.

    Attributes:
        rows: rows written, by table.
        hashes: hashes of the rows, by table; they do not depend on the order of the rows.
        digests: SHA-256 of the files, by file name, once all is written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None
        self._files = ExitStack()
        self.rows: dict[str, int] = {}
        self.hashes: dict[str, str] = {}
        self.digests: dict[str, str] = {}

    def write(self, name: str, columns: ColumnArrays, hashed: Iterable[str] = ()) -> None:
        """Write a whole table; the columns named in `hashed` enter the hash of its rows. See `parts`."""
        self.write_parts(name, iter((columns,)), hashed)

    def write_parts(self, name: str, parts: Iterator[ColumnArrays], hashed: Iterable[str] = ()) -> None:
        """Write a table from canonical columns that come in parts."""
        schema = TABLES[name]
        chosen = list(hashed)
        digest = RowsHash(name, chosen)
        self.rows[name] = 0
        path = self._directory / f"{name}.parquet"
        sink = self._files.enter_context(pa.OSFile(str(path), "wb"))
        writer = pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[column for column in schema.names if column not in _CLIMBING],  # type: ignore[arg-type]
            column_encoding={column: "DELTA_BINARY_PACKED" for column in schema.names if column in _CLIMBING},
        )

        self._files.callback(_close, writer)

        def write(columns: ColumnArrays) -> None:
            table = pa.Table.from_arrays([_column(columns[f.name], f.type) for f in schema], schema=schema)
            writer.write_table(table, row_group_size=_ROW_GROUP)
            if chosen:
                digest.add({column: np.asarray(columns[column]) for column in chosen})
                self.hashes[name] = digest.digest()

        def finish() -> None:
            writer.close()
            sink.close()
            self.digests[path.name] = digest_of(path)

        for columns in parts:
            self.rows[name] += len(columns[schema.names[0]])
            self._queue(write, columns)
        if chosen:
            self.hashes.setdefault(name, digest.digest())
        self._queue(finish)

    def _queue(self, work: Any, *arguments: Any) -> None:
        """Hand work to the thread once it has finished what it had: the memory of two pieces is enough."""
        self.wait()
        self._pending = self._thread.submit(work, *arguments)

    def wait(self) -> None:
        """Wait until everything handed over is written."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """A block at whose end, good or bad, nothing is being written any more and every file is closed."""
        with self._files:
            try:
                yield
                self.wait()
            finally:
                self._thread.shutdown(wait=True, cancel_futures=True)

    def files(self) -> dict[str, int]:
        """Bytes of each table's file, once all is written."""
        return {name: (self._directory / f"{name}.parquet").stat().st_size for name in self.rows}
