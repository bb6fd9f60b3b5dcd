"""Markers: NVTX ranges that repeat on one thread without overlapping, and the GPU work that they launch. Times in ns.

Loaded when iterations are looked for, not when skills are registered. A candidate, a marker on a thread, is one integer
throughout: thread * labels + label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.window import Window
from ..call import Call
from ..thresholds.iterations import LIBRARY_RANGES, MIN_INSTANCES, OWNED_SHARE
from .grouping import Ints, group_sums
from .iterations import Iterations
from .marker_names import Labels, all_labels, marker_name, one_label
from .work import WORK_TABLES

_LISTED = 10
"""How many markers an error names."""

_BATCHES = (1, 64)
"""How many candidates are looked at in one pass over the ranges, before all others are."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The ranges of a marker on a thread, in order; three or more, and they do not overlap."""

    thread: int
    name: str
    start: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class Marks:
    """Candidates that mark iterations, ascending, and their ranges: those of the first, then of the second, ….

    Attributes:
        keys: the candidates.
        low: where the ranges of each begin.
        high: where they end.
        start: starts of the ranges.
        end: their ends.
    """

    keys: Ints
    low: Ints
    high: Ints
    start: Ints
    end: Ints

    def of(self, key: int, labels: Labels) -> Instances:
        """The ranges of one of the candidates."""
        at = int(np.searchsorted(self.keys, key))
        part = slice(int(self.low[at]), int(self.high[at]))
        thread, code = divmod(key, len(labels.texts))
        return Instances(thread, labels.texts[code], self.start[part], self.end[part])


def search(call: Call[Any], marker: str | None) -> Iterations | None:
    """The iterations of a capture: see `iterations.find_iterations`."""
    if marker is not None:
        return _asked_for(call, marker)
    labels = all_labels(call)
    repeated = _repeated(call, labels)
    repeated = repeated[~_of_libraries(labels)[repeated % max(1, len(labels.texts))]]
    # Devices are those with GPU work: a marker that launches none of it says nothing of the GPU.
    order = _by_gpu_time if call.profile.devices else _by_depth
    launched = _Launched(call) if call.profile.devices else None
    for batch in _batches(order(call, labels, repeated)):
        marks = _marks(call, labels, batch)
        found = batch[np.isin(batch, marks.keys)]
        if launched is not None:
            found = found[[launched.owned(marks.of(key, labels)) for key in found.tolist()]]
        if len(found):
            chosen = marks.of(int(found[0]), labels)
            width = len(labels.texts)
            same = _marks(call, labels, repeated[repeated % width == found[0] % width])
            return _iterations(call, chosen, _launched(call, chosen)[1], len(same.keys) - 1)
    return None


def _of_libraries(labels: Labels) -> npt.NDArray[np.bool_]:
    """Which labels name what a library does: such a range is no step, however often it repeats."""
    pattern = re.compile("|".join(pattern for pattern, _ in LIBRARY_RANGES.rows))
    return np.array([pattern.match(text) is not None for text in labels.texts], np.bool_)


class _Launched:
    """The GPU time that each thread launches, by the start of the call."""

    def __init__(self, call: Call[Any]) -> None:
        work = call.arrays(
            " UNION ALL ".join(
                f'SELECT thread, call_start, call_end, "end" - start AS time FROM {table} WHERE thread IS NOT NULL'
                for table in WORK_TABLES
            )
        )
        order = np.lexsort((work["call_start"], work["thread"]))
        self._thread, self._call, self._end, self._time = (
            work[name][order] for name in ("thread", "call_start", "call_end", "time")
        )

    def owned(self, of: Instances) -> bool:
        """Whether the ranges launch most of what their thread launches from the first of them to the last."""
        low, high = np.searchsorted(self._thread, of.thread), np.searchsorted(self._thread, of.thread, side="right")
        low, high = low + np.searchsorted(self._call[low:high], [of.start[0], of.end[-1]], side="left")
        begin, end, time = self._call[low:high], self._end[low:high], self._time[low:high]
        place = np.searchsorted(of.start, begin, side="right") - 1
        inside = int(time[end <= of.end[place]].sum())
        return 100 * inside >= OWNED_SHARE.value * int(time.sum())


