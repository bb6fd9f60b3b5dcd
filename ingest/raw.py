"""Reads each kind of event from the source and sets aside the rows that cannot be true."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .manifest import Coverage
from .reader import NONE, Codes, ColumnKind, Columns, Ints, Reader

Mask = npt.NDArray[np.bool_]
Ints32 = npt.NDArray[np.int32]

TID_MASK = 0xFFFFFF
"""The thread id in a packed globalTid; without it, what is left is the process's globalPid."""

_CLOCK_END = 1 << 62
"""No clock reads 146 years from zero; from there on, the length of a window would leave 64 bits."""

_ALL_ONES = (-1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
"""How exports write "none" in unsigned columns of 32 or 64 bits, as SQLite and Parquet hold it."""

_WORK: dict[str, ColumnKind] = {
    "start": "int",
    "end": "int",
    "correlationId": "int",
    "deviceId": "code",
    "contextId": "code",
    "streamId": "code",
    "globalPid": "code",
    "graphNodeId": "code",
}
_THREAD: dict[str, ColumnKind] = {"start": "int", "end": "int", "globalTid": "code", "nameId": "code"}
_INSTANT: dict[str, ColumnKind] = {"start": "int", "globalTid": "code", "cpu": "code", "threadState": "code"}

PAYLOAD = "binaryData"
"""The column of typed NVTX payloads; read where the export says how to decode them."""

KINDS: dict[str, tuple[str, dict[str, ColumnKind]]] = {
    "kernels": (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        {
            **_WORK,
            "demangledName": "code",
            "shortName": "code",
            **{f"{part}{axis}": "code" for part in ("grid", "block") for axis in "XYZ"},
            "registersPerThread": "code",
            "staticSharedMemory": "code",
            "dynamicSharedMemory": "code",
        },
    ),
    "copies": (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        {**_WORK, "bytes": "int", "copyKind": "code", "srcKind": "code", "dstKind": "code", "copyCount": "code"},
    ),
    "sets": ("CUPTI_ACTIVITY_KIND_MEMSET", {**_WORK, "bytes": "int", "memKind": "code"}),
    "graphs": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {**_WORK, "graphId": "code"}),
    "calls": ("CUPTI_ACTIVITY_KIND_RUNTIME", {**_THREAD, "correlationId": "int", "eventClass": "code"}),
    "syncs": (
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        {**_WORK, "syncType": "code"},
    ),
    "osrt": ("OSRT_API", {**_THREAD, "eventClass": "code"}),
    "sched": ("SCHED_EVENTS", {**_INSTANT, "isSchedIn": "code"}),
    "samples": ("COMPOSITE_EVENTS", _INSTANT),
    "nvtx": (
        "NVTX_EVENTS",
        {
            "start": "int",
            "end": "int",
            "eventType": "code",
            "globalTid": "code",
            "endGlobalTid": "code",
            "domainId": "code",
            "textId": "code",
            "text": "text",
            PAYLOAD: "bytes",
        },
    ),
}
"""Kinds of event: the source table, and the columns that the canonical profile takes from it."""


