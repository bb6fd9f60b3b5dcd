"""Host calls of some names, and the idle time of devices during them, by the slow and obvious method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, capture_window
from nsys_evidence.ingest.synthetic.truth import intersection, length
from tests.strategies import PIDS, Span, all_work, device_key, duration, ends
from tests.tools.slow_busy import clipped, graph_key, with_graphs


@dataclass(frozen=True, slots=True)
class Event:
    """A call or a range of a process."""

    pid: int
    start: int
    end: int


@st.composite
def with_calls(draw: st.DrawFn, names: Sequence[str]) -> Capture:
    """A generated capture with such calls, also of a process that uses no device; some lie within others."""
    capture = draw(with_graphs())
    first, last = capture_window(capture)
    step = max(1, (last - first) // 40)
    for _ in range(draw(st.integers(1, 14))):
        pid, name = draw(st.sampled_from((*PIDS, 301))), draw(st.sampled_from(names))
        start = first + step * draw(st.integers(-2, 40))
        end = start + step * draw(st.integers(0, 12))
        tid = pid + draw(st.integers(0, 1))
        capture.calls.append(Call(start, end, pid, tid, name))
        if draw(st.booleans()):
            capture.calls.append(Call(start, (start + end) // 2, pid, tid, draw(st.sampled_from(names)), driver=True))
    return capture


def events_of(calls: Sequence[Call]) -> list[Event]:
    """The calls as events."""
    return [Event(call.pid, *ends(call)) for call in calls]


def figures(capture: Capture, events: Sequence[Event], span: Span) -> dict[str, object]:
    """What a row, or all rows together, say of those of the events that are in the window, ns."""
    inside = [event for event in events if span.has(event)]
    of_processes = {event.pid: [other for other in inside if other.pid == event.pid] for event in inside}
    return {
        "count": len(inside),
        "total_ms": sum(map(span.part, inside)),
        "max_ms": max(map(duration, inside), default=None),
        "busy_ms": sum(length(clipped(mine, span)) for mine in of_processes.values()),
        "idle_ms": idle_during(capture, inside, span),
        "clipped": sum(map(span.cuts, inside)),
    }


def idle_during(capture: Capture, events: Sequence[Event], span: Span) -> int | None:
    """For how long devices idle during the events of processes that use them, summed over devices."""
    work = [(device_key(capture, w), w) for w in all_work(capture)]
    work += [(graph_key(capture, g), g) for g in capture.graph_launches]  # type: ignore[misc]
    found = []
    for device in {key for key, _ in work}:
        users = {w.pid for key, w in work if key == device}
        busy = clipped((w for key, w in work if key == device), span)
        mine = [event for event in events if event.pid in users]
        if mine or not events:
            during = clipped(mine, span)
            found.append(length(during) - length(intersection(during, busy)))
    return sum(found) if found else None
