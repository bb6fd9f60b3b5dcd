"""Markers: NVTX ranges that repeat on one thread without overlapping, and the GPU work that they launch. Times in ns.

Loaded when iterations are looked for, not when skills are registered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

import numpy as np
import pyarrow as pa

from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.window import Window
from .call import Call
from .grouping import Ints, group_sums
from .iterations import Iterations

MIN_INSTANCES = 3
"""A range that repeats less often marks no iterations."""

_LISTED = 10
"""How many markers an error names."""

_BATCHES = (1, 8, 64)
"""How many candidates are looked at in one pass over the ranges."""

_WORK = ("kernels", "graphs", "copies", "sets")

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
class Candidate:
    """A marker on a thread, not yet known to mark iterations.

    Attributes:
        thread: the thread.
        name: the marker.
        time: GPU time launched inside.
        depth: the least number of ranges around it.
    """

    thread: int
    name: str
    time: int
    depth: int


@dataclass(frozen=True, slots=True)
class Instances:
    """The ranges of a marker on a thread, in order; three or more, and they do not overlap."""

    thread: int
    name: str
    start: Ints
    end: Ints


def search(call: Call[Any], marker: str | None) -> Iterations | None:
    """The iterations of a capture: see `iterations.find_iterations`."""
    if marker is not None:
        return _asked_for(call, marker)
    for candidates in _candidates(call):
        for batch in _batches(candidates):
            marks = _instances(call, batch)
            for candidate in batch:
                if chosen := marks.get((candidate.thread, candidate.name)):
                    same = sum(other.name == candidate.name for other in candidates)
                    return _iterations(call, chosen, _launched(call, chosen)[1], same - 1)
    return None


def _asked_for(call: Call[Any], marker: str) -> Iterations:
    threads = [thread for (thread,) in call.sql("SELECT thread FROM threads ORDER BY thread")]
    for label in (marker_name, str):
        marks = _instances(call, [Candidate(thread, marker, 0, 0) for thread in threads], label).values()
        launched = [(mark, *_launched(call, mark)) for mark in marks]
        if launched:
            chosen, _, ends = min(launched, key=lambda found: (-found[1], found[0].thread))
            return _iterations(call, chosen, ends, len(launched) - 1)
    names = _names_of_markers(call)
    listed = ", ".join(names) or "none: no range repeats without overlapping; choose a window with trim"
    raise EvidenceError(
        ErrorCode.INVALID_ARGUMENT,
        f"{marker!r} marks no iterations: that takes {MIN_INSTANCES} or more NVTX push/pop ranges of this name, or of "
        "this name and a number, on one thread, that do not overlap",
        f"markers in this capture: {listed}",
        argument="marker",
        markers=names,
    )


def _names_of_markers(call: Call[Any]) -> list[str]:
    """Some markers of the capture, those with most GPU time first."""
    for candidates in _candidates(call):
        batch = candidates[: _BATCHES[-1]]
        marks = _instances(call, batch)
        if names := [c.name for c in batch if (c.thread, c.name) in marks]:
            return list(dict.fromkeys(names))[:_LISTED]
    return []


def _candidates(call: Call[Any]) -> Iterator[list[Candidate]]:
    """Markers of ranges that launch GPU work, then, if none of them will do, of any ranges."""
    yield _with_gpu_time(call)
    yield _without_gpu_time(call)


def _batches(candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    """The first candidate, then more at a time: each batch is one pass over the ranges of its threads."""
    done = 0
    for size in (*_BATCHES, len(candidates)):
        if batch := candidates[done : done + size]:
            yield batch
        done += size


def _with_gpu_time(call: Call[Any]) -> list[Candidate]:
    """Markers of ranges that launch GPU work: by GPU time, then the outermost, then by name and thread."""
    work = call.arrays(
        " UNION ALL ".join(
            f'SELECT thread, stack, "end" - start AS time FROM {table} WHERE stack IS NOT NULL' for table in _WORK
        )
    )
    paths = call.arrays("SELECT coalesce(parent, -1) AS parent, name, depth FROM plain_paths")
    width = max(len(paths["name"]), 1)
    path_of = call.arrays("SELECT plain_path FROM stacks")["plain_path"]
    key, time = group_sums(work["thread"].astype(np.int64) * width + path_of[work["stack"]], work["time"])
    names, code = _markers_of(call, paths["name"])
    thread, path = key // width, key % width
    parts: list[tuple[Ints, Ints, Ints]] = []
    while len(path):
        parts.append((thread * len(names) + code[path], time, paths["depth"][path]))
        path = paths["parent"][path]
        inside = path >= 0
        thread, path, time = thread[inside], path[inside], time[inside]
    return _ordered(names, *(np.concatenate(part) for part in zip(*parts, strict=True))) if parts else []


def _without_gpu_time(call: Call[Any]) -> list[Candidate]:
    """Markers of any ranges: the outermost first, by their first instance, then by name and thread."""
    ranges = call.arrays('SELECT thread, name, coalesce("outer", -1) AS around FROM nvtx_ranges')
    names, code = _markers_of(call, ranges["name"])
    encoded = pa.array(ranges["thread"].astype(np.int64) * len(names) + code).dictionary_encode()
    seen = np.maximum.accumulate(encoded.indices.to_numpy())  # groups are numbered as they first appear
    at = np.searchsorted(seen, np.arange(len(encoded.dictionary)))
    depth, moving = np.zeros(len(at), np.int64), np.arange(len(at))
    while len(moving):
        at[moving] = ranges["around"][at[moving]]
        moving = moving[at[moving] >= 0]
        depth[moving] += 1
    return _ordered(names, encoded.dictionary.to_numpy(), np.zeros_like(depth), depth)


def _ordered(names: Sequence[str], key: Ints, time: Ints, depth: Ints) -> list[Candidate]:
    """A candidate for each distinct key, thread * names + name: the sum of its times and the least of its depths."""
    distinct, total = group_sums(key, time)
    order = np.argsort(distinct)
    distinct, total = distinct[order], total[order]
    least = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(least, np.searchsorted(distinct, key), depth)
    found = np.stack([distinct // len(names), distinct % len(names), total, least], axis=1).tolist() if names else []
    candidates = [Candidate(thread, names[name], time, deep) for thread, name, time, deep in found]
    return sorted(candidates, key=lambda c: (-c.time, c.depth, c.name, c.thread))


def _markers_of(call: Call[Any], ids: Ints) -> tuple[list[str], Ints]:
    """The markers of these names, and for each name the place of its marker among them."""
    texts = call.strings(pa.array(ids).unique().to_pylist())
    markers = {number: marker_name(text or "") for number, text in texts.items() if number is not None}
    names = sorted(set(markers.values()))
    place = {name: code for code, name in enumerate(names)}
    lookup = np.zeros(max(markers, default=0) + 1, np.int64)
    for number, name in markers.items():
        lookup[number] = place[name]
    return names, lookup[ids]


def _instances(
    call: Call[Any], candidates: Sequence[Candidate], label: Callable[[str], str] = marker_name
) -> dict[tuple[int, str], Instances]:
    """The ranges whose label is the candidate's name, by thread and name, for candidates that mark iterations."""
    names = sorted({candidate.name for candidate in candidates})
    threads = ", ".join(str(thread) for thread in sorted({candidate.thread for candidate in candidates})) or "NULL"
    begins = " OR ".join("starts_with(value, ?)" for _ in names) or "false"
    texts = call.sql(f"SELECT id, value FROM strings WHERE {begins} ORDER BY id", names)
    place = {name: code for code, name in enumerate(names)}
    labelled = [(number, place[text]) for number, value in texts if (text := label(value)) in place]
    ids, codes = np.array(labelled, np.int64).reshape(-1, 2).T
    ranges = call.arrays(
        f"""SELECT thread, name, start, "end" FROM nvtx_ranges
        WHERE thread IN ({threads}) AND name IN (SELECT unnest(?::INTEGER[]))""",
        [ids.tolist()],
    )
    key = ranges["thread"].astype(np.int64) * len(names) + codes[np.searchsorted(ids, ranges["name"])]
    order = np.lexsort((ranges["end"], ranges["start"], key))
    key, start, end = key[order], ranges["start"][order], ranges["end"][order]
    heads = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else key
    found = {}
    for low, high in pairwise([*heads.tolist(), len(key)]):
        first, last = start[low:high], end[low:high]
        if high - low >= MIN_INSTANCES and bool((first[1:] >= last[:-1]).all()):
            thread, code = divmod(int(key[low]), len(names))
            found[thread, names[code]] = Instances(thread, names[code], first, last)
    return found


