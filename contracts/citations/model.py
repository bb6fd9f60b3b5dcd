"""What is read out of an answer, and what is said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Literal

from ..evidence import CellAddress


class Dimension(StrEnum):
    """What a number measures; the base unit in which values are kept is in brackets."""

    TIME = "time"
    """(ns)"""
    BYTES = "bytes"
    """(byte)"""
    BYTE_RATE = "byte rate"
    """(byte per second)"""
    FLOP = "flop"
    """(floating-point operation)"""
    FLOP_RATE = "flop rate"
    """(FLOP per second)"""
    PERCENT = "percent"
    """(percent)"""
    POINTS = "percentage points"
    """(percentage point)"""
    FACTOR = "factor"
    """(times, as in 1.5×)"""
    COUNT = "count"
    """(1) a number with a noun of things that are counted"""
    NUMBER = "number"
    """(1) a number without a unit or noun"""


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of an answer that has to come from somewhere.

    Attributes:
        start, end: where it stands in the text, unit included; offsets of characters.
        text: as written, unit included.
        value: in the base unit of its dimension; with the sign that is written, if any.
        step: the value of one unit in the last written place, in base units: of "31.12 ms" it is 10,000 ns.
        scale: base units per written unit, prefixes included: of "31.12 ms" it is 1,000,000; of "1.2k" 1000.
        decimals: digits written after the decimal point.
        dimension: what it measures.
        noun: of a count, what is counted, lower case, singular where the language has one; else None.
        signed: whether a sign is written.
        hedged: whether it is said to be about right (about, ~, roughly, 约): it then holds within 5 %.
        bound: "over" for more than, at least, >, 超过; "under" for less than, at most, nearly, <, 不到. It holds on
            that side, within 5 %.
        heading: in a table, the text of its column's heading; else None.
    """

    start: int
    end: int
    text: str
    value: Fraction
    step: Fraction
    scale: Fraction
    decimals: int
    dimension: Dimension
    noun: str | None = None
    signed: bool = False
    hedged: bool = False
    bound: Literal["over", "under"] | None = None
    heading: str | None = None


@dataclass(frozen=True, slots=True)
class Aside:
    """A number of an answer that is no claim.

    Attributes:
        start, end, text: where and how it stands.
        reason: why it is none: one of "identifier", "name", "version", "date", "path", "code", "list number",
            "citation", "heading", "given".
    """

    start: int
    end: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Citation:
    """Where an answer says that its numbers come from: `[ev-…]`, or a cell, `[ev-…:2.total_ms]`.

    Attributes:
        start, end: where it stands, brackets included where they are its own.
        evidence: the evidence id.
        address: the cell, or None for the whole result.
        fault: why what follows the id is no cell address; None where it is one, or where nothing follows.
    """

    start: int
    end: int
    evidence: str
    address: CellAddress | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """What a citation covers: a sentence, a list item or a table row.

    A list item is one segment, however many sentences it has. Claims, asides and citations are in order of the text.
    """

    start: int
    end: int
    kind: Literal["sentence", "item", "row"]
    text: str
    claims: tuple[Claim, ...] = ()
    asides: tuple[Aside, ...] = ()
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A result that an answer may cite.

    Attributes:
        envelope: the result, as `get_evidence` gives it.
        arguments: those of the call that gave it, where they are known: a number that the asker chose, such as a
            threshold, is no finding.
    """

    envelope: Mapping[str, Any]
    arguments: Mapping[str, object] = field(default_factory=dict)


class Verdict(StrEnum):
    """What is said about a number."""

    SUPPORTED = "supported"
    """A cell rounds to it, and nothing that the sentence names speaks against that cell."""
    DERIVED = "derived"
    """It is a ratio, difference, sum, share or change of two cells that the sentence cites."""
    CONTRADICTED = "contradicted"
    """What the sentence names has another value."""
    UNSUPPORTED = "unsupported"
    """Nothing that it cites has it; or it cites nothing."""
    STALE = "stale"
    """The evidence is of another capture than the one asked about."""
    IGNORED = "ignored"
    """It is no claim."""


GROUNDED = (Verdict.SUPPORTED, Verdict.DERIVED)
"""The verdicts on numbers that came from evidence."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One number and what is said about it.

    Attributes:
        claim: the number.
        verdict: what is said.
        evidence: the cell or cells that it came from, or that speak against it (`ev-…:0.total_ms`); None where there
            are none.
        expected: what those cells say, as text with a unit; None where there are none.
        note: the formula, or the reason, in one line.
        coincidence: the part of all numbers of the same form (the same unit, number of digits and decimals) that the
            same evidence would have supported; from 0 to 1. None for what is ignored, and where there is no evidence.
    """

    claim: Claim | Aside
    verdict: Verdict
    evidence: str | None = None
    expected: str | None = None
    note: str | None = None
    coincidence: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What is said about an answer: its numbers in order of the text, ignored ones among them."""

    judgements: tuple[Judgement, ...]

    def count(self, verdict: Verdict) -> int:
        """How many numbers have this verdict."""
        return sum(judgement.verdict is verdict for judgement in self.judgements)

    @property
    def claims(self) -> int:
        """The numbers that are claims."""
        return len(self.judgements) - self.count(Verdict.IGNORED)

    @property
    def grounded(self) -> Fraction | None:
        """The part of the claims that is supported or derived; None when there are no claims."""
        return Fraction(sum(map(self.count, GROUNDED)), self.claims) if self.claims else None

    @property
    def coincidence(self) -> Fraction | None:
        """The mean coincidence of the claims for which there was evidence; None when there were none.

        A checker, or a citation, that accepts everything has 1.
        """
        rates = [j.coincidence for j in self.judgements if j.coincidence is not None]
        return sum(rates, Fraction(0)) / len(rates) if rates else None
