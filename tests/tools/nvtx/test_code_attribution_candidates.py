from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, Domain, GraphLaunch, Kernel, Range, demo_capture
from nsys_evidence.ingest.synthetic.truth import length
from nsys_evidence.tools.registry import all_skills
from tests.strategies import (
    Span,
    all_work,
    call_of,
    captures,
    containing_ranges,
    device_key,
    generated,
    has_length,
    ms,
    ns,
    pct,
    shown_range,
    trims,
)
from tests.support import CAPTURES, Envelope, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import clipped
from tests.tools.slow_regions import order_of

US = 1_000
NAME = "code_attribution_candidates"

Figures = tuple[float | None, float, int, float | None]
"""score_pct, gpu_ms, kernels and overlap_pct, as shown."""


def asked(path: Any, start: int, end: int, **arguments: object) -> Envelope:
    return ask(NAME, path, start_ns=ns(start), end_ns=ns(end), **arguments)


# Against the slow and obvious method.


def slow_candidates(capture: Capture, window: Span, device: int | None = None) -> dict[str, Figures]:
    users = {device_key(capture, w) for w in all_work(capture) if device in (None, w.device)}
    work = [w for w in all_work(capture) if window.has(w) and device_key(capture, w) in users]
    mine: dict[str, list[Any]] = defaultdict(list)
    ranges: dict[str, dict[int, Range]] = defaultdict(dict)
    for one in work:
        stack = sorted(containing_ranges(capture, call_of(capture, one)), key=order_of)
        for depth in range(1, len(stack) + 1):
            path = " > ".join(shown_range(r) for r in stack[:depth])
            mine[path].append(one)
            ranges[path][id(stack[depth - 1])] = stack[depth - 1]
    whole = sum(window.part(w) for w in work)
    return {
        path: (
            pct(sum(window.part(w) for w in inside), whole),
            ms(sum(window.part(w) for w in inside)),
            sum(isinstance(w, Kernel) for w in inside),
            pct(length(clipped(ranges[path].values(), window)), window.end - window.start),
        )
        for path, inside in mine.items()
    }


def found_candidates(envelope: Envelope) -> dict[str, Figures]:
    rows = rows_of(envelope)
    figures = {row["path"]: (row["score_pct"], row["gpu_ms"], row["kernels"], row["overlap_pct"]) for row in rows}
    assert len(figures) == len(rows)
    return figures


with_ranges = captures(min_launches=4).filter(
    lambda c: has_length(c) and any(containing_ranges(c, call_of(c, w)) for w in all_work(c))
)


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_ranges)
    window = data.draw(trims(capture))
    device = data.draw(st.none() | st.sampled_from(sorted({work.device for work in all_work(capture)})))
    envelope = asked(written(capture), window.start, window.end, device=device, max_rows=200)
    expected = slow_candidates(capture, window, device)
    assert found_candidates(envelope) == expected
    assert envelope["totals"]["candidates"] == len(expected)
    scores = [row["gpu_ms"] for row in rows_of(envelope)]
    assert scores == sorted(scores, reverse=True)


@generated
@given(st.data())
def test_a_least_overlap_leaves_out_those_open_for_less_and_changes_no_other(data: st.DataObject) -> None:
    capture = data.draw(with_ranges)
    window = data.draw(trims(capture))
    path = written(capture)
    every = found_candidates(asked(path, window.start, window.end, max_rows=200))
    least = data.draw(st.integers(1, 100))
    some = found_candidates(asked(path, window.start, window.end, max_rows=200, min_overlap_pct=least))
    assert some.keys() <= every.keys()
    for name, figures in every.items():
        assert figures[3] is not None
        if abs(figures[3] - least) > 0.01:
            assert (name in some) == (figures[3] > least)
        assert name not in some or some[name] == figures


# By hand.


def kernel(start: int, end: int, correlation: int | None) -> Kernel:
    return Kernel(start * US, end * US, 0, 1, 7, correlation, 101, "scale")


def call(start: int, end: int, correlation: int) -> Call:
    return Call(start * US, end * US, 101, 101, "cudaLaunchKernel_v7000", correlation)


def named(start: int, end: int, text: str, domain: int = 0) -> Range:
    return Range(start * US, end * US, 101, 101, text, domain)


def late() -> Capture:
    """A kernel that runs long after the range that launched it was closed, while another range is open."""
    return Capture(
        [kernel(500, 600, 1), kernel(900, 910, None)],
        calls=[call(15, 20, 1)],
        ranges=[named(0, 100, "step"), named(10, 30, "forward"), named(450, 650, "other")],
    )


