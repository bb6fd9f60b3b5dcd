"""What a skill hands back: exact values, before rounding, cutting and dressing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..contracts.envelope import Status

ExactRow = Sequence[object]
"""One row in column order: integers in ns and bytes, ratios as `Fraction`, texts, None."""


@dataclass(slots=True)
class Table:
    """A further table of a result.

    Attributes:
        rows: the rows to show, exact values in the order of its row model.
        total_rows: how many there are in scope.
        totals: its own totals, JSON values; None where it has none.
    """

    rows: Sequence[ExactRow]
    total_rows: int
    totals: Mapping[str, object] | None = None


@dataclass(slots=True)
class Result:
    """The answer of a skill.

    Attributes:
        rows: the rows of the page asked for, exact values in the order of the row model.
        total_rows: how many rows there are in scope.
        totals: exact values for every key of the totals model, over all rows in scope.
        tables: further tables by name, as declared with the skill.
        notes: what the reader must know to read the rows.
        status: OK, PARTIAL (say the hole in a note) or EMPTY; the runner makes abstentions.
        names: full texts of the short labels shown, kept with the evidence.
        next: skills that lead on from here; None for those of the registration.
        stored: a kept envelope to answer with as it is, instead of all the above.
    """

    rows: Sequence[ExactRow]
    total_rows: int
    totals: Mapping[str, object]
    tables: Mapping[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    status: Status = Status.OK
    names: Mapping[str, str] = field(default_factory=dict)
    next: tuple[str, ...] | None = None
    stored: dict[str, Any] | None = None


class AbstentionError(Exception):
    """Raised by a skill that cannot look: why, what is missing, and the nsys flags that would record it."""

    def __init__(self, reason: str, missing: Sequence[str], capture_hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.missing = list(missing)
        self.capture_hint = capture_hint
