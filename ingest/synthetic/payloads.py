"""Typed NVTX payloads as NCCL writes them and nsys exports them: a header, then a C struct that a schema describes."""

import struct

from .model import Capture, NcclPayload

Row = dict[str, object]

_INT, _UINT64, _SIZE, _REDUCTION = 5, 18, 22, (1 << 24) + 16
_STATIC = 1 << 24
_FIELDS = (  # in the order of NCCL's structs
    ("communicator", "NCCL communicator ID", _UINT64, "Q"),
    ("bytes", "Message size [bytes]", _SIZE, "Q"),
    ("ranks", "No. of ranks", _INT, "i"),
    ("rank", "Rank", _INT, "i"),
    ("peer", "Peer rank", _INT, "i"),
    ("root", "Root", _INT, "i"),
    ("reduction", "Reduction operation", _REDUCTION, "i"),
)


def _given(payload: NcclPayload) -> tuple[int, ...]:
    return tuple(place for place, (name, *_) in enumerate(_FIELDS) if getattr(payload, name) is not None)


def _schema_id(given: tuple[int, ...]) -> int:
    return _STATIC + 100 + sum(1 << place for place in given)


def _layout(given: tuple[int, ...]) -> tuple[list[int], int]:
    """The offsets of the fields and the size of the struct, as C lays it out."""
    offsets, end, widest = [], 0, 1
    for place in given:
        width = struct.calcsize(_FIELDS[place][3])
        end = -(-end // width) * width
        offsets.append(end)
        end, widest = end + width, max(widest, width)
    return offsets, -(-end // widest) * widest


def payload_bytes(payload: NcclPayload, domain: int) -> bytes:
    """The payload as an export holds it."""
    given = _given(payload)
    offsets, size = _layout(given)
    body = bytearray(size)
    for offset, place in zip(offsets, given, strict=True):
        name, _, _, code = _FIELDS[place]
        struct.pack_into(f"<{code}", body, offset, getattr(payload, name))
    return struct.pack("<4Q", domain, _schema_id(given), size, 32) + bytes(body)


def payload_rows(capture: Capture) -> dict[str, list[Row]]:
    """The rows of the schemas' tables: a schema for each set of fields that a domain uses, once per process."""
    used = {
        (event.domain, _given(event.payload), event.pid)
        for event in capture.ranges
        if isinstance(event.payload, NcclPayload)
    }
    schemas: list[Row] = []
    entries: list[Row] = []
    for domain, given, _ in sorted(used):
        offsets, size = _layout(given)
        scope: Row = {"domainId": domain, "schemaId": _schema_id(given)}
        schemas.append({**scope, "type": 1, "numEntries": len(given), "payloadSize": size})
        for index, (place, offset) in enumerate(zip(given, offsets, strict=True)):
            field: Row = {"idx": index, "type": _FIELDS[place][2], "name": _FIELDS[place][1], "offset": offset or None}
            entries.append({**scope, **field})
    return {"NVTX_PAYLOAD_SCHEMAS": schemas, "NVTX_PAYLOAD_SCHEMA_ENTRIES": entries}
