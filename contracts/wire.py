"""Rules for what goes over the wire: plain JSON, safe integers, clean text."""

from __future__ import annotations

import json
import re

MAX_SAFE_INTEGER = 2**53
"""Integers beyond this magnitude travel as strings: a JavaScript client would round them silently."""

MAX_TEXT = 2_000
"""The longest text from a capture that enters a result, in characters."""

# C0, DEL and C1 controls, zero-width characters, bidirectional marks, embeddings and isolates, line and paragraph
# separators, the byte-order mark, unpaired surrogates, and Unicode tags: none can be part of a name that a reader
# sees, all can hide one.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean_text(text: str, limit: int = MAX_TEXT) -> str:
    """Names from a capture are data: control and bidirectional characters go, length is capped with an ellipsis."""
    clean = _UNSAFE.sub("", text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def clean_value(value: object, limit: int = 200) -> object:
    """A JSON value with every text in it cleaned and capped."""
    if isinstance(value, str):
        return clean_text(value, limit)
    if isinstance(value, dict):
        return {clean_text(str(name), limit): clean_value(part, limit) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(part, limit) for part in value]
    return value


def safe_integer(value: int) -> int | str:
    """An integer as JSON carries it without loss: itself, or a decimal string beyond 2^53."""
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)


def dump_json(value: object) -> str:
    """Compact JSON in the order given, UTF-8 text as it is; NaN and Infinity are refused with ValueError."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: object) -> str:
    """Compact JSON with sorted keys: equal values give equal text. Used for hashing, never for display."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False, sort_keys=True)
