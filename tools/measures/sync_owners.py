"""Synchronisation on the host: ranges and API calls whose names say so, and the ranges that they stand in. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ingest.nesting import innermost
from ...ingest.stacks import plain_names
from ..call import Call
from .grouping import Ints, group_sums
from .intervals import overlapping
from .processes import of_threads

_SUFFIX = re.compile(r"(?:_ptsz|_ptds)?(?:_v[0-9]+)?$")
"""Of API names: the variants for per-thread default streams, and versions."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A range name, and the synchronisation that it is the nearest range around.

    Attributes:
        range: the name without counters; None for synchronisation in no range.
        syncs: outermost matches that overlap the window.
        time: their durations, clipped to the window.
        child: the name of the matches that take most of it.
    """

    range: str | None
    syncs: int
    time: int
    child: str


@dataclass(frozen=True, slots=True)
class Owners:
    """All owners in scope, by falling time, then by name, those in no range last of equal ones.

    Attributes:
        rows: the owners.
        clipped: matches that cross an edge of the window.
    """

    rows: Sequence[Owner]
    clipped: int


def matcher(patterns: Sequence[str]) -> re.Pattern[str]:
    """Finds a pattern as a whole word in the end of a name, from as many `::` back as the pattern has.

    `item` is found in `aten::item` and `Lib:item`, in neither `itemsize` nor `item::other`.
    """
    words = [rf"(?<!\w){re.escape(pattern)}(?!\w)(?:(?!::).)*$" for pattern in patterns]
    return re.compile("|".join(words), re.DOTALL)


def sync_owners(call: Call[Any], patterns: Sequence[str]) -> Owners:
    """The owners of what matches the patterns, each match counted once, in its outermost."""
    matches = _outermost(_matches(call, patterns))
    window = call.window
    matches = matches.of(overlapping(window, matches.start, matches.end))
    start, end = matches.start, matches.end
    time = np.maximum(np.minimum(end, window.end_ns) - np.maximum(start, window.start_ns), 0)
    owners, owner = _owner_names(call, matches.around)
    children = len(matches.names)
    pair, count, total = group_sums(owner * children + matches.child, np.ones_like(time), time)
    found: dict[int, list[tuple[int, int, int]]] = {}  # of each owner its children: time, falling; text; count
    for key, syncs, ns in sorted(zip(pair.tolist(), count.tolist(), total.tolist(), strict=True)):
        found.setdefault(key // children, []).append((-ns, key % children, syncs))
    rows = [
        Owner(owners[code], sum(n for *_, n in of), -sum(ns for ns, *_ in of), matches.names[min(of)[1]])
        for code, of in found.items()
    ]
    rows.sort(key=lambda row: (-row.time, row.range is None, (row.range or "").encode()))
    return Owners(rows, int(np.count_nonzero((start < window.start_ns) | (end > window.end_ns))))


@dataclass(frozen=True, slots=True)
class _Matches:
    """Ranges and API calls that match.

    Attributes:
        names: the names that there are, in order.
        child: the name of each match, as a place among them.
        thread: its thread, -1 for none.
        start: its start.
        end: its end.
        around: string id of the name of the nearest range around it, -1 for none.
    """

    names: Sequence[str]
    child: Ints
    thread: Ints
    start: Ints
    end: Ints
    around: Ints

    def of(self, rows: npt.NDArray[Any]) -> _Matches:
        """Some of them."""
        columns = (self.child, self.thread, self.start, self.end, self.around)
        return _Matches(self.names, *(column[rows] for column in columns))


def _matches(call: Call[Any], patterns: Sequence[str]) -> _Matches:
    """All ranges and API calls of the capture that match, in nesting order on each thread, ranges before calls."""
    range_names, call_names = _matching_names(call, matcher(patterns), patterns)
    names = sorted({*range_names.values(), *call_names.values()}, key=str.encode)
    place = {text: number for number, text in enumerate(names)}
    ranges = call.arrays('SELECT start, "end", thread, name, coalesce("outer", -1) AS around FROM nvtx_ranges')
    wanted = ", ".join(map(str, sorted(call_names))) or "NULL"
    calls = call.arrays(
        f"""SELECT start, "end", coalesce(thread, -1) AS thread, name FROM calls WHERE name IN ({wanted})
        ORDER BY thread, start, "end" DESC, name"""
    )
    code = np.full(int(ranges["name"].max(initial=0)) + 1, -1, np.int64)
    for number, text in range_names.items():
        if number < len(code):
            code[number] = place[text]
    child = code[ranges["name"]]
    rows = np.flatnonzero(child >= 0)
    around = np.concatenate([ranges["around"][rows], _around(ranges, calls)]).astype(np.int64)
    named = np.append(ranges["name"], -1)  # the last place is that of "no range"
    both = {name: np.concatenate([ranges[name][rows], calls[name]]) for name in ("thread", "start", "end")}
    children = [child[rows], np.array([place[call_names[name]] for name in calls["name"].tolist()], np.int64)]
    found = _Matches(names, np.concatenate(children), both["thread"], both["start"], both["end"], named[around])
    if call.device_asked:
        users = [thread for (thread,) in call.sql(f"SELECT thread FROM threads WHERE {of_threads(call)}")]
        found = found.of(np.isin(found.thread, users))
    order = np.lexsort((np.arange(len(found.start)), -found.end, found.start, found.thread))
    return found.of(order)


def _matching_names(
    call: Call[Any], pattern: re.Pattern[str], parts: Sequence[str]
) -> tuple[dict[int, str], dict[int, str]]:
    """String ids of range names that match, and of API names, with the texts to show: range names without counters."""
    like = " OR ".join("contains(value, ?)" for _ in parts)
    texts = call.arrow(f"SELECT id, value FROM strings WHERE {like} ORDER BY id", parts)
    ids: list[int] = texts.column("id").to_pylist()  # type: ignore[assignment]
    values: list[str] = texts.column("value").to_pylist()  # type: ignore[assignment]
    plain = plain_names(values)
    fitting = {text for text in set(plain) if pattern.search(text)}
    ranges = {number: text for number, text in zip(ids, plain, strict=True) if text in fitting}
    apis = {name for (name,) in call.sql("SELECT DISTINCT name FROM calls")}
    calls = {
        number: text
        for number, text in zip(ids, values, strict=True)
        if number in apis and pattern.search(_SUFFIX.sub("", text))
    }
    return ranges, calls


def _around(ranges: Mapping[str, npt.NDArray[Any]], calls: Mapping[str, npt.NDArray[Any]]) -> Ints:
    """The innermost range of its thread that contains each call, as a row of the table of ranges; -1 for none."""
    found = np.full(len(calls["start"]), -1, np.int64)
    for thread in np.unique(calls["thread"]).tolist():
        low, high = (int(np.searchsorted(ranges["thread"], thread, side=side)) for side in ("left", "right"))
        mine = slice(*(int(np.searchsorted(calls["thread"], thread, side=side)) for side in ("left", "right")))
        start, end, around = (ranges[name][low:high] for name in ("start", "end", "around"))
        outer = np.where(around >= 0, around - low, -1)
        at = innermost(start, end, outer, calls["start"][mine], calls["end"][mine])
        found[mine] = np.where(at >= 0, at + low, -1)
    return found


def _outermost(matches: _Matches) -> _Matches:
    """Those that no other one of the thread contains: none before it in nesting order ends as late."""
    ends, rank = np.unique(matches.end, return_inverse=True)
    late = (matches.thread.astype(np.int64) + 1) * len(ends) + rank.reshape(-1)
    before = np.maximum.accumulate(np.append(-1, late)[: len(late)])
    return matches.of(late > before)


def _owner_names(call: Call[Any], around: Ints) -> tuple[Sequence[str | None], Ints]:
    """The names of owners, without counters, and the place of each of `around` among them; None for no range."""
    ids = np.unique(around)
    known = ids[ids >= 0]  # there may be a hundred thousand of them: too many for a list in the query
    if not len(known):
        return [None], np.zeros(len(around), np.int64)
    texts = call.arrow(f"SELECT id, value FROM strings WHERE id BETWEEN {known[0]} AND {known[-1]} ORDER BY id")
    rows = np.searchsorted(texts.column("id").to_numpy(), known)
    values: list[str] = texts.column("value").take(rows).to_pylist()  # type: ignore[assignment]
    plain: list[str | None] = [*plain_names(values)]
    if len(known) < len(ids):
        plain.insert(0, None)  # -1 sorts first
    names = list(dict.fromkeys(plain))
    code = {name: number for number, name in enumerate(names)}
    place = np.array([code[name] for name in plain], np.int64)
    return names, place[np.searchsorted(ids, around)]
