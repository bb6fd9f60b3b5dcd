"""Iterations of generated captures by the slow and obvious method, and captures with steps."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Capture, Range
from nsys_evidence.tools.measures.marker_names import marker_name
from tests.strategies import all_work, call_of, captures, containing_ranges, duration, ends, shown_range


def slow_choice(capture: Capture) -> tuple[str, int, int, list[tuple[int, int]]] | None:
    """Marker, process, thread and windows, straight from the definition."""
    by_key: dict[tuple[str, int, int], list[Range]] = defaultdict(list)
    for r in capture.ranges:
        by_key[marker_name(shown_range(r)), r.pid, r.tid].append(r)
    found = []
    for (name, pid, tid), ranges in by_key.items():
        windows = sorted((ends(r) for r in ranges), key=lambda w: (w[0], w[1]))
        if len(ranges) < 3 or any(later[0] < earlier[1] for earlier, later in pairwise(windows)):
            continue
        if library(name):
            continue
        time, depths = 0, []
        for work in all_work(capture):
            stack = containing_ranges(capture, call_of(capture, work))
            inside = [r for r in stack if any(r is mine for mine in ranges)]
            time += duration(work) * len(inside)
            for r in inside:
                order = sorted(stack, key=lambda o: (ends(o)[0], -ends(o)[1], o.domain, shown_range(o).encode()))
                depths.append(next(depth for depth, o in enumerate(order) if o is r))
        if 10 * time >= 6 * launched_between(capture, pid, tid, windows):
            found.append((-time, min(depths, default=0), name, pid, tid, windows))
    with_work = [candidate for candidate in found if candidate[0]]
    if not with_work:
        return None
    _, _, name, pid, tid, windows = min(with_work, key=lambda candidate: candidate[:5])
    return name, pid, tid, [_stretched(capture, pid, tid, windows, n) for n in range(len(windows))]


def library(name: str) -> bool:
    return "::" in name or name.startswith("NCCL:")


def launched_between(capture: Capture, pid: int, tid: int, windows: list[tuple[int, int]]) -> int:
    """The GPU time that the thread launches from the first range to the last."""
    calls = [(work, call_of(capture, work)) for work in all_work(capture)]
    return sum(
        duration(work)
        for work, launch in calls
        if launch is not None
        and (launch.pid, launch.tid) == (pid, tid)
        and windows[0][0] <= ends(launch)[0] < windows[-1][1]
    )


def _stretched(capture: Capture, pid: int, tid: int, windows: list[tuple[int, int]], n: int) -> tuple[int, int]:
    """The window, to the end of the work launched in it; a call at the edge of two belongs to the later."""
    last = windows[n][1]
    for work in all_work(capture):
        launch = call_of(capture, work)
        if launch is None or (launch.pid, launch.tid) != (pid, tid):
            continue
        begun = [i for i, (start, _) in enumerate(windows) if start <= ends(launch)[0]]
        if begun and begun[-1] == n and ends(launch)[1] <= windows[n][1]:
            last = max(last, ends(work)[1])
    return windows[n][0], last


@st.composite
def with_steps(draw: st.DrawFn) -> Capture:
    """A generated capture with one range after another on some threads, of any names and lengths."""
    capture = draw(captures(min_launches=4))
    known = [ends(event) for event in (*capture.calls, *all_work(capture))]
    first, last = min(start for start, _ in known), max(end for _, end in known)
    for pid, tid in sorted({(call.pid, call.tid) for call in capture.calls}):
        count = draw(st.sampled_from((0, 3, 4)))
        edges = sorted(draw(st.lists(st.integers(first, last), min_size=2 * count, max_size=2 * count)))
        name = draw(st.sampled_from(("iteration {}", "phase", "Lib{}", "step {}")))
        for n, (start, end) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
            capture.ranges.append(Range(start, end, pid, tid, name.format(n)))
    return capture