def _asked_for(call: Call[Any], marker: str) -> Iterations:
    threads = np.array([thread for (thread,) in call.sql("SELECT thread FROM threads ORDER BY thread")], np.int64)
    for label in (marker_name, str):
        labels = one_label(call, marker, label)
        marks = _marks(call, labels, threads)  # of a single label, a candidate is its thread
        found = [marks.of(key, labels) for key in marks.keys.tolist()]
        launched = [(mark, *_launched(call, mark)) for mark in found]
        if launched:
            chosen, _, ends = min(launched, key=lambda found: (-found[1], found[0].thread))
            return _iterations(call, chosen, ends, len(launched) - 1)
    names = call.profile.once("names of markers", lambda: _names_of_markers(call))
    listed = ", ".join(names) or "none: no range repeats without overlapping; choose a window with trim"
    raise EvidenceError(
        ErrorCode.INVALID_ARGUMENT,
        f"{marker!r} marks no iterations: that takes {MIN_INSTANCES.value} or more NVTX push/pop ranges of this name, "
        "or of this name and a number, on one thread, that do not overlap",
        f"markers in this capture: {listed}",
        argument="marker",
        markers=names,
    )


def _names_of_markers(call: Call[Any]) -> list[str]:
    """Some markers of the capture: those with most GPU time first, or, if none has any, the outermost first."""
    labels = all_labels(call)
    repeated = _repeated(call, labels)
    for order in (_by_gpu_time, _by_depth):
        candidates = order(call, labels, repeated)
        marking = candidates[np.isin(candidates, _marks(call, labels, candidates).keys)]
        if len(marking):
            names = (labels.texts[code] for code in (marking % len(labels.texts)).tolist())
            return list(dict.fromkeys(names))[:_LISTED]
    return []


def _batches(candidates: Ints) -> Iterator[Ints]:
    """The first candidate, then more at a time, then all others: each batch is one pass over the ranges."""
    done = 0
    for size in (*_BATCHES, len(candidates)):
        if len(batch := candidates[done : done + size]):
            yield batch
        done += size


def _repeated(call: Call[Any], labels: Labels) -> Ints:
    """The candidates with instances enough, ascending."""
    counts = call.arrays("SELECT thread, name, count(*) AS ranges FROM nvtx_ranges GROUP BY thread, name")
    key, ranges = group_sums(_keys(labels, counts), counts["ranges"])
    repeated: Ints = np.sort(key[ranges >= MIN_INSTANCES.value])
    return repeated


def _keys(labels: Labels, named: dict[str, Ints]) -> Ints:
    """Threads and names, all of which have a label, as candidates."""
    keys: Ints = named["thread"].astype(np.int64) * len(labels.texts) + labels.code[named["name"]]
    return keys


def _by_gpu_time(call: Call[Any], labels: Labels, repeated: Ints) -> Ints:
    """Candidates that launch GPU work which takes time: by GPU time, then the outermost, then by name and thread."""
    work = call.arrays(
        " UNION ALL ".join(
            f'SELECT thread, stack, "end" - start AS time FROM {table} WHERE stack IS NOT NULL' for table in WORK_TABLES
        )
    )
    paths = call.arrays("SELECT coalesce(parent, -1) AS parent, name, depth FROM plain_paths")
    width = len(labels.texts)
    path_of = call.arrays("SELECT plain_path FROM stacks")["plain_path"]
    count = max(1, len(paths["name"]))
    key, time = group_sums(work["thread"].astype(np.int64) * count + path_of[work["stack"]], work["time"])
    code = labels.code[paths["name"]]
    thread, path = key // count, key % count
    parts: list[tuple[Ints, Ints, Ints]] = []
    while len(path):
        candidate = thread * width + code[path]
        kept = _among(candidate, repeated)
        parts.append((candidate[kept], time[kept], paths["depth"][path[kept]]))
        path = paths["parent"][path]
        inside = path >= 0
        thread, path, time = thread[inside], path[inside], time[inside]
    if not parts:
        return repeated[:0]
    candidate, time, depth = (np.concatenate(part) for part in zip(*parts, strict=True))
    distinct, total = group_sums(candidate, time)
    order = np.argsort(distinct)
    distinct, total = distinct[order], total[order]
    least = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(least, np.searchsorted(distinct, candidate), depth)
    timed = total > 0
    return _ordered(labels, distinct[timed], total[timed], least[timed])


