"""What a kernel's name says about tensor cores: a table of patterns, read from the top, first match wins.

Names are compared in lower case. A name is a hint, not a measurement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ..thresholds.kernels import TENSOR_CORES, TENSOR_ELIGIBLE

ELIGIBLE = re.compile("|".join(pattern for pattern, _ in TENSOR_ELIGIBLE.rows))
"""Names of matrix products, convolutions and attention: what could run on tensor cores."""


class Usage(StrEnum):
    """Whether an eligible kernel uses tensor cores, by its name."""

    USED = "used"
    UNUSED = "unused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A part of a name and what it says; it says nothing in a name that also holds `unless`."""

    text: str
    usage: Usage
    unless: str | None = None

    def matches(self, lower_name: str) -> bool:
        """Whether the pattern decides for this name, given in lower case."""
        return self.text in lower_name and (self.unless is None or self.unless not in lower_name)


def _pattern(text: str, says: str) -> Pattern:
    part, _, unless = text.partition(" without ")
    return Pattern(part, Usage(says), unless or None)


PATTERNS = tuple(_pattern(text, says) for text, says in TENSOR_CORES.rows)
"""The table as it is compared; first match wins."""


@dataclass(frozen=True, slots=True)
class TensorCoreUse:
    """The verdict on an eligible kernel, and the part of the name that decided; None when none did."""

    usage: Usage
    why: str | None


def tensor_core_use(demangled: str) -> TensorCoreUse | None:
    """What a kernel's name says about tensor cores; None when it names no matrix product, convolution or attention."""
    lower = demangled.lower()
    if not ELIGIBLE.search(lower):
        return None
    decided = next((pattern for pattern in PATTERNS if pattern.matches(lower)), None)
    return TensorCoreUse(decided.usage, decided.text) if decided else TensorCoreUse(Usage.UNKNOWN, None)


_COLUMN = {Usage.USED: "used", Usage.UNUSED: "eligible_unused", Usage.UNKNOWN: "unknown"}


def tensor_core_column(demangled: str) -> str:
    """The verdict as one word: used, eligible_unused, not_eligible or unknown."""
    use = tensor_core_use(demangled)
    return "not_eligible" if use is None else _COLUMN[use.usage]
