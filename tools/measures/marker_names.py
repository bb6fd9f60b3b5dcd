"""The names of markers: what the names of ranges are without the numbers that tell one instance from the next.

Loaded when iterations are looked for, not when skills are registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..call import Call
from .grouping import Ints

_COUNTER = re.compile(r", (?:seq|op_id) = [0-9]|, sizes = \[")
_TAIL = frozenset("0123456789 \t_-#=/.,()[]")
_DIGITS = frozenset("0123456789")


def marker_name(text: str) -> str:
    """The name of a range without PyTorch's counters, and without numbers and separators at its end.

    `iteration 3`, `step_12` and `ProfilerStep#7` become `iteration`, `step` and `ProfilerStep`. A colon is cut only
    where a space follows, so that the domain before a name stays. A name of digits alone stays as it is.
    """
    if counter := _COUNTER.search(text):
        text = text[: counter.start()]
    end = len(text)
    while end and (text[end - 1] in _TAIL or (text[end - 1] == ":" and text[end : end + 1] == " ")):
        end -= 1
    return text[:end] if end and not _DIGITS.isdisjoint(text[end:]) else text


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of range names, each worked out once.

    Attributes:
        texts: the labels, in order.
        code: by string id, the place of its label among them; -1 for strings that have none.
    """

    texts: list[str]
    code: Ints


def all_labels(call: Call[Any]) -> Labels:
    """The markers of all range names of the capture."""
    named = call.arrays(
        """SELECT id, value FROM strings
        WHERE id IN (SELECT name FROM nvtx_ranges UNION ALL SELECT name FROM plain_paths) ORDER BY id"""
    )
    markers = [marker_name(text) for text in named["value"].tolist()]
    texts = sorted(set(markers))
    place = {text: number for number, text in enumerate(texts)}
    return Labels(texts, _by_id(named["id"], [place[marker] for marker in markers]))


def one_label(call: Call[Any], wanted: str, label: Callable[[str], str]) -> Labels:
    """One label alone, and the names that have it; a name begins with its label."""
    named = call.sql("SELECT id, value FROM strings WHERE starts_with(value, ?) ORDER BY id", [wanted])
    ids = [number for number, text in named if label(text) == wanted]
    return Labels([wanted], _by_id(np.array(ids, np.int64), [0] * len(ids)))


def _by_id(ids: Ints, codes: list[int]) -> Ints:
    code = np.full(int(ids[-1]) + 1 if len(ids) else 0, -1, np.int64)
    code[ids] = codes
    return code
