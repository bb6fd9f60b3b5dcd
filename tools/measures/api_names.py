"""Which API calls of a capture the patterns of a table name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..call import Call
from ..thresholds.kinds import PatternTable

_VARIANT = re.compile(r"(_v[0-9]+|_ptsz|_ptds)+", re.ASCII)
"""What tells the variants of one call apart, at the end of its name."""


def matched(table: PatternTable, api: str) -> str | None:
    """What the first pattern that fits says of an API name; None where none fits."""
    for pattern, says in table.rows:
        stem, star, _ = pattern.partition("*")
        if api.startswith(stem) and (star or not api[len(stem) :] or _VARIANT.fullmatch(api, len(stem))):
            return says
    return None


def apis_of(call: Call[Any], table: PatternTable) -> Mapping[int, str]:
    """The string ids of the API names of the capture that a table names, and what it says of each."""

    def find() -> dict[int, str]:
        names = call.sql("SELECT id, value FROM strings WHERE id IN (SELECT DISTINCT name FROM calls) ORDER BY id")
        return {number: says for number, api in names if (says := matched(table, api)) is not None}

    return call.profile.once(f"API names of {table.name}", find)