def _by_depth(call: Call[Any], labels: Labels, repeated: Ints) -> Ints:
    """Candidates whether they launch work or not: the outermost first, by their first instance, then by name, thread.

    For captures without GPU work, and to name markers that may be asked for.
    """
    ranges = call.arrays('SELECT thread, name, coalesce("outer", -1) AS around FROM nvtx_ranges')
    encoded = pa.array(_keys(labels, ranges)).dictionary_encode()
    seen = np.maximum.accumulate(encoded.indices.to_numpy())  # groups are numbered as they first appear
    distinct = encoded.dictionary.to_numpy()
    kept = np.flatnonzero(_among(distinct, repeated))
    at = np.searchsorted(seen, kept)
    depth, moving = np.zeros(len(at), np.int64), np.arange(len(at))
    while len(moving):
        at[moving] = ranges["around"][at[moving]]
        moving = moving[at[moving] >= 0]
        depth[moving] += 1
    return _ordered(labels, distinct[kept], np.zeros_like(depth), depth)


def _ordered(labels: Labels, keys: Ints, time: Ints, depth: Ints) -> Ints:
    """Distinct candidates, the best first."""
    thread, code = np.divmod(keys, max(1, len(labels.texts)))
    ordered: Ints = keys[np.lexsort((thread, code, depth, -time))]
    return ordered


def _among(keys: Ints, ascending: Ints) -> npt.NDArray[np.bool_]:
    """Which of the keys are among those in ascending order."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    place = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[place] == keys
    return found


def _marks(call: Call[Any], labels: Labels, candidates: Ints) -> Marks:
    """The candidates that mark iterations: three or more ranges, none of which starts before the one before it ends."""
    keys = np.sort(candidates)
    width = len(labels.texts)
    asked = np.zeros(width + 1, np.bool_)  # one place more, for the code -1
    asked[keys % max(1, width)] = True
    of_asked = asked[labels.code]
    ids = np.flatnonzero(of_asked)
    if not len(ids):
        nothing = np.zeros(0, np.int64)
        return Marks(nothing, nothing, nothing, nothing, nothing)
    threads = ", ".join(map(str, np.unique(keys // width).tolist()))
    ranges = call.arrays(  # strings are numbered in order, so that names which begin alike lie close together
        f"""SELECT thread, name, start, "end" FROM nvtx_ranges
        WHERE thread IN ({threads}) AND name BETWEEN {ids[0]} AND {ids[-1]}"""
    )
    mine = np.flatnonzero(of_asked[ranges["name"]])
    ranges = {name: column[mine] for name, column in ranges.items()}
    key = _keys(labels, ranges)
    mine = np.flatnonzero(_among(key, keys))
    key, start, end = key[mine], ranges["start"][mine], ranges["end"][mine]
    order = np.lexsort((end, start, key))
    key, start, end = key[order], start[order], end[order]
    first = np.append(True, key[1:] != key[:-1])[: len(key)]
    low = np.flatnonzero(first)
    high = np.append(low[1:], len(key))[: len(low)]
    overlapping = np.append(False, start[1:] < end[:-1])[: len(key)] & ~first
    before = np.append(0, np.cumsum(overlapping))
    marking = (high - low >= MIN_INSTANCES.value) & (before[high] == before[low])
    low, high = low[marking], high[marking]
    return Marks(key[low], low, high, start, end)


def _launched(call: Call[Any], of: Instances) -> tuple[int, Ints]:
    """The GPU time that the ranges launched, and the end of each, stretched to the end of that work."""
    work = call.arrays(
        " UNION ALL ".join(
            f"""SELECT call_start, call_end, start, "end" FROM {table}
            WHERE thread = {of.thread} AND call_start >= {of.start[0]} AND call_end <= {of.end.max()}"""
            for table in WORK_TABLES
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
    windows = Windows(f"of {chosen.name}", chosen.start, ends, capture.end_ns)
    basis = (
        f"iterations are the {len(windows)} NVTX ranges {chosen.name} of process {process}, thread {tid}, each "
        "stretched to the end of the GPU work that it launched"
    )
    if elsewhere:
        basis += f"; {elsewhere} other threads have such ranges of this name, at times of their own"
    return Iterations(chosen.name, "nvtx", windows, process, tid, elsewhere, basis)


class Windows(Sequence[Window]):
    """Windows that are made when they are asked for: a marker may have hundreds of thousands of instances."""

    def __init__(self, of: str, start: Ints, end: Ints, last: int) -> None:
        self._of, self._start, self._end, self._last = of, start, end, last

    @property
    def bounds(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All starts and all ends."""
        return self._start.astype(np.int64), self._end.astype(np.int64)

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
        return Window(start, end, f"iteration {number} {self._of}", includes_end=end >= self._last)
