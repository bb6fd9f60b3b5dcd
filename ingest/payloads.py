"""Typed NVTX payloads of NCCL: what its calls say of themselves, decoded by the schemas that the export holds.

An export keeps a payload as bytes: four 64-bit integers, of which the first three are the domain, the schema and the
size of what follows after the fourth; then a C struct, whose fields the schema tells. Each distinct payload is decoded
once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .raw import Ints32
from .reader import NONE, Codes, ColumnKind, Columns, Ints, Reader

FIELDS = {
    "NCCL communicator ID": "communicator",
    "Message size [bytes]": "bytes",
    "Bytes": "bytes",
    "No. of ranks": "ranks",
    "No. of devices": "ranks",
    "Rank": "rank",
    "Peer rank": "peer",
    "Root": "root",
    "Reduction operation": "reduction",
}
"""What NCCL calls the fields of its payloads, and the canonical column of each."""

NO_PAYLOAD, UNDECODED = -1, -2

COLUMNS = ("communicator", "bytes", "ranks", "rank", "peer", "root", "reduction")

_HEADER = 32
_TYPES = {  # NVTX_PAYLOAD_ENTRY_TYPE_…, as C has them on 64-bit Linux
    **{3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<i8", 8: "<u8", 9: "<i8", 10: "<u8"},
    **{11: "<i1", 12: "<u1", 13: "<i2", 14: "<u2", 15: "<i4", 16: "<u4", 17: "<i8", 18: "<u8", 22: "<u8"},
}
_OWN_TYPES = 1 << 24
"""From here on a type is one that the program registered: in NCCL an enum, an int in C."""

Key = tuple[int, int]
"""A schema: its domain and its id, which is one within the domain only."""


@dataclass(frozen=True, slots=True)
class _Field:
    column: str
    kind: np.dtype[np.integer]
    offset: int


@dataclass(frozen=True, slots=True)
class Schemas:
    """Payload schemas with a field of NCCL's.

    Attributes:
        fields: the fields of each that NCCL has a name for.
        ambiguous: schemas that two processes registered differently: an export does not say which is whose.
    """

    fields: Mapping[Key, tuple[_Field, ...]]
    ambiguous: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Distinct payloads, decoded: rows in the order of their values, so that equal ones are one.

    Attributes:
        columns: a value for each of `COLUMNS`, `NONE` where the payload lacks the field.
        row: the row of each code of the source column; NO_PAYLOAD or UNDECODED for those that have none.
    """

    columns: Mapping[str, Ints]
    row: Ints32


def read_schemas(reader: Reader) -> Schemas:
    """The schemas of an export that have a field with a name of NCCL's."""
    numbers = ("domainId", "schemaId", "idx", "flags", "type", "offset")
    wanted: dict[str, ColumnKind] = {**dict.fromkeys(numbers, "code"), "name": "text"}
    found = reader.read("NVTX_PAYLOAD_SCHEMA_ENTRIES", wanted, _ignore)
    entries: dict[Key, set[tuple[int, int, int, int, str]]] = defaultdict(set)
    for row in range(found.rows):
        key = (_number(found, "domainId", row), _number(found, "schemaId", row))
        idx, flags, kind, offset = (_number(found, column, row) for column in numbers[2:])
        entries[key].add((idx, flags, kind, offset, found.value("name", row, "")))
    fields: dict[Key, tuple[_Field, ...]] = {}
    ambiguous = set()
    for key, of_schema in sorted(entries.items()):
        if not any(name in FIELDS for *_, name in of_schema):
            continue
        if len({idx for idx, *_ in of_schema}) < len(of_schema):
            ambiguous.add(key)
        else:
            fields[key] = _fields(sorted(of_schema))
    return Schemas(fields, frozenset(ambiguous))


def _number(columns: Columns, name: str, row: int) -> int:
    return int(columns.value(name, row, 0))


def _fields(entries: Sequence[tuple[int, int, int, int, str]]) -> tuple[_Field, ...]:
    """Fields of a C struct. An offset of 0 is none but for the first: such a field follows the one before, aligned."""
    found, end = [], 0
    for _, flags, number, given, name in entries:
        kind = np.dtype("<i4" if number >= _OWN_TYPES else _TYPES.get(number, "V8"))
        offset = given or -(-end // kind.itemsize) * kind.itemsize
        end = offset + kind.itemsize
        if name in FIELDS and not flags and kind.kind in "iu":
            found.append(_Field(FIELDS[name], kind, offset))
    return tuple(found)


def decode(blobs: Sequence[bytes], used: Codes, schemas: Schemas) -> Payloads:
    """Decode the payloads of a source column, given its distinct values and the codes of the rows that count."""
    seen = np.zeros(len(blobs) + 1, bool)
    seen[used] = True
    seen[-1] = False
    row = np.full(len(blobs) + 1, NO_PAYLOAD, np.int32)
    groups: dict[Key, list[int]] = defaultdict(list)
    for code in np.flatnonzero(seen).tolist():
        if blob := blobs[code]:
            key, size = _header(blob)
            row[code] = UNDECODED
            if key in schemas.fields and len(blob) >= _HEADER + size and size >= _end(schemas.fields[key]):
                groups[key].append(code)
    codes, parts = [], []
    for key, members in sorted(groups.items()):
        fields = schemas.fields[key]
        length = _HEADER + _end(fields)
        data = np.frombuffer(b"".join(blobs[code][:length] for code in members), np.uint8).reshape(-1, length)
        part = {name: np.full(len(members), NONE, np.int64) for name in COLUMNS}
        for field in fields:
            part[field.column] = _values(data, field)
        codes += members
        parts.append(part)
    if not codes:
        return Payloads(dict.fromkeys(COLUMNS, np.empty(0, np.int64)), row)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    distinct, which = np.unique(np.stack(list(columns.values())), axis=1, return_inverse=True)
    row[codes] = which.reshape(-1)
    return Payloads(dict(zip(COLUMNS, distinct, strict=True)), row)


def _header(blob: bytes) -> tuple[Key, int]:
    """The schema that a payload names, and the size that it says it has; no schema where it is too short to say so."""
    if len(blob) < _HEADER:
        return (-1, -1), 0
    domain, schema, size = np.frombuffer(blob[:24], "<u8").tolist()
    return (domain, schema), size


def _end(fields: Sequence[_Field]) -> int:
    return max((field.offset + field.kind.itemsize for field in fields), default=0)


def _values(data: npt.NDArray[np.uint8], field: _Field) -> Ints:
    """A field of every payload. A communicator keeps its 64 bits; a size beyond 63 bits is none."""
    first = _HEADER + field.offset
    raw = np.ascontiguousarray(data[:, first : first + field.kind.itemsize]).view(field.kind)[:, 0]
    wide: Ints = raw.astype(np.int64)
    return wide if field.column == "communicator" else np.where((raw.dtype.kind == "u") & (wide < 0), NONE, wide)


def _ignore(share: float) -> None:
    """Progress of tables too small to count."""
