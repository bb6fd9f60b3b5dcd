"""Summaries of host events by name, by the slow and obvious method, and captures with every kind of host event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import stdev

import pytest
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Capture, OsrtCall, Range
from nsys_evidence.tools.run import Envelope
from tests import strategies as plain
from tests.strategies import RANGE_NAMES, Span, Timed, all_work, capture_window, captures
from tests.support import rows_of

Name = tuple[str, ...]
"""What a row is called: the first columns of the result."""

FUNCTIONS = ("poll", "read", "sem_wait")


@st.composite
def host_captures(draw: st.DrawFn) -> Capture:
    """A generated capture with OS runtime calls, and start/end ranges that cross others and end on other threads."""
    capture = draw(captures())
    first, last = capture_window(capture)
    instant = st.integers(first, last)
    for _ in range(draw(st.integers(0, 6))):
        start, end = sorted((draw(instant), draw(instant)))
        pid = draw(st.sampled_from([process.pid for process in capture.processes]))
        capture.osrt_calls.append(OsrtCall(start, end, pid, pid, draw(st.sampled_from(FUNCTIONS))))
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted((draw(instant), draw(instant)))
        pid = draw(st.sampled_from([process.pid for process in capture.processes]))
        name = draw(st.sampled_from(RANGE_NAMES))
        capture.ranges.append(Range(start, end, pid, pid, name, style="startend", end_tid=pid + 1))
    return capture


def capture_span(capture: Capture) -> Span:
    """The capture window: the default of skills about the host."""
    return Span(*capture_window(capture), includes_end=True)


def users_of(capture: Capture, device: int) -> set[int]:
    """The processes that put any work on the device."""
    return {work.pid for work in all_work(capture) if work.device == device}


def by_name(events: Sequence[tuple[Name, Timed]], span: Span) -> dict[Name, list[Timed]]:
    """The events in the window by name."""
    groups: dict[Name, list[Timed]] = defaultdict(list)
    for name, event in events:
        if span.has(event):
            groups[name].append(event)
    return groups


def check(envelope: Envelope, groups: Mapping[Name, Sequence[Timed]], span: Span, names: str, count: str) -> None:
    """The result is that of these groups. `names` and `count` are keys of the totals; `count` is a column too."""
    totals = {name: sum(map(span.part, group)) for name, group in groups.items()}
    rows = rows_of(envelope)
    columns = len(envelope["columns"]) - 7
    shown = [tuple(row[:columns]) for row in envelope["rows"]]
    assert shown == sorted(groups, key=lambda name: (-totals[name], *(part.encode() for part in name)))
    for name, row in zip(shown, rows, strict=True):
        durations = [plain.duration(event) for event in groups[name]]
        assert row[count] == len(durations)
        assert row["total_ms"] == plain.ms(totals[name])
        assert row["avg_us"] == plain.us(plain.mean(durations))
        assert row["med_us"] == plain.us(plain.middle(durations))
        assert (row["min_us"], row["max_us"]) == (plain.us(min(durations)), plain.us(max(durations)))
        if len(durations) == 1:
            assert row["stddev_us"] is None
        else:
            assert row["stddev_us"] == pytest.approx(stdev(durations) / 1000, rel=1e-9, abs=0.00051)
    assert envelope["totals"] == {
        names: len(groups),
        count: sum(len(group) for group in groups.values()),
        "total_ms": plain.ms(sum(totals.values())),
        "clipped": sum(span.cuts(event) for group in groups.values() for event in group),
    }
    assert envelope["status"] == ("ok" if groups else "empty")
