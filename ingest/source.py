"""The record of a source: what a capture was before it became a profile, without a path, a host or an environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source: its name, rows, and columns as (name, declared type)."""

    table: str
    rows: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Health:
    """What nsys said of its own work. Counts alone: its messages may name files, hosts and environments.

    Attributes:
        warnings: messages of severity warning; None where no message was recorded.
        errors: messages of severity error; None where no message was recorded.
        dropped: warnings and errors that say that events are, or may be, missing; None where no message has a text.
        overhead_ns: time within the capture in which nsys's own work is recorded on any thread, overlaps counted once;
            None where no such work was recorded.
    """

    warnings: int | None = None
    errors: int | None = None
    dropped: int | None = None
    overhead_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One capture as it was handed over; several sources may hold the same profile.

    Attributes:
        name: file name, shown to the reader.
        form: "sqlite".
        size_bytes: size of the file.
        nsys_version: version of the nsys that exported it; None where the export does not say.
        schema_version: version of the export schema; None where the export does not say.
        tables: what `schema_inspect` shows; never any content.
        profile_id: the profile that it became.
        warnings: what its form or version calls for.
        health: what nsys said of its own work.
    """

    name: str
    form: str
    size_bytes: int
    nsys_version: str | None
    schema_version: str | None
    tables: tuple[SourceTable, ...]
    profile_id: str
    warnings: tuple[str, ...] = ()
    health: Health = Health()

    def to_json(self) -> str:
        """The record as JSON, with a digest of its own, by which a damaged one is known."""
        record = asdict(self)
        return json.dumps({**record, "sha256": _digest(record)}, ensure_ascii=False, indent=1) + "\n"


def read_source(path: Path) -> Source:
    """Read a source record. Raises OSError, ValueError, KeyError or TypeError when it is not a whole one."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data["sha256"] != _digest({name: value for name, value in data.items() if name != "sha256"}):
        raise ValueError("the record is damaged")
    tables = tuple(
        SourceTable(t["table"], t["rows"], tuple((name, kind) for name, kind in t["columns"])) for t in data["tables"]
    )
    del data["sha256"]
    health = Health(**data["health"])
    return Source(**{**data, "tables": tables, "warnings": tuple(data["warnings"]), "health": health})


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
