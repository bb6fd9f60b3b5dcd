"""What every reader of a capture offers, whatever the form: named source tables as numpy columns.

After the reader there is one code path. A reader settles what differs between exports: table names with a version
suffix, columns that are missing, integers stored as text, "none" written as all ones.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .source import SourceTable

NONE = np.iinfo(np.int64).min
"""Stands for a missing integer in numpy columns."""

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger[Any]]
"""Small numbers that stand for values, -1 for null; as narrow as their number allows."""

ColumnKind = Literal["int", "code", "text", "bytes"]
"""How a column is read: 64-bit integers, or as codes integers with few distinct values, texts, or bytes as they are."""


class Coder:
    """Gives every distinct value a small code, in order of first sight; shared by the threads that read a table."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[Any, int] = {}
        self._known: pa.Array[Any] | None = None
        self._lock = threading.Lock()

    def encode(self, array: pa.Array[Any]) -> Codes:
        """Codes of the values, -1 for null."""
        encoded = array.dictionary_encode()
        distinct = encoded.dictionary
        if pa.types.is_string(distinct.type):
            distinct = distinct.cast(pa.binary())  # bytes need not be UTF-8
        codes = np.append(self._codes(distinct), np.int32(-1))
        positions = encoded.indices
        if positions.null_count:
            positions = positions.fill_null(len(distinct))
        result: Codes = codes[positions.to_numpy()]
        return result

    def _codes(self, distinct: pa.Array[Any]) -> Codes:
        """Codes of distinct values. Arrow looks up those known already, while they are few; Python adds the rest."""
        known = self._known
        if known is not None and known.type == distinct.type and len(known) <= 4 * len(distinct):
            found = pc.index_in(distinct, value_set=known)
            codes = found.fill_null(-1).to_numpy().copy()
            new = np.flatnonzero(codes < 0)
        else:
            codes = np.empty(len(distinct), np.int32)
            new = np.arange(len(distinct))
        if len(new):
            values = distinct.take(new).to_pylist()
            with self._lock:
                before = len(self.values)
                for position, value in zip(new, values, strict=True):
                    code = self._index.setdefault(value, len(self.values))
                    if code == len(self.values):
                        self.values.append(value)
                    codes[position] = code
                if len(self.values) > before:
                    added = pa.array(self.values[before:], distinct.type)
                    self._known = (
                        added if before == 0 or self._known is None else pa.concat_arrays([self._known, added])
                    )
        return codes

    def texts(self) -> list[str]:
        """The values of a text column, as UTF-8 with replacement of what is none."""
        return [value.decode("utf-8", "replace") for value in self.values]


@dataclass(slots=True)
class Columns:
    """A source table as read.

    Attributes:
        rows: number of rows.
        ints: integer columns, `NONE` where null.
        codes: coded columns, -1 where null.
        values: what the codes of a coded column stand for.
    """

    rows: int
    ints: dict[str, Ints] = field(default_factory=dict)
    codes: dict[str, Codes] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)

    def integer(self, name: str, default: int = NONE) -> Ints:
        """An integer column; `default` throughout where the source lacks it."""
        return self.ints[name] if name in self.ints else np.full(self.rows, default, np.int64)

    def code(self, name: str) -> Codes:
        """A coded column; -1 throughout where the source lacks it."""
        return self.codes[name] if name in self.codes else np.full(self.rows, -1, np.int8)

    def value(self, name: str, row: int, default: Any) -> Any:
        """One value of a coded column, `default` where it is null."""
        code = int(self.code(name)[row])
        return default if code < 0 else self.values[name][code]


class Reader(Protocol):
    """A capture opened for reading."""

    def table_names(self) -> tuple[str, ...]:
        """The names of all tables, as the source spells them."""

    def has(self, table: str) -> bool:
        """Whether the source has this table, under this name or a version of it."""

    def column_names(self, table: str) -> frozenset[str]:
        """The columns of a table, as canonical lower-case names."""

    def read(
        self,
        table: str,
        columns: Mapping[str, ColumnKind],
        tick: Callable[[float], None],
        only: Mapping[str, Collection[int]] | None = None,
    ) -> Columns:
        """Columns of a table, those that it has. `tick` is told the share read, on this thread; it may raise.

        With `only`, the rows in which these columns, which are read too, have one of these integers.
        """

    def extent(self, table: str, column: str = "start") -> tuple[int, int] | None:
        """Smallest and largest time in a column of a table that is not read; None when it is absent or empty."""

    def strings(self) -> tuple[Ints, pa.ChunkedArray[Any]]:
        """The string table: ids in order, ties by text, and the texts as bytes; rows with a null are left out."""

    def pairs(self, table: str, key: str, value: str) -> Iterable[tuple[Any, str]]:
        """Two columns of a small table, the second as text; rows with a null are left out."""

    def tables(self) -> tuple[SourceTable, ...]:
        """All tables with their rows and columns, for `schema_inspect`."""

    def close(self) -> None:
        """Release the source."""


_VERSIONED = re.compile(r"(.+)_V([0-9]+)", re.ASCII)


def narrowest(values: int) -> type[np.signedinteger[Any]]:
    """The narrowest integer that holds this many codes and -1."""
    return np.int8 if values < 1 << 7 else np.int16 if values < 1 << 15 else np.int32


def resolve_table(wanted: str, present: Iterable[str]) -> str | None:
    """The name under which a source has a table: the exact name, else the highest `_V<n>`, compared as numbers.

    `ENUM_…` and names such as `…_MEMCPY2` are other tables and never match.
    """
    versions = {}
    for name in present:
        if name.lower() == wanted.lower():
            return name
        if (match := _VERSIONED.fullmatch(name)) and match[1].lower() == wanted.lower():
            versions[int(match[2])] = name
    return versions[max(versions)] if versions else None
