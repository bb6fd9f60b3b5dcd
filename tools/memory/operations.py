"""The words for copies: direction by `copyKind`, memory by `srcKind` and `dstKind`, as CUPTI numbers them."""

from __future__ import annotations

from collections.abc import Iterable

OPERATIONS = {
    1: "h2d",
    2: "d2h",
    8: "d2d",
    9: "h2h",
    10: "p2p",
    11: "um_h2d",
    12: "um_d2h",
    13: "um_d2d",
}
"""Direction by `copies.kind`. All others are OTHER: unknown (0) and copies from or to arrays (3 to 7)."""

OTHER = "other"

SET = "set"
"""The operation of a memory set."""

MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device_static",
    6: "managed_static",
}
"""Memory by `copies.src_kind`, `copies.dst_kind` and `sets.mem_kind`; all others are unknown: null."""

PAGEABLE = 0
"""The memory kind of host memory that is not pinned."""


def operation_of(copy_kind: int | None) -> str:
    """The direction of a copy."""
    return OTHER if copy_kind is None else OPERATIONS.get(copy_kind, OTHER)


def memory_kind(number: int | None) -> str | None:
    """The kind of memory in words; None when unknown."""
    return None if number is None else MEMORY_KINDS.get(number)


def known_sql(column: str, known: Iterable[int]) -> str:
    """SQL: the number in the column where it is one of these, else null, so that groups are those of the words."""
    return f"CASE WHEN {column} IN ({', '.join(map(str, known))}) THEN {column} END"
