"""Iterations: the repeating steps of a capture, and one of them as a window."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.window import Window
from ..call import Call

if TYPE_CHECKING:
    from ...ingest.profile import Profile


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of a capture, in order.

    Attributes:
        name: the marker: the name that their ranges share.
        source: what their boundaries come from: "nvtx".
        windows: one for each: the range on the host, stretched to the end of the GPU work that it launched.
        process: process id of the thread that the ranges are on.
        tid: its thread id.
        elsewhere: on how many other threads ranges of this name mark iterations.
    """

    name: str
    source: str
    windows: Sequence[Window]
    process: int
    tid: int
    elsewhere: int


_known: weakref.WeakKeyDictionary[Profile, dict[str | None, Iterations | None]] = weakref.WeakKeyDictionary()
"""What was found in open profiles, by marker: paging through iterations looks for them once."""

_REMEMBERED = 16
"""How many markers are remembered for a profile."""


def find_iterations(call: Call[Any], marker: str | None = None) -> Iterations | None:
    """The iterations of the whole capture, over all devices; None where nothing repeats.

    A marker is the name of a push/pop range, numbers at its end cut (`marker_names.marker_name`), with three or more
    instances on one thread that do not overlap. Of several markers it is the one with most GPU time launched inside,
    then the outermost, then the first by name; of several threads with one marker, the one with most GPU time. In a
    capture with GPU work only a marker that launches some is taken unasked.

    Args:
        call: the call, for its profile.
        marker: this marker and no other, or a range's full name.

    Raises:
        EvidenceError: INVALID_ARGUMENT when the marker asked for does not mark iterations.
    """
    from .markers import search  # numpy, which registering skills must not load

    found = _known.setdefault(call.profile, {})
    if marker in found:
        return found[marker]
    iterations = search(call, marker)
    if len(found) >= _REMEMBERED:
        found.clear()
    found[marker] = iterations
    return iterations


def iteration_window(call: Call[Any], iteration: int, marker: str | None) -> tuple[Window, list[str]]:
    """The window of one iteration, and notes on how its boundaries were found.

    Raises:
        EvidenceError: ITERATION_OUT_OF_RANGE, also where nothing repeats; INVALID_ARGUMENT for a marker that is none.
    """
    found = find_iterations(call, marker)
    if found is None:
        raise EvidenceError(
            ErrorCode.ITERATION_OUT_OF_RANGE,
            f"no repeating NVTX range{' that launches GPU work' if call.profile.devices else ''} was found that could "
            "bound iterations; repeating kernel sequences are not looked for yet",
            "choose a window with trim=[start_s, end_s], or name the NVTX range that bounds a step with marker",
        )
    count = len(found.windows)
    if iteration >= count:
        raise EvidenceError(
            ErrorCode.ITERATION_OUT_OF_RANGE,
            f"iteration {iteration} does not exist: {found.name} marks {count} iterations",
            f"choose an iteration from 0 to {count - 1}",
            first=0,
            last=count - 1,
        )
    note = (
        f"iterations are the {count} NVTX ranges {found.name} of process {found.process}, thread {found.tid}, each "
        "stretched to the end of the GPU work that it launched"
    )
    if found.elsewhere:
        note += f"; {found.elsewhere} other threads have such ranges of this name, at times of their own"
    return found.windows[iteration], [note]
