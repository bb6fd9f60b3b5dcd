"""NVTX: which rows are ranges, what they are called, how they nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .nesting import depths, enclosing
from .order import Positions, canonical_order, group_bounds
from .payloads import Payloads, Schemas, decode
from .raw import PAYLOAD, TID_MASK, Events, Ints32, Mask, believable, combined
from .reader import NONE, Ints
from .strings import StringPool

_PUSH_POP, _START_END, _MARKS, _DOMAIN = (59, 70), (60, 71), (34,), 75
Ints16 = npt.NDArray[np.int16]
Rows = slice | Ints


@dataclass(slots=True)
class Ranges:
    """Intervals of one style, before sorting.

    `name` holds provisional codes of the string pool, `payload` rows of the decoded payloads, NO_PAYLOAD or UNDECODED;
    it is None where the export has no schema of NCCL's.
    """

    start: Ints
    end: Ints
    thread: Ints32
    domain: Ints32
    name: Ints32
    payload: Ints32 | None


@dataclass(slots=True)
class Nvtx:
    """What the NVTX table holds.

    Attributes:
        pushpop: push/pop ranges with an end.
        startend: start/end ranges with an end.
        end_thread: the threads that those ended on, -1 where that is not recorded.
        marks: how many marks.
        unclosed: how many ranges without an end.
        quarantined: how many ranges that cannot be true.
        extent: first and last instant of all ranges and marks; None without any.
        payloads: the decoded payloads of push/pop ranges; None without any schema of NCCL's.
    """

    pushpop: Ranges
    startend: Ranges
    end_thread: Ints32
    marks: int
    unclosed: int
    quarantined: int
    extent: tuple[int, int] | None
    payloads: Payloads | None


def range_events(events: Events) -> Mask:
    """Which rows of the NVTX table are ranges or marks that can be true; what creates domains and names is neither."""
    start = events.integer("start")
    ranges = events.is_one_of("eventType", (*_PUSH_POP, *_START_END))
    true, _ = believable(start, events.integer("end"), events.coded("globalTid"))
    unclosed = ranges & (events.integer("end") == NONE)
    marks = events.is_one_of("eventType", _MARKS)
    instants = (unclosed | marks) & (start != NONE) & (events.coded("globalTid") >= 0)
    found: Mask = (ranges & true) | instants
    return found


def split_nvtx(events: Events, threads: Mapping[int, int], pool: StringPool, schemas: Schemas) -> Nvtx:
    """Tell ranges from marks, domain rows and what never closed, and name the ranges."""
    start, end = events.integer("start"), events.integer("end")
    pushpop, startend = events.is_one_of("eventType", _PUSH_POP), events.is_one_of("eventType", _START_END)
    marks = events.is_one_of("eventType", _MARKS) & (start != NONE)
    ranges = pushpop | startend
    unclosed = ranges & (end == NONE) & (start != NONE)
    true, _ = believable(start, end, events.coded("globalTid"))
    quarantined = int((ranges & ~true & ~unclosed).sum())
    instants = np.flatnonzero(marks | unclosed)
    domains = _domain_names(events, pool)
    payloads, payload = None, None
    if schemas.fields or schemas.ambiguous:
        codes = np.where(pushpop & true, events.coded(PAYLOAD), -1)
        payloads = decode(events.columns.values.get(PAYLOAD, []), codes, schemas)
        payload = payloads.row[codes]
    parts = []
    for style in (pushpop & true, startend & true):
        rows = slice(None) if style.all() else np.flatnonzero(style)
        parts.append(
            Ranges(
                start=start[rows],
                end=end[rows],
                thread=events.mapped("globalTid", threads)[rows],
                domain=_domain_ids(events)[rows].astype(np.int32),
                name=_names(events, rows, domains, pool),
                payload=None if payload is None else payload[rows],
            )
        )
    end_thread = events.mapped("endGlobalTid", threads)[startend & true]
    spans = [(part.start.min(), part.end.max()) for part in parts if len(part.start)]
    if len(instants):
        spans.append((start[instants].min(), start[instants].max()))
    extent = (int(min(low for low, _ in spans)), int(max(high for _, high in spans))) if spans else None
    counts = (int(marks.sum()), int(unclosed.sum()), quarantined)
    return Nvtx(parts[0], parts[1], end_thread, *counts, extent, payloads)


def _domain_ids(events: Events) -> Ints:
    return np.maximum(events.decoded("domainId"), 0)  # no domain is the default one, 0


def _domain_names(events: Events, pool: StringPool) -> dict[tuple[int, int], str]:
    """Names of NVTX domains by (packed process id, domain id), the latest; a domain belongs to its process."""
    created = []
    texts = events.columns.values.get("text", [])
    for row in np.flatnonzero(events.is_one_of("eventType", (_DOMAIN,))).tolist():
        code = int(events.columns.code("text")[row])
        text = (texts[code] if code >= 0 else "") or pool.text_of(events.columns.value("textId", row, default=-1))
        if text:
            process = events.columns.value("globalTid", row, default=0) & ~TID_MASK
            domain = events.columns.value("domainId", row, default=0)
            created.append((int(events.columns.integer("start")[row]), text, (process, domain)))
    return {key: text for _, text, key in sorted(created)}


def _names(events: Events, rows: Rows, domains: Mapping[tuple[int, int], str], pool: StringPool) -> Ints32:
    """Provisional codes of range names: inline text, else the registered string; `DOMAIN:` first in a named domain."""
    text = events.coded("text")[rows]
    texts = events.columns.values.get("text", [])
    if "" in texts:
        text = np.where(text == texts.index(""), -1, text)
    name = pool.codes(texts, text)[text]
    if (unnamed := name < 0).any():
        number = np.where(unnamed, events.coded("textId")[rows], -1)
        name = np.where(unnamed, pool.codes(events.columns.values.get("textId", []), number)[number], name)
    if (name < 0).any():
        name[name < 0] = pool.add("")
    if not domains:
        return name
    domain = _domain_ids(events)[rows]
    inside = np.flatnonzero(np.isin(domain, [number for _, number in domains]))
    process = events.decoded("globalTid")[rows][inside] & ~TID_MASK
    distinct, which = combined([process, domain[inside], name[inside]])
    prefixed = [
        pool.add(f"{domains[process, domain]}:{pool.values[code]}") if (process, domain) in domains else code
        for process, domain, code in distinct.T.tolist()
    ]
    name[inside] = np.array(prefixed, np.int32)[which] if prefixed else name[inside]
    return name


@dataclass(slots=True)
class ThreadRanges:
    """The push/pop ranges of one thread in nesting order.

    Attributes:
        thread: the thread.
        first: row of `nvtx_ranges` that the first of them is.
        start, end, domain, name: of each range; `name` is a final number.
        parent: the enclosing range of the thread and domain, as a place in these arrays; -1 for none.
        depth: how many enclose it in its domain.
        outer: the nearest earlier range of the thread, of any domain, that ends no earlier; -1 for none.
        payload: as in `Ranges`.
    """

    thread: int
    first: int
    start: Ints
    end: Ints
    domain: Ints32
    name: Ints32
    parent: Positions
    depth: Ints16
    outer: Positions
    payload: Ints32 | None

    @property
    def table(self) -> dict[str, npt.NDArray[Any]]:
        """Their rows of the table `nvtx_ranges`."""
        return {
            "start": self.start,
            "end": self.end,
            "thread": np.full(len(self.start), self.thread, np.int32),
            "domain": self.domain,
            "name": self.name,
            "parent": np.where(self.parent >= 0, self.parent + self.first, -1).astype(np.int32),
            "depth": self.depth,
            "outer": np.where(self.outer >= 0, self.outer + self.first, -1).astype(np.int32),
        }


def nest(ranges: Ranges, name_numbers: Ints32, threads: int) -> Iterator[ThreadRanges]:
    """Bring ranges into nesting order and find parents and depths, one thread after the other.

    `name_numbers` gives the final number of a provisional name code: ties must break on it.
    """
    order, bounds = group_bounds(ranges.thread, threads)
    for thread, (low, high) in enumerate(pairwise(bounds.tolist())):
        if low == high:
            continue
        rows = order[low:high]
        start, end, domain = ranges.start[rows], ranges.end[rows], ranges.domain[rows]
        name = name_numbers[ranges.name[rows]]
        payload = None if ranges.payload is None else ranges.payload[rows]
        sorting = canonical_order(start, -end, domain, name, *(() if payload is None else (payload,)))
        end, domain = end[sorting], domain[sorting]
        outer = enclosing(end)
        parent, depth = outer, depths(outer)
        if domain.min() != domain.max():
            parent, depth = np.full(len(end), -1, np.int64), np.zeros(len(end), np.int16)
            for one in np.unique(domain).tolist():
                members = np.flatnonzero(domain == one)
                inside = enclosing(end[members])
                parent[members] = np.where(inside >= 0, members[inside], -1)
                depth[members] = depths(inside)
        payload = None if payload is None else payload[sorting]
        yield ThreadRanges(thread, low, start[sorting], end, domain, name[sorting], parent, depth, outer, payload)