def test_work_is_that_of_the_range_that_launched_it_and_not_of_the_one_open_meanwhile() -> None:
    rows = rows_of(asked(written(late()), 500 * US, 600 * US))
    assert [(row["path"], row["score_pct"], row["overlap_pct"]) for row in rows] == [
        ("step > forward", 100.0, 0.0),
        ("step", 100.0, 0.0),
    ]
    assert rows[0]["why"] == "launched 1 of 1 GPU operations, 100.0 % of the GPU time directly"
    assert rows[0]["limits"] == "closed before the window: its work was queued"
    assert rows[1]["limits"] == "closed before the window: its work was queued; launched through ranges within it only"


def test_copies_sets_and_graphs_are_gpu_time_and_only_kernels_are_counted_as_such() -> None:
    copy = Copy(100 * US, 130 * US, 0, 1, 7, 2, 101, 64, 1)
    graph = GraphLaunch(140 * US, 200 * US, 0, 1, 7, 3, 101, 1)
    capture = Capture(
        [kernel(90, 100, 1)],
        [copy],
        calls=[call(5, 6, 1), call(7, 8, 2), call(9, 10, 3)],
        ranges=[named(0, 12, "step")],
        graph_launches=[graph],
    )
    envelope = asked(written(capture), 0, 300 * US)
    [row] = rows_of(envelope)
    assert (row["gpu_ms"], row["kernels"], envelope["status"]) == (0.1, 1, "partial")
    assert envelope["totals"]["operations"] == 3


def test_the_share_of_work_in_no_range_is_in_the_totals() -> None:
    envelope = asked(written(late()), 590 * US, 910 * US)
    assert envelope["totals"] == {"candidates": 2, "operations": 2, "gpu_ms": 0.02, "attributed_pct": 50.0}
    assert [row["score_pct"] for row in rows_of(envelope)] == [50.0, 50.0]


def test_ranges_open_at_once_cover_the_window_once_and_pytorchs_counters_are_cut() -> None:
    capture = Capture(
        [kernel(0, 100, 1), kernel(0, 100, 2)],
        calls=[call(5, 6, 1), Call(7 * US, 8 * US, 101, 102, "cudaLaunchKernel_v7000", 2)],
        ranges=[named(0, 60, "aten::mm, seq = 1"), Range(0, 50 * US, 101, 102, "aten::mm, seq = 2")],
    )
    [row] = rows_of(asked(written(capture), 0, 100 * US))
    assert (row["path"], row["overlap_pct"], row["limits"]) == ("aten::mm", 60.0, "2 ranges have this path")


def test_each_path_has_its_own_time_open_whatever_else_is_open_meanwhile() -> None:
    capture = Capture(
        [kernel(0, 100, 1), kernel(0, 100, 2)],
        calls=[call(5, 6, 1), Call(7 * US, 8 * US, 101, 102, "cudaLaunchKernel_v7000", 2)],
        ranges=[named(0, 60, "first"), Range(0, 50 * US, 101, 102, "second")],
    )
    rows = rows_of(asked(written(capture), 0, 100 * US))
    assert {row["path"]: row["overlap_pct"] for row in rows} == {"first": 60.0, "second": 50.0}


def test_where_ranges_of_two_domains_cross_a_range_counts_once_for_a_path() -> None:
    capture = Capture(
        [kernel(100, 110, 1), kernel(110, 120, 2)],
        calls=[call(5, 6, 1), call(25, 30, 2)],
        ranges=[named(0, 40, "a"), named(20, 60, "b", domain=1)],
        domains=[Domain(101, 1, "Lib")],
    )
    rows = rows_of(asked(written(capture), 100 * US, 120 * US))
    assert [(row["path"], row["score_pct"]) for row in rows] == [("a", 100.0), ("a > Lib:b", 50.0)]
    assert all("have this path" not in (row["limits"] or "") for row in rows)


def test_the_window_is_the_one_asked_for_and_says_so() -> None:
    envelope = asked(written(late()), 510 * US, 560 * US)
    scope = envelope["scope"]
    assert (scope["start_s"], scope["end_s"], scope["by"]) == (0.00051, 0.00056, "start_ns and end_ns")
    assert envelope["totals"]["gpu_ms"] == 0.05


def test_instants_beyond_a_doubles_precision_are_exact_as_text() -> None:
    origin = 2**60 + 1
    capture = Capture(
        [Kernel(origin, origin + 100, 0, 1, 7, 1, 101, "scale")],
        calls=[Call(origin - 50, origin - 40, 101, 101, "cudaLaunchKernel_v7000", 1)],
        ranges=[Range(origin - 60, origin - 30, 101, 101, "step")],
    )
    path = written(capture)
    for start, end in ((str(origin), str(origin + 1)), (origin, origin + 1)):
        envelope = ask(NAME, path, start_ns=start, end_ns=end)
        assert envelope["scope"]["span_ms"] == 0.0
        assert envelope["totals"]["operations"] == 1
    assert ask(NAME, path, start_ns=str(origin - 20), end_ns=str(origin))["totals"]["operations"] == 0
    same = [ask(NAME, path, start_ns=start, end_ns=str(origin + 1))["evidence"] for start in (str(origin), origin)]
    assert same[0] == same[1]


