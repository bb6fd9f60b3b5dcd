"""The one envelope of every result, its truncation and its JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .columns import Row, columns_of, rows_schema, totals_schema
from .units import Unit, present, unit_schema
from .window import Window
from .wire import clean_text

MAX_ROWS = 200
"""The server-wide ceiling on the rows of one table: a caller cannot raise it."""

DEFAULT_BYTES = 6_000
"""Byte ceiling of a result, the capture's name aside, when the caller did not ask for a number of rows."""

MAX_BYTES = 24_000
"""Byte ceiling of a result when the caller asked for a number of rows: below what clients accept without warning."""


class Status(StrEnum):
    """How a call ended: `ok`, `partial` (an answer with a named hole), `empty` (ran, found nothing), `abstained`."""

    OK = "ok"
    PARTIAL = "partial"
    EMPTY = "empty"
    ABSTAINED = "abstained"


@dataclass(frozen=True, slots=True)
class Truncation:
    """What of a table is not shown. None stands for "nothing was cut".

    Attributes:
        total_rows: all rows in scope.
        shown_rows: rows in this result.
        next_offset: the `offset` of the next page; None on the last page.
    """

    total_rows: int
    shown_rows: int
    next_offset: int | None

    def to_dict(self) -> dict[str, int | None]:
        """As the result shows it."""
        return {"total_rows": self.total_rows, "shown_rows": self.shown_rows, "next_offset": self.next_offset}


def truncation_of(total_rows: int, offset: int, shown_rows: int) -> dict[str, int | None] | None:
    """The truncation of a page of `shown_rows` from `offset`; None when these are all the rows."""
    if offset == 0 and shown_rows == total_rows:
        return None
    following = offset + shown_rows
    return Truncation(total_rows, shown_rows, following if following < total_rows else None).to_dict()


def scope_dict(window: Window, devices: list[int]) -> dict[str, object]:
    """The scope as the result shows it: devices, start, end, span, and by what the window was chosen."""
    return {
        "devices": devices,
        "start_s": present(Unit.S, window.start_ns),
        "end_s": present(Unit.S, window.end_ns),
        "span_ms": present(Unit.MS, window.span_ns),
        "by": clean_text(window.by, limit=200),
    }


def denominators(row: type[Row], totals: type[Row], tables: Mapping[str, type[Row]]) -> dict[str, str]:
    """What every percentage is a share of, keyed as cells are addressed: COLUMN, totals.KEY, TABLE.COLUMN."""
    found = {c.name: c.of for c in columns_of(row) if c.of}
    found |= {f"totals.{c.name}": c.of for c in columns_of(totals) if c.of}
    for name, model in tables.items():
        found |= {f"{name}.{c.name}": c.of for c in columns_of(model) if c.of}
    return found


_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_NULL = {"type": "null"}
_TRUNCATION = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"total_rows": _COUNT, "shown_rows": _COUNT, "next_offset": {"anyOf": [_COUNT, _NULL]}},
            "required": ["total_rows", "shown_rows", "next_offset"],
        },
        _NULL,
    ]
}
_PROFILE = {
    "anyOf": [
        {"type": "object", "properties": {"id": _TEXT, "name": _TEXT}, "required": ["id", "name"]},
        _NULL,
    ]
}
_SCOPE = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "devices": {"type": "array", "items": {"type": "integer"}},
                "start_s": unit_schema(Unit.S, nullable=False),
                "end_s": unit_schema(Unit.S, nullable=False),
                "span_ms": {"type": "number"},
                "by": _TEXT,
            },
            "required": ["devices", "start_s", "end_s", "span_ms", "by"],
        },
        _NULL,
    ]
}
_ANY_ROWS = {
    "type": "array",
    "items": {
        "type": "array",
        "items": {"anyOf": [_TEXT, {"type": "number"}, {"type": "boolean"}, _NULL]},
    },
}


def _columns_schema(model: type[Row] | None) -> dict[str, Any]:
    return _TEXTS if model is None else {**_TEXTS, "const": [c.name for c in columns_of(model)]}


def _table_schema(model: type[Row] | None) -> dict[str, Any]:
    rows = _ANY_ROWS if model is None else rows_schema(model)
    properties = {
        "columns": _columns_schema(model),
        "rows": rows,
        "totals": {"anyOf": [{"type": "object"}, _NULL]},
        "truncation": _TRUNCATION,
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def envelope_schema(
    skill: str | None, row: type[Row] | None, totals: type[Row] | None, tables: Mapping[str, type[Row]] | None
) -> dict[str, Any]:
    """The output schema of a tool: a plain object, no `$ref`, no union at the root, every property typed.

    With None for the models it is the schema of any envelope, as `get_evidence` returns it.
    """
    anything = row is None
    table_map: dict[str, Any] = {"type": "object"}
    if tables is None:
        table_map["additionalProperties"] = _table_schema(None)
    else:
        table_map["properties"] = {name: _table_schema(model) for name, model in tables.items()}
    properties: dict[str, Any] = {
        "evidence": {"type": "string", "pattern": "^ev-[0-9a-z]{10}$"},
        "status": {"type": "string", "enum": [status.value for status in Status]},
        "skill": _TEXT if skill is None else {"type": "string", "const": skill},
        "profile": _PROFILE,
        "scope": _SCOPE,
        "columns": _columns_schema(row),
        "rows": _ANY_ROWS if row is None else rows_schema(row),
        "of": {"type": "object", "additionalProperties": _TEXT},
        "totals": {"anyOf": [{"type": "object"}, _NULL]} if anything or totals is None else totals_schema(totals),
        "truncation": _TRUNCATION,
        "tables": table_map,
        "notes": _TEXTS,
        "next": _TEXTS,
        "reason": _TEXT,
        "missing": _TEXTS,
        "capture_hint": _TEXT,
    }
    required = [name for name in properties if name not in ("reason", "missing", "capture_hint")]
    return {"type": "object", "properties": properties, "required": required}
