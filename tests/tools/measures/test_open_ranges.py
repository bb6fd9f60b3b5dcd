"""The innermost open range is that of a look at every range, however many instants are looked up together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Capture, Range
from nsys_evidence.tools.call import Call
from nsys_evidence.tools.measures import open_ranges
from nsys_evidence.tools.registry import NoParams
from tests.support import workspace, written

SPANS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(1, 300), st.integers(0, 120), st.integers(0, 1)), min_size=1, max_size=14
)


def call_of(capture: Capture) -> Call[Any]:
    profile = workspace().library.open(str(written(capture)))
    return Call(NoParams(), workspace(), profile, profile.capture_window, profile.devices, 20, 0)


@pytest.mark.parametrize("rows", [1, 5, 4_000_000])
@given(spans=SPANS, instants=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 430)), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_innermost_open_range_is_found_in_groups_of_any_size(
    monkeypatch: pytest.MonkeyPatch, rows: int, spans: list[tuple[int, int, int, int]], instants: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(open_ranges, "_ROWS", rows)
    monkeypatch.setattr(open_ranges, "_BLOCK", 2)
    ranges = [
        Range(start, start + length, 42, 42 + tid, f"r{number:02}", domain=domain)
        for number, (tid, start, length, domain) in enumerate(spans)
    ]
    call = call_of(Capture(ranges=ranges))
    threads = dict(call.sql("SELECT thread, tid - 42 FROM threads"))
    texts = dict(call.sql("SELECT id, value FROM strings"))
    asked = [(thread, instant) for thread, instant in instants if thread in threads]
    found = open_ranges.innermost_open(call, asked)
    for thread, instant in asked:
        over = [
            (start, -(start + length), number)
            for number, (tid, start, length, _) in enumerate(spans)
            if tid == threads[thread] and start <= instant < start + length
        ]
        if not over:
            assert (thread, instant) not in found
            continue
        latest = max(over)[:2]  # of ranges that are alike any is right
        assert texts[found[thread, instant]] in {f"r{number:02}" for *edges, number in over if tuple(edges) == latest}
