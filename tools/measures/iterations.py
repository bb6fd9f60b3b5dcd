"""Iterations: the repeating steps of a capture, and one of them as a window."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.window import Window
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..result import AbstentionError

if TYPE_CHECKING:
    from ...ingest.profile import Profile
    from .markers import Windows


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of a capture, in order.

    Attributes:
        name: the marker, the name that their ranges share; or what sequence of kernels repeats.
        source: what their boundaries come from: "nvtx" or "kernel sequence".
        windows: one for each. Of a range: the range on the host, stretched to the end of the GPU work that it launched.
            Of a sequence of kernels: from the start of its first kernel to the start of the next sequence.
        process: process id of the thread or of the stream.
        tid: thread id; None for a sequence of kernels.
        elsewhere: on how many other threads ranges of this name mark iterations.
        basis: all this in a sentence, for a note.
    """

    name: str
    source: str
    windows: Windows
    process: int
    tid: int | None
    elsewhere: int
    basis: str


_known: weakref.WeakKeyDictionary[Profile, dict[str | None, Iterations | None]] = weakref.WeakKeyDictionary()
"""What was found in open profiles, by marker: paging through iterations looks for them once."""

NOTHING_REPEATS = (
    "no NVTX range that repeats holds most of the GPU time that its thread launches, and no sequence of three or more "
    "kernels repeats three times or more on the busiest stream"
)
"""Why a capture has no iterations, in words."""

_REMEMBERED = 16
"""How many markers are remembered for a profile."""


def find_iterations(call: Call[Any], marker: str | None = None) -> Iterations | None:
    """The iterations of the whole capture, over all devices; None where nothing repeats.

    A marker is the name of a push/pop range, numbers at its end cut (`marker_names.marker_name`), with three or more
    instances on one thread that do not overlap. Of several markers it is the one with most GPU time launched inside,
    then the outermost, then the first by name; of several threads with one marker, the one with most GPU time. Unasked,
    ranges of libraries are none, and in a capture with GPU work only a marker that launches most of its thread's GPU
    time is taken (`thresholds.iterations`). Where there is no marker, a sequence of kernels that repeats
    (`kernel_sequences`).

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
    if iterations is None:
        from .kernel_sequences import repeated_sequence

        iterations = repeated_sequence(call)
    if len(found) >= _REMEMBERED:
        found.clear()
    found[marker] = iterations
    return iterations


def iterations_to_time(call: Call[Any], marker: str | None) -> Iterations:
    """The iterations of the capture, for skills that are about them.

    Raises:
        AbstentionError: there are none.
        EvidenceError: INVALID_ARGUMENT for a marker that is none.
    """
    found = find_iterations(call, marker)
    if found is None:
        raise AbstentionError(f"no iterations: {NOTHING_REPEATS}", ["iterations"], CAPTURE_HINTS["iterations"])
    return found


def iteration_window(call: Call[Any], iteration: int, marker: str | None) -> tuple[Window, list[str]]:
    """The window of one iteration, and notes on how its boundaries were found.

    Raises:
        EvidenceError: ITERATION_OUT_OF_RANGE, also where nothing repeats; INVALID_ARGUMENT for a marker that is none.
    """
    found = find_iterations(call, marker)
    if found is None:
        raise EvidenceError(
            ErrorCode.ITERATION_OUT_OF_RANGE,
            f"no iterations were found: {NOTHING_REPEATS}",
            "choose a window with trim=[start_s, end_s], or name the NVTX range that bounds a step with marker",
        )
    count = len(found.windows)
    if iteration >= count:
        raise EvidenceError(
            ErrorCode.ITERATION_OUT_OF_RANGE,
            f"iteration {iteration} does not exist: there are {count} of {found.name}",
            f"choose an iteration from 0 to {count - 1}",
            first=0,
            last=count - 1,
        )
    return found.windows[iteration], [found.basis]
