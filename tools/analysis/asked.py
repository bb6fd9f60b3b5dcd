"""What other skills answered: their figures with the cells that they stand in, and what they could not answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...contracts.envelope import MAX_ROWS
from ...contracts.errors import EvidenceError
from ...contracts.evidence import CellAddress
from ..call import Call
from ..registry import all_skills

logger = logging.getLogger(__name__)

PER_DEVICE = ("overlap_breakdown", "critical_path")
"""Skills with a row a device, all of which are asked for."""

Shown = float | int | str | None
"""A value as a result shows it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of another skill's result.

    Attributes:
        name: its column.
        value: the number, as the cell shows it.
        cell: its address, `ev-…:ROW.COLUMN` or `ev-…:totals.KEY`.
    """

    name: str
    value: Shown
    cell: str

    @property
    def number(self) -> float:
        """The number; 0 where it is null."""
        return float(self.value or 0)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A skill that did not answer.

    Attributes:
        skill: its name.
        status: abstained, or failed.
        reason: why, in its own words.
        hint: how to record what it needs, or what to do about the failure.
    """

    skill: str
    status: str
    reason: str
    hint: str | None


class Asked:
    """Asks other skills about the profile and the scope of a call, each once, and keeps what none of them answered."""

    def __init__(self, call: Call[Any]) -> None:
        self._call = call
        self._answers: dict[str, Mapping[str, Any] | None] = {}
        self._unanswered: dict[str, Unanswered] = {}

    @property
    def unanswered(self) -> list[Unanswered]:
        """The skills that did not answer, in the order in which they were asked."""
        return list(self._unanswered.values())

    @property
    def partial(self) -> list[str]:
        """The skills whose answers have a hole."""
        return [
            skill for skill, answer in self._answers.items() if answer is not None and answer["status"] == "partial"
        ]

    def count(self, skill: str, table: str | None = None) -> int:
        """How many rows a skill has in scope, shown or not; 0 when it did not answer."""
        envelope = self.answer(skill)
        part = envelope if envelope is None or table is None else envelope["tables"].get(table)
        if part is None:
            return 0
        return int(part["truncation"]["total_rows"]) if part["truncation"] else len(part["rows"])

    def why_not(self, skill: str) -> Unanswered | None:
        """Why a skill did not answer; None when it did."""
        self.answer(skill)
        return self._unanswered.get(skill)

    def answer(self, skill: str) -> Mapping[str, Any] | None:
        """The envelope of a skill with its default parameters; None when it abstained or failed.

        Raises:
            EvidenceError: the call itself was stopped, or its profile left the cache.
        """
        if skill not in self._answers:
            self._answers[skill] = self._asked(skill)
        return self._answers[skill]

    def total(self, skill: str, key: str) -> Figure | None:
        """A figure of a skill's totals; None when it did not answer."""
        envelope = self.answer(skill)
        if envelope is None or envelope["totals"] is None:
            return None
        return Figure(key, envelope["totals"][key], str(CellAddress(envelope["evidence"], "totals", None, key)))

    def rows(self, skill: str, table: str | None = None) -> list[dict[str, Figure]]:
        """The figures of the rows that a skill shows, by column; none when it did not answer."""
        envelope = self.answer(skill)
        part = envelope if envelope is None or table is None else envelope["tables"].get(table)
        if envelope is None or part is None:
            return []
        return [
            {
                column: Figure(column, value, str(CellAddress(envelope["evidence"], table, number, column)))
                for column, value in zip(part["columns"], row, strict=True)
            }
            for number, row in enumerate(part["rows"])
        ]

    def _asked(self, skill: str) -> Mapping[str, Any] | None:
        from ...ingest.interrupt import ProfileGoneError

        try:
            many = skill in PER_DEVICE and len(self._call.devices) > all_skills()[skill].max_rows
            envelope = self._call.ask(skill, **({"max_rows": MAX_ROWS} if many else {}))
        except ProfileGoneError:
            raise
        except EvidenceError as error:
            self._call.interrupt.check()  # that the whole call was stopped is no fault of the skill
            self._unanswered[skill] = Unanswered(skill, "failed", f"{error.code.value}: {error.message}", error.hint)
            return None
        except Exception:  # a fault in one skill must neither take the others down nor vanish
            self._call.interrupt.check()
            logger.exception("%s failed", skill)
            self._unanswered[skill] = Unanswered(skill, "failed", "INTERNAL: a fault in this program", None)
            return None
        if envelope["status"] == "abstained":
            self._unanswered[skill] = Unanswered(skill, "abstained", envelope["reason"], envelope["capture_hint"])
            return None
        return envelope
