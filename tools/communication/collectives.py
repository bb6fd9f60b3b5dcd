"""What the name of a communication kernel says: the collective, and its variant. By name only: a name is a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...ingest.kernel_names import base_name
from ..call import Call

BY_NAME = "collectives are told by kernel names, and their time includes waiting for peers"
"""The note of every result about collectives."""

NO_COLLECTIVES = "no kernel in scope is a collective by its name"
"""The note of a result that found none."""

_VARIANT = re.compile(
    r"_((?:Sum|Prod|MinMax|MaxMin|Min|Max|PreMulSum|SumPostDiv|Avg|sum|prod|minmax|maxmin|min|max|premulsum|sumpostdiv|avg)"
    r"_(?:__nv_|hip_|rccl_)?[a-z]+[0-9]*(?:_?e[0-9]m[0-9])?(?:_t)?)(?=_|$)"
)


@dataclass(frozen=True, slots=True, order=True)
class Collective:
    """What a kernel name says.

    Attributes:
        name: the collective; Generic where the name does not tell it.
        variant: reduction and datatype as named, such as `Sum_bf16`; empty where the name has none.
    """

    name: str
    variant: str


def variant_of(demangled: str) -> str:
    """Reduction and datatype in the name of a collective, as named; empty where the name has none."""
    found = _VARIANT.search(base_name(demangled))
    return found[1] if found else ""


def collectives(call: Call[Any]) -> dict[int, Collective]:
    """The collectives of the capture by kernel name (string id), whether or not they ran in the window."""
    rows = call.sql("SELECT name, collective, demangled FROM kernel_names WHERE collective IS NOT NULL ORDER BY name")
    return {name: Collective(collective, variant_of(demangled)) for name, collective, demangled in rows}


def numbered_sql(numbers: Mapping[int, int]) -> str:
    """SQL: a table `numbered` with the number of each kernel name, to join kernels with; not of no names."""
    return f"(VALUES {', '.join(f'({name}, {number})' for name, number in numbers.items())}) numbered(name, number)"