def _launched(call: Call[Any], of: Instances) -> tuple[int, Ints]:
    """The GPU time that the ranges launched, and the end of each, stretched to the end of that work."""
    work = call.arrays(
        " UNION ALL ".join(
            f"""SELECT call_start, call_end, start, "end" FROM {table}
            WHERE thread = {of.thread} AND call_start >= {of.start[0]} AND call_end <= {of.end.max()}"""
            for table in _WORK
        )
    )
    place = np.searchsorted(of.start, work["call_start"], side="right") - 1
    inside = work["call_end"] <= of.end[place]
    end = of.end.copy()
    np.maximum.at(end, place[inside], work["end"][inside])
    return int((work["end"] - work["start"])[inside].sum()), end


def _iterations(call: Call[Any], chosen: Instances, ends: Ints, elsewhere: int) -> Iterations:
    capture = call.profile.capture_window
    assert capture is not None
    [(process, tid)] = call.sql(f"SELECT pid, tid FROM threads WHERE thread = {chosen.thread}")
    windows = _Windows(chosen.name, chosen.start, ends, capture.end_ns)
    return Iterations(chosen.name, "nvtx", windows, process, tid, elsewhere)


class _Windows(Sequence[Window]):
    """Windows that are made when they are asked for: a marker may have hundreds of thousands of instances."""

    def __init__(self, marker: str, start: Ints, end: Ints, last: int) -> None:
        self._marker, self._start, self._end, self._last = marker, start, end, last

    def __len__(self) -> int:
        return len(self._start)

    @overload
    def __getitem__(self, index: int) -> Window: ...

    @overload
    def __getitem__(self, index: slice) -> list[Window]: ...

    def __getitem__(self, index: int | slice) -> Window | list[Window]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        start, end = int(self._start[number]), int(self._end[number])
        return Window(start, end, f"iteration {number} of {self._marker}", includes_end=end >= self._last)
