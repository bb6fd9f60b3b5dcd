"""Evidence ids and cell addresses: how a number of an answer points at the result it came from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .wire import canonical_json

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: nothing that reads as something else
_LENGTH = 10
_ID = re.compile(rf"ev-[{_ALPHABET}]{{{_LENGTH}}}")
_ADDRESS = re.compile(rf"(?P<evidence>ev-[{_ALPHABET}]{{{_LENGTH}}}):(?:(?P<head>[a-z][a-z0-9_]*)\.)?(?P<tail>.+)")


def evidence_id(profile_id: str | None, skill: str, arguments: Mapping[str, object], result: Mapping[str, Any]) -> str:
    """The id of a result: 50 bits of SHA-256 over profile id, skill, canonical arguments and result.

    The capture's name and the id itself take no part, so the same call on the same data has the same id on any
    machine and under any file name.
    """
    profile = result.get("profile")
    body = {key: value for key, value in result.items() if key not in ("evidence", "profile")}
    body["profile"] = profile and profile["id"]
    text = canonical_json({"profile": profile_id, "skill": skill, "arguments": dict(arguments), "result": body})
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> (64 - 5 * _LENGTH)
    digits = ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, 32)
        digits = _ALPHABET[digit] + digits
    return f"ev-{digits}"


def is_evidence_id(text: str) -> bool:
    """Whether the text has the form of an evidence id."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class CellAddress:
    """One cell of one result.

    Written `ev-…:ROW.COLUMN`, `ev-…:totals.KEY` or `ev-…:TABLE.ROW.COLUMN`; rows are those of that result, from 0.

    Attributes:
        evidence: the evidence id.
        table: None for the main rows, "totals", or the name of a further table.
        row: the row number; None for totals.
        column: the column, or the key of the totals.
    """

    evidence: str
    table: str | None
    row: int | None
    column: str

    def __str__(self) -> str:
        parts = [self.table, self.row, self.column]
        return f"{self.evidence}:" + ".".join(str(part) for part in parts if part is not None)


def parse_address(text: str) -> CellAddress:
    """Read a cell address. Raises ValueError, saying what a right one looks like."""
    match = _ADDRESS.fullmatch(text)
    if match:
        evidence, head, tail = match["evidence"], match["head"], match["tail"]
        if head == "totals" and tail.isidentifier():
            return CellAddress(evidence, "totals", None, tail)
        row, dot, column = tail.partition(".")
        if head != "totals" and dot and row.isascii() and row.isdigit() and column.isidentifier():
            return CellAddress(evidence, head, int(row), column)
    raise ValueError(f"{text!r} is no cell address; write ev-…:ROW.COLUMN, ev-…:totals.KEY or ev-…:TABLE.ROW.COLUMN")


def resolve_address(address: CellAddress, result: Mapping[str, Any]) -> object:
    """The value of a cell in a result envelope. Raises KeyError naming what the result has instead."""
    if address.table == "totals":
        totals = result["totals"] or {}
        if address.column not in totals:
            raise KeyError(f"totals has {', '.join(totals) or 'nothing'}")
        return totals[address.column]
    table = result if address.table is None else result["tables"].get(address.table)
    if table is None:
        raise KeyError(f"tables are {', '.join(result['tables']) or 'none'}")
    if address.column not in table["columns"]:
        raise KeyError(f"columns are {', '.join(table['columns'])}")
    if address.row is None or address.row >= len(table["rows"]):
        count = len(table["rows"])
        raise KeyError(f"rows are 0 to {count - 1}" if count else "there are no rows")
    return table["rows"][address.row][table["columns"].index(address.column)]