@pytest.mark.parametrize(("start", "end"), [(5, 5), (9, 5), (911 * US, 950 * US), (-9, 0)])
def test_a_window_that_selects_nothing_of_the_capture_is_an_error_that_names_both_windows(start: int, end: int) -> None:
    with pytest.raises(EvidenceError) as caught:
        asked(written(late()), start, end)
    assert caught.value.code is ErrorCode.TRIM_OUT_OF_RANGE
    assert "capture window is [0.0, 0.00091] s, the GPU window [0.0005, 0.00091] s" in caught.value.message


def test_a_window_that_reaches_over_the_edge_of_the_capture_is_clipped_and_that_is_said() -> None:
    envelope = asked(written(late()), 550 * US, 10**12)
    assert envelope["scope"]["end_s"] == 0.00091
    assert any("was clipped to the capture window" in note for note in envelope["notes"])


def test_with_trim_the_window_is_what_both_select() -> None:
    path = written(late())
    envelope = asked(path, 510 * US, 10**12, trim=["0.0005", "0.00056"])
    assert (envelope["scope"]["start_s"], envelope["scope"]["end_s"]) == (0.00051, 0.00056)
    with pytest.raises(EvidenceError) as caught:
        asked(path, 510 * US, 520 * US, trim=["0.0007", "0.0008"])
    assert caught.value.code is ErrorCode.TRIM_OUT_OF_RANGE


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"start_ns": 0},
        {"start_ns": 0, "end_ns": "soon"},
        {"start_ns": 0, "end_ns": 1.5},
        {"start_ns": 0, "end_ns": 9, "min_overlap_pct": 101},
    ],
)
def test_instants_are_required_whole_numbers(arguments: dict[str, object]) -> None:
    with pytest.raises(EvidenceError) as caught:
        ask(NAME, written(late()), **arguments)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_a_window_without_gpu_work_is_empty_and_leads_on() -> None:
    envelope = asked(written(late()), 700 * US, 800 * US)
    assert (envelope["status"], envelope["totals"]["attributed_pct"]) == ("empty", None)
    assert any("no GPU work in the window" in note for note in envelope["notes"])


@pytest.mark.parametrize("missing", ["work", "calls", "nvtx"])
def test_it_abstains_when_gpu_work_calls_or_ranges_were_not_recorded(missing: str) -> None:
    spans = [Range(0, 9 * US, 101, 101, "step", style="startend")]
    capture = Capture(
        [] if missing == "work" else [kernel(10, 20, 1)],
        calls=[] if missing == "calls" else [call(5, 6, 1)],
        ranges=spans if missing == "nvtx" else [named(0, 9, "step")],
    )
    envelope = asked(written(capture), 0, 9 * US)
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels" if missing == "work" else missing])
    assert envelope["capture_hint"].startswith("nsys profile")
    assert ("start/end ranges" in envelope["reason"]) == (missing == "nvtx")


def test_an_absent_device_is_an_error() -> None:
    with pytest.raises(EvidenceError) as caught:
        asked(written(late()), 0, 900 * US, device=4)
    assert caught.value.code is ErrorCode.DEVICE_NOT_FOUND


# Known results.


def test_its_example_answers_on_the_demo() -> None:
    envelope = ask(NAME, written(demo_capture()[0]), **all_skills()[NAME].example)
    assert envelope["status"] == "ok"
    # Rank 1 stalls in step 5, and rank 0 waits for it inside a collective: the step with most GPU time.
    assert rows_of(envelope)[0]["path"] == "iteration 5"


@needs_shared
def test_a_window_of_a_real_capture_has_the_figures_of_an_independent_query() -> None:
    # Checked by hand with sqlite3: kernels, copies and sets that overlap the window, joined to the runtime rows of
    # their process and correlationId, and these to the NVTX rows of their globalTid that contain them: 277 pieces of
    # work, 18,318,017 ns of it in the window, all in some range; 8,081,946 ns by 4 kernels of 4 ranges FlashAttnFunc,
    # all of them outermost, two of which, of two threads, were open in the window: from 60,205,494,417 to
    # 60,205,846,060 ns.
    [path] = [path for path in CAPTURES if path.stem == "h100x2_nccl_2026.2"]
    envelope = asked(path, 60_200_000_000, 60_210_000_000, max_rows=200)
    assert envelope["totals"] == {"candidates": 35, "operations": 277, "gpu_ms": 18.318, "attributed_pct": 100.0}
    assert found_candidates(envelope)["FlashAttnFunc"] == (44.12, 8.082, 4, 3.52)
    [row] = [row for row in rows_of(envelope) if row["path"] == "FlashAttnFunc"]
    assert "4 ranges have this path" in row["limits"]
