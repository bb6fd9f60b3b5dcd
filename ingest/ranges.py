"""NVTX: which rows are ranges, what they are called, how they nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .nesting import depths, enclosing
from .order import Positions, canonical_order, group_bounds
from .raw import Events, Ints32, believable, combined
from .reader import NONE, Ints
from .strings import StringPool

_PUSH_POP, _START_END, _MARKS, _DOMAIN = (59, 70), (60, 71), (34,), 75
_TID_MASK = 0xFFFFFF

Ints16 = npt.NDArray[np.int16]


@dataclass(slots=True)
class Ranges:
    """Intervals of one style, before sorting. `name` holds provisional codes of the string pool."""

    start: Ints
    end: Ints
    thread: Ints32
    end_thread: Ints32
    domain: Ints32
    name: Ints32


@dataclass(slots=True)
class Nvtx:
    """What the NVTX table holds.

    Attributes:
        pushpop: push/pop ranges with an end.
        startend: start/end ranges with an end.
        marks: how many marks.
        unclosed: how many ranges without an end.
        quarantined: how many ranges that cannot be true.
        extent: first and last instant of all ranges and marks; None without any.
    """

    pushpop: Ranges
    startend: Ranges
    marks: int
    unclosed: int
    quarantined: int
    extent: tuple[int, int] | None


def split_nvtx(events: Events, threads: Mapping[int, int], pool: StringPool) -> Nvtx:
    """Tell ranges from marks, domain rows and what never closed, and name the ranges."""
    kind = events.decoded("eventType")
    start, end = events.integer("start"), events.integer("end")
    pushpop, startend = np.isin(kind, _PUSH_POP), np.isin(kind, _START_END)
    marks = np.isin(kind, _MARKS) & (start != NONE)
    ranges = pushpop | startend
    unclosed = ranges & (end == NONE) & (start != NONE)
    true, _ = believable(start, end)
    usable = ranges & true
    instants = [start[usable | marks | unclosed], end[usable]]
    extent = None
    if len(instants[0]):
        extent = (int(instants[0].min()), max(int(part.max(initial=NONE)) for part in instants))
    domains = _domain_names(events, kind, pool)
    parts = []
    for style in (pushpop & usable, startend & usable):
        rows = np.flatnonzero(style)
        parts.append(
            Ranges(
                start=start[rows],
                end=end[rows],
                thread=events.mapped("globalTid", threads)[rows],
                end_thread=events.mapped("endGlobalTid", threads)[rows],
                domain=events.decoded("domainId", none=0)[rows].astype(np.int32),
                name=_names(events, rows, domains, pool),
            )
        )
    quarantined = int((ranges & ~true & ~unclosed).sum())
    return Nvtx(parts[0], parts[1], int(marks.sum()), int(unclosed.sum()), quarantined, extent)


def _domain_names(events: Events, kind: Ints, pool: StringPool) -> dict[tuple[int, int], str]:
    """Names of NVTX domains by (packed process id, domain id); a domain belongs to its process."""
    names: dict[tuple[int, int], str] = {}
    rows = np.flatnonzero(kind == _DOMAIN)
    packed = events.decoded("globalTid")[rows] & ~_TID_MASK
    ids = events.decoded("domainId", none=0)[rows]
    texts, codes = events.columns.values.get("text", []), events.coded("text")[rows]
    for process, domain, code, number in zip(packed, ids, codes, events.decoded("textId")[rows], strict=True):
        text = (texts[code] if code >= 0 else "") or pool.text_of(int(number))
        if text:
            names[int(process), int(domain)] = text
    return names


def _names(events: Events, rows: Ints, domains: Mapping[tuple[int, int], str], pool: StringPool) -> Ints32:
    """Provisional codes of range names: inline text, else the registered string; `DOMAIN:` first in a named domain."""
    text, number = events.coded("text")[rows], events.coded("textId")[rows]
    if "" in (texts := events.columns.values.get("text", [])):
        text[text == texts.index("")] = -1
    name: Ints32 = pool.codes(texts, text)[text]
    unnamed = name < 0
    number[~unnamed] = -1
    registered = pool.codes(events.columns.values.get("textId", []), number)[number]
    name[unnamed] = registered[unnamed]
    if (name < 0).any():
        name[name < 0] = pool.add("")
    if not domains:
        return name
    domain = events.decoded("domainId", none=0)[rows]
    inside = np.flatnonzero(np.isin(domain, [number for _, number in domains]))
    process = events.decoded("globalTid")[rows[inside]] & ~_TID_MASK
    distinct, which = combined([process, domain[inside], name[inside]])
    prefixed = [
        pool.add(f"{domains[process, domain]}:{pool.values[code]}") if (process, domain) in domains else code
        for process, domain, code in distinct.T.tolist()
    ]
    name[inside] = np.array(prefixed, np.int32)[which] if prefixed else name[inside]
    return name


@dataclass(slots=True)
class Nested:
    """Push/pop ranges in nesting order, thread by thread, with their places in the stack.

    Attributes:
        start, end, thread, domain, name: of each range; `name` is a provisional code.
        parent: the enclosing range of the thread and domain, -1 for none.
        depth: how many enclose it in its domain.
        outer: the nearest earlier range of the thread, of any domain, that ends no earlier; -1 for none.
        bounds: where each thread's ranges begin and end.
    """

    start: Ints
    end: Ints
    thread: Ints32
    domain: Ints32
    name: Ints32
    parent: Ints32
    depth: Ints16
    outer: Ints32
    bounds: Positions


def nest(ranges: Ranges, name_numbers: Ints32, threads: int) -> Nested:
    """Bring ranges into nesting order and find parents and depths, a thread at a time.

    `name_numbers` gives the final number of a provisional name code: ties must break on it.
    """
    order, bounds = group_bounds(ranges.thread, threads)
    size = len(order)
    outer, parent = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    depth = np.zeros(size, np.int16)
    for low, high in pairwise(bounds.tolist()):
        if low == high:
            continue
        rows = order[low:high]
        start, end, domain = ranges.start[rows], ranges.end[rows], ranges.domain[rows]
        sorting = canonical_order(start, -end, domain, name_numbers[ranges.name[rows]])
        order[low:high] = rows[sorting]
        end, domain = end[sorting], domain[sorting]
        around = enclosing(end)
        outer[low:high] = np.where(around >= 0, around + low, -1)
        for one in np.unique(domain):
            members = np.flatnonzero(domain == one)
            inside = around if len(members) == high - low else enclosing(end[members])
            parent[low + members] = np.where(inside >= 0, low + members[inside], -1)
            depth[low + members] = depths(inside)
    return Nested(
        start=ranges.start[order],
        end=ranges.end[order],
        thread=ranges.thread[order],
        domain=ranges.domain[order],
        name=name_numbers[ranges.name[order]],
        parent=parent,
        depth=depth,
        outer=outer,
        bounds=bounds,
    )
