"""Row models: the columns of a table, each with its unit, its meaning and, for a share, its denominator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

from .units import Unit, present, unit_schema


class Row(BaseModel):
    """Base of every row model and every totals model: its fields, in order, are the columns.

    Fields are typed with the aliases of `contracts.units` (`Ms`, `Count`, …; `| None` where a figure may be absent)
    and made with `column`.
    """

    model_config = ConfigDict(extra="forbid")


class NoTotals(Row):
    """For skills that have no totals."""


def column(meaning: str, *, of: str | None = None) -> Any:
    """A column: what it means and, for a percentage, what it is a share of."""
    return Field(description=meaning, json_schema_extra={"of": of} if of else None)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, as read from a row model."""

    name: str
    unit: Unit
    nullable: bool
    meaning: str
    of: str | None

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of a value in this column, with the unit."""
        return unit_schema(self.unit, self.nullable)


def _unit_and_nullable(hint: Any, name: str) -> tuple[Unit, bool]:
    if get_origin(hint) in (Union, UnionType):
        parts = [part for part in get_args(hint) if part is not NoneType]
        return _unit_and_nullable(parts[0], name)[0], True
    if get_origin(hint) is Annotated and isinstance(unit := get_args(hint)[1], Unit):
        return unit, False
    raise TypeError(f"column {name} has no unit: use an alias of contracts.units")


@cache
def columns_of(model: type[Row]) -> tuple[Column, ...]:
    """The columns of a row model, in order. Raises TypeError for a field without a unit or a share without `of`."""
    hints = get_type_hints(model, include_extras=True)
    columns = []
    for name, field in model.model_fields.items():
        unit, nullable = _unit_and_nullable(hints[name], name)
        extra = field.json_schema_extra
        of = str(extra["of"]) if isinstance(extra, dict) else None
        if unit is Unit.PCT and of is None:
            raise TypeError(f"column {name} of {model.__name__} is a share and names no denominator")
        columns.append(Column(name, unit, nullable, field.description or "", of))
    return tuple(columns)


def present_row(model: type[Row], values: Sequence[object]) -> list[object]:
    """A row of exact values as the result shows it, in column order."""
    return [present(c.unit, value) for c, value in zip(columns_of(model), values, strict=True)]


def present_totals(model: type[Row], values: Mapping[str, object]) -> dict[str, object]:
    """Totals as the result shows them, in the order of the model; every key of the model must be there."""
    return {c.name: present(c.unit, values[c.name]) for c in columns_of(model)}


def rows_schema(model: type[Row]) -> dict[str, Any]:
    """JSON schema of the rows: arrays in column order, each position typed (`items: false` breaks draft-07 clients)."""
    items = [c.schema for c in columns_of(model)]
    row = {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    return {"type": "array", "items": row}


def totals_schema(model: type[Row]) -> dict[str, Any]:
    """JSON schema of the totals: an object with every key of the model, or null for an abstention."""
    columns = columns_of(model)
    properties = {c.name: c.schema for c in columns}
    body = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"anyOf": [body, {"type": "null"}]}
