"""Versions of Nsight Systems, compared as numbers."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `2023.4.4.54-234433681190v0` is (2023, 4, 4, 54); none gives ()."""
    found = _NUMBERS.match(text)
    return tuple(map(int, found.group().split("."))) if found else ()


def is_newer(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a version is newer than another, as far as both are told."""
    return one[: len(other)] > other[: len(one)]
