"""Writing canonical tables as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from .fingerprint import rows_hash
from .reader import NONE
from .tables import TABLES

_ROW_GROUP = 131_072
_TIMES = ("start", "end", "previous_end", "call_start", "call_end")


def _column(values: npt.NDArray[Any] | pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """An Arrow column; `NONE` in 64-bit columns and -1 in smaller ones become null."""
    if isinstance(values, pa.Array):
        return values
    if not pa.types.is_integer(kind):
        return pa.array(values, kind)
    absent = values == (NONE if kind.bit_width == 64 else -1)
    return pa.array(values, kind, mask=absent) if absent.any() else pa.array(values, kind)


class TableWriter:
    """Writes the tables of one profile and remembers their rows and, of what is not derived, their hashes.

    Attributes:
        rows: rows written, by table.
        files: bytes written, by table.
        hashes: hashes of the rows, by table; they do not depend on the order of the rows.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.rows: dict[str, int] = {}
        self.files: dict[str, int] = {}
        self.hashes: dict[str, str] = {}

    def write(
        self, name: str, columns: Mapping[str, npt.NDArray[Any] | pa.Array[Any]], hashed: Iterable[str] = ()
    ) -> None:
        """Write a table from its canonical columns; the columns named in `hashed` enter the hash of its rows."""
        schema = TABLES[name]
        table = pa.Table.from_arrays([_column(columns[field.name], field.type) for field in schema], schema=schema)
        path = self._directory / f"{name}.parquet"
        pq.write_table(
            table,
            path,
            row_group_size=_ROW_GROUP,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in schema.names if name not in _TIMES],  # type: ignore[arg-type]
        )
        self.rows[name] = table.num_rows
        self.files[name] = path.stat().st_size
        if chosen := {column: np.asarray(columns[column]) for column in hashed}:
            self.hashes[name] = rows_hash(name, chosen)
