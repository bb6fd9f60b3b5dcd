"""What a threshold and a table of name patterns are. Constructing one puts it on the list that the reference shows."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that decides something in a result.

    Attributes:
        name: a few words.
        value: the number, in the unit.
        unit: its unit: ns, bytes, %, count, ….
        decides: what it decides, in one line.
        skills: the skills that use it.
    """

    name: str
    value: int
    unit: str
    decides: str
    skills: tuple[str, ...]

    def __post_init__(self) -> None:
        _THRESHOLDS.append(self)


@dataclass(frozen=True, slots=True)
class PatternTable:
    """Patterns of names, read from the top: the first that matches decides.

    Attributes:
        name: a few words.
        how: how a pattern is compared with a name.
        rows: pattern and what it says.
        skills: the skills that use it.
    """

    name: str
    how: str
    rows: tuple[tuple[str, str], ...]
    skills: tuple[str, ...]

    def __post_init__(self) -> None:
        _PATTERNS.append(self)


_THRESHOLDS: list[Threshold] = []
_PATTERNS: list[PatternTable] = []


def all_tables() -> tuple[Sequence[Threshold], Sequence[PatternTable]]:
    """All thresholds and all tables of patterns, by name."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return sorted(_THRESHOLDS, key=lambda t: t.name), sorted(_PATTERNS, key=lambda t: t.name)
