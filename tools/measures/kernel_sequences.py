"""Iterations without markers: a sequence of kernels that repeats on the busiest stream. Times in ns.

Loaded when iterations are looked for, not when skills are registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..call import Call
from ..thresholds.iterations import MIN_INSTANCES, MIN_KERNELS
from .grouping import Ints
from .iterations import Iterations
from .markers import Windows


@dataclass(frozen=True, slots=True)
class Repetition:
    """A stretch of a sequence in which a shorter one repeats, as often as it fits in whole.

    Attributes:
        first: where it begins.
        period: how long the shorter sequence is; it is not itself a repetition of one that is shorter still.
        times: how often it repeats in whole.
    """

    first: int
    period: int
    times: int

    @property
    def edges(self) -> Ints:
        """Where each repetition begins, and where the last one ends."""
        return self.first + self.period * np.arange(self.times + 1)


def repeated_sequence(call: Call[Any]) -> Iterations | None:
    """The iterations that kernel names show on the stream with most kernel time; None where nothing repeats.

    Of all stretches in which the same three or more kernels repeat three times or more, the one with most kernel time
    in whole repetitions; of equal ones that with the shortest period, then the earliest. An iteration lasts from the
    start of its first kernel to the start of the next one's; the last to the end of its kernels.
    """
    busiest = call.sql(
        """SELECT stream FROM kernels GROUP BY stream ORDER BY sum("end" - start) DESC, stream LIMIT 1"""
    )
    capture = call.profile.capture_window
    if not busiest or capture is None:
        return None
    [(stream,)] = busiest
    kernels = call.arrays(f'SELECT name, start, "end" FROM kernels WHERE stream = {stream}')  # by start
    spent = np.append(0, np.cumsum(kernels["end"] - kernels["start"]))
    found = [
        (int(spent[r.first + r.period * r.times] - spent[r.first]), -r.period, -r.first, r)
        for r in repetitions(kernels["name"])
    ]
    if not found:
        return None
    time, _, _, chosen = max(found, key=lambda candidate: candidate[:3])
    if not time:
        return None
    edges = chosen.edges
    start = kernels["start"][edges[:-1]]
    end = np.append(start[1:], kernels["end"][edges[-2] : edges[-1]].max())
    [(label, process, stream_label)] = call.sql(
        f"""SELECT (SELECT label FROM kernel_names WHERE name = {kernels["name"][chosen.first]}), pid, label
        FROM streams JOIN processes USING (process) WHERE stream = {stream}"""
    )
    name = f"the sequence of {chosen.period} kernels from {label}"
    basis = (
        f"no NVTX range bounds iterations; they are {name}, which repeats {chosen.times} times on stream "
        f"{stream_label} of process {process}, each from the start of its first kernel to the start of the next: it "
        "may be a layer and not a step, and where it begins in a step is not known"
    )
    return Iterations(
        name, "kernel sequence", Windows(f"of {name}", start, end, capture.end_ns), process, None, 0, basis
    )


def repetitions(sequence: Ints) -> list[Repetition]:
    """All maximal stretches in which three or more values repeat three times or more, each by its shortest period.

    By doubling: equal stretches of m values have equal numbers. Where a sequence of period p repeats, a stretch of
    p ≤ m < 2p values occurs again after exactly p values and not before, for as long as it repeats.
    """
    number: Ints = pa.array(sequence).dictionary_encode().indices.to_numpy().astype(np.int64)
    found: list[Repetition] = []
    length = 1
    while len(number):
        found += _at_length(number, length)
        if length * MIN_INSTANCES.value > 2 * len(sequence):
            break
        pair = number[:-length] * (int(number.max()) + 1) + number[length:]
        encoded = pa.array(pair).dictionary_encode()
        if len(encoded.dictionary) == len(pair):  # nothing occurs twice any more
            break
        number = encoded.indices.to_numpy().astype(np.int64)
        length *= 2
    return found


def _at_length(number: Ints, length: int) -> list[Repetition]:
    """Repetitions with a period of more than length / 2 and at most `length` values, given stretches of this length."""
    order = np.argsort(number, kind="stable")
    again = number[order[1:]] == number[order[:-1]]
    distance = np.zeros(len(number), np.int64)
    distance[order[1:][again]] = (order[1:] - order[:-1])[again]
    shortest = max(MIN_KERNELS.value, length // 2 + 1)
    distance[(distance < shortest) | (distance > length)] = 0
    edges = np.flatnonzero(np.append(True, distance[1:] != distance[:-1]))
    period = distance[edges]
    last = np.append(edges[1:], len(number)) - 1
    first = edges - period
    times = (last + length - first) // np.maximum(period, 1)
    kept = np.flatnonzero((period > 0) & (times >= MIN_INSTANCES.value))
    return [Repetition(*values) for values in zip(*(a[kept].tolist() for a in (first, period, times)), strict=True)]
