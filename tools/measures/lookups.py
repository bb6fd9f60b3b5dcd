"""Names and labels of what a page shows, looked up by their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..call import Call


def lookup(call: Call[Any], table: str, key: str, value: str, keys: Iterable[int | None]) -> dict[int | None, Any]:
    """A column of a table for these keys."""
    wanted = ", ".join(str(number) for number in sorted({number for number in keys if number is not None})) or "NULL"
    return dict(call.sql(f"SELECT {key}, {value} FROM {table} WHERE {key} IN ({wanted})"))


def range_names(call: Call[Any], stacks: Iterable[int | None]) -> dict[int | None, str | None]:
    """The name of the innermost range of each of these stacks."""
    paths = lookup(call, "stacks", "node", "path", stacks)
    names = lookup(call, "paths", "path", "name", paths.values())
    texts = call.strings(names.values())
    return {stack: texts[names[path]] for stack, path in paths.items()}
