"""The names of NVTX paths, as results show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...contracts.wire import MAX_TEXT, clean_text
from ..call import Call

NO_RANGE = "(no range)"
"""Shown for work that no range contains, or whose launching call is not known."""

_BETWEEN = " > "


def path_texts(call: Call[Any], paths: Iterable[int], table: str) -> dict[int, str]:
    """Paths by number: the names of the ranges, outermost first; `table` is `paths` or `plain_paths`.

    Of a path too long for a result the outermost names are left out, since the innermost say most.
    """
    wanted = ", ".join(map(str, sorted(set(paths))))
    if not wanted:
        return {}
    rows = call.sql(
        f"""WITH RECURSIVE up AS (
            SELECT path AS leaf, parent, name, depth FROM {table} WHERE path IN ({wanted})
            UNION ALL
            SELECT leaf, above.parent, above.name, above.depth FROM up JOIN {table} above ON above.path = up.parent
        ) SELECT leaf, name FROM up ORDER BY leaf, depth"""
    )
    texts = call.strings(name for _, name in rows)
    names: dict[int, list[str]] = {}
    for leaf, name in rows:
        names.setdefault(leaf, []).append(texts[name] or "")
    return {leaf: _joined(parts) for leaf, parts in names.items()}


def _joined(names: list[str]) -> str:
    names = [clean_text(name) for name in names]
    text = _BETWEEN.join(names)
    for first in range(1, len(names)):
        if len(text) <= MAX_TEXT:
            break
        text = _BETWEEN.join(["…", *names[first:]])
    return text