@dataclass(slots=True)
class Events:
    """Events of one kind, as read, without the rows that were set aside.

    Attributes:
        columns: the columns as read.
        keep: which rows are events that can be true; None for all.
        coverage: whether the source has the kind.
        quarantined: rows set aside.
    """

    columns: Columns
    keep: Mask | None
    coverage: Coverage
    quarantined: int

    @property
    def rows(self) -> int:
        """Rows that are kept."""
        return self.columns.rows if self.keep is None else int(self.keep.sum())

    def _kept(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self.keep is None else column[self.keep]

    def integer(self, name: str) -> Ints:
        """A 64-bit column, `NONE` where null."""
        return self._kept(self.columns.integer(name))

    def coded(self, name: str) -> Codes:
        """A coded column, -1 where null."""
        return self._kept(self.columns.code(name))

    def used(self, name: str, rows: Mask | None = None) -> list[Any]:
        """The values of a coded column that a kept row has, or one of these rows; nulls left out."""
        values = self.columns.values.get(name, [])
        codes = self.coded(name)
        seen = np.zeros(len(values) + 1, bool)
        seen[codes if rows is None else codes[rows]] = True
        return [value for value, is_used in zip(values, seen, strict=False) if is_used]

    def decoded(self, name: str, none: int = NONE, sentinels: bool = False) -> Ints:
        """A coded integer column as 64-bit values, `none` where null and, with `sentinels`, where all ones."""
        values = [none if sentinels and v in _ALL_ONES else v for v in self.columns.values.get(name, [])]
        result: Ints = np.array([*values, none], np.int64)[self.coded(name)]
        return result

    def is_one_of(self, name: str, wanted: Collection[Any]) -> Mask:
        """Where a coded column has one of these values."""
        found: Mask = np.array([*(value in wanted for value in self.columns.values.get(name, [])), False])[
            self.coded(name)
        ]
        return found

    def mapped(self, name: str, mapping: Mapping[Any, int]) -> Ints32:
        """A coded column as small numbers: `mapping` of each value, -1 where null or not in it."""
        numbers = [mapping.get(value, -1) for value in self.columns.values.get(name, [])]
        result: Ints32 = np.array([*numbers, -1], np.int32)[self.coded(name)]
        return result


def read_events(reader: Reader, kind: str, tick: Callable[[float], None]) -> Events:
    """Read one kind of event. A table without the columns that make an event counts as not recorded."""
    table, wanted = KINDS[kind]
    owner = "globalPid" if "globalPid" in wanted else "globalTid"
    if _lacking(reader, kind):
        return Events(Columns(0), None, Coverage.NOT_RECORDED, 0)
    if PAYLOAD in wanted and not reader.has("NVTX_PAYLOAD_SCHEMA_ENTRIES"):
        wanted = {name: kind for name, kind in wanted.items() if name != PAYLOAD}
    columns = reader.read(table, wanted, tick)
    # Whether tables without rows are written is an option of the exporter (--lazy) and says nothing of the capture.
    if kind == "nvtx":
        return Events(columns, None, Coverage.RECORDED if columns.rows else Coverage.NOT_RECORDED, 0)
    start = columns.ints["start"]
    keep, quarantined = believable(start, columns.ints.get("end", start), columns.code(owner))
    coverage = Coverage.RECORDED if columns.rows > quarantined else Coverage.NOT_RECORDED
    return Events(columns, keep if quarantined else None, coverage, quarantined)


def _lacking(reader: Reader, kind: str) -> list[str]:
    """Columns without which events of a kind cannot be placed: when, whose, and on which device or which way."""
    table, wanted = KINDS[kind]
    placed = ("start", "end", "globalPid", "globalTid", "deviceId", "isSchedIn")
    needed = [name for name in placed if name in wanted]
    if kind == "syncs":
        needed.remove("deviceId")
    return [name for name in needed if name.lower() not in reader.column_names(table)]


def believable(start: Ints, end: Ints, owner: Codes) -> tuple[Mask, int]:
    """Rows that can be true: of a process or thread, with start and end on a clock, in this order, not both zero.

    And how many are not.
    """
    keep = (start != NONE) & (end >= start) & ~((start == 0) & (end == 0)) & (owner >= 0)
    keep &= (start > -_CLOCK_END) & (end < _CLOCK_END)
    return keep, len(start) - int(keep.sum())


def missing_columns(reader: Reader) -> list[str]:
    """Warnings for tables that are there but lack what makes an event."""
    found = []
    for kind, (table, _) in KINDS.items():
        lacking = _lacking(reader, kind)
        if reader.has(table) and lacking:
            found.append(f"{table} lacks {', '.join(lacking)}: its {kind} count as not recorded")
    return found


def combined(columns: Sequence[npt.NDArray[Any]]) -> tuple[Ints, Ints]:
    """Distinct rows of integer columns, sorted, one column per row of the first result; and each row's number.

    Meant for columns with few distinct rows: values are told apart by hashing, only the distinct rows are sorted.
    """
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values = pa.array(column).dictionary_encode()
        number = number * (len(values.dictionary) + 1) + values.indices.to_numpy()
        number = pa.array(number).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    distinct = np.stack([column[first].astype(np.int64) for column in columns])
    order = np.lexsort(distinct[::-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return distinct[:, order], rank[number]
