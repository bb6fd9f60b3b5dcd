"""What a check of `doctor` is: something looked at, how it stands, and what follows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...contracts.units import Exact


class Standing(StrEnum):
    """How a check stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        check: what was looked at.
        standing: how it stands.
        value: what was found, where it is no number.
        count: what was found, where it is a count.
        ns: what was found, where it is a time.
        share: what was found, where it is a share.
        size_bytes: what was found, where it is a size.
        note: what follows from it.
    """

    check: str
    standing: Standing
    value: str | None = None
    count: int | None = None
    ns: int | None = None
    share: Exact | None = None
    size_bytes: int | None = None
    note: str | None = None

    def row(self) -> tuple[object, ...]:
        """The check in the order of the columns."""
        return (
            self.check,
            self.standing.value,
            self.value,
            self.count,
            self.ns,
            self.share,
            self.size_bytes,
            self.note,
        )
