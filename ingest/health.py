"""What nsys says of its own work in a capture: what it warned of, what it lost, and the time that it took itself."""

from __future__ import annotations

import re

import numpy as np

from .busy import merged
from .raw import believable
from .reader import Reader
from .source import Health

_MISSING = re.compile(
    r"\bnot all\b.{1,80}\bcollected\b|\b(dropped|lost|missed|discarded|not collected|incomplete)\b|\boverflow"
)
"""Words by which a warning or an error of nsys says that events are, or may be, missing. Its usual sentence is "Not all
NVTX events might have been collected."."""

_NONE_MISSING = re.compile(
    r"(?<![0-9.,])\b(0|no) ([a-z]+ ){0,4}(dropped|lost|missed|discarded)\b"
    r"|\b(dropped|lost|missed|discarded) ?[:=]? ?0\b(?![.,]?[0-9])"
)
"""Those of them that count none: "0 events dropped", "No events were lost", "lost: 0"."""

_WARNING, _ERROR = 2, 3
"""Severities, as in ENUM_DIAGNOSTIC_SEVERITY_LEVEL of exports since 2024."""


def read_health(reader: Reader, capture: tuple[int, int] | None) -> Health:
    """Read it from the tables DIAGNOSTIC_EVENT and PROFILER_OVERHEAD. Tables without rows say nothing.

    Args:
        reader: the source.
        capture: first start and last end of all events, ns, to which nsys's own work is clipped; None without events.
    """
    said = reader.read("DIAGNOSTIC_EVENT", {"severity": "int", "text": "text"}, _ignore)
    spent = reader.read("PROFILER_OVERHEAD", {"start": "int", "end": "int", "globalTid": "code"}, _ignore)
    warnings = errors = dropped = overhead = None
    if said.rows:
        severity = said.integer("severity")
        warnings, errors = int((severity == _WARNING).sum()), int((severity == _ERROR).sum())
        texts = said.values.get("text", [])
        telling = np.array([*map(tells_of_missing_events, texts), False])
        grave = (severity == _WARNING) | (severity == _ERROR)
        dropped = int((telling[said.code("text")] & grave).sum()) if any(texts) else None
    if capture and spent.rows and "start" in spent.ints and "end" in spent.ints:
        keep, _ = believable(spent.ints["start"], spent.ints["end"], spent.code("globalTid"))
        start, end = spent.ints["start"][keep], spent.ints["end"][keep]
        order = np.argsort(start, kind="stable")
        first, last = merged(np.maximum(start[order], capture[0]), np.minimum(end[order], capture[1]))
        overhead = int((last - first).sum())
    return Health(warnings, errors, dropped, overhead)


def tells_of_missing_events(message: str) -> bool:
    """Whether a message says that events are, or may be, missing. Each count in it is judged for itself."""
    words = " ".join(message.lower().split())
    return bool(_MISSING.search(_NONE_MISSING.sub(" ", words)))


def _ignore(share: float) -> None:
    """Progress of tables too small to count."""
