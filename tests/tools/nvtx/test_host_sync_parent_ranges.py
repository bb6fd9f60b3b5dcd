from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, Domain, Kernel, Range, demo_capture
from nsys_evidence.tools.measures.sync_owners import matcher
from nsys_evidence.tools.registry import all_skills
from tests.oracle import exact, exact_rows
from tests.strategies import Span, captures, ends, generated, has_length, shown_range, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import capture_span

US = 1_000
NO_RANGE = "(no range)"
PATTERNS = "forward,mm,cudaDeviceSynchronize,cudaLaunchKernel"


# Names.


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("item", "item", True),
        ("item", "aten::item", True),
        ("item", "Lib:item", True),
        ("item", "Tensor.item()", True),
        ("item", "read item now", True),
        ("item", "itemsize", False),
        ("item", "aten::itemsize", False),
        ("item", "get_item", False),
        ("item", "item::other", False),
        ("item", "Item", False),
        ("_local_scalar_dense", "aten::_local_scalar_dense", True),
        ("_local_scalar_dense", "aten_local_scalar_dense", False),
        ("aten::item", "aten::item", True),
        ("aten::item", "other::item", False),
        ("aten::item", "aten::item::other", False),
        ("a.b", "axb", False),
        ("item", "first\nitem", True),
    ],
)
def test_a_pattern_is_a_whole_word_of_the_last_part_of_a_name(pattern: str, name: str, matches: bool) -> None:
    assert bool(matcher([pattern]).search(name)) is matches


@pytest.mark.parametrize("api", ["cudaStreamSynchronize_v3020", "cudaStreamSynchronize_ptsz_v7000"])
def test_versions_and_variants_of_an_api_call_match_its_name(api: str) -> None:
    capture = Capture(calls=[Call(10 * US, 20 * US, 101, 101, api)], ranges=[span(0, 50, "step")])
    [row] = rows_of(ask("host_sync_parent_ranges", written(capture)))
    assert (row["range"], row["syncs"], row["sync_ms"]) == ("step", 1, 0.01)


# Against the slow and obvious method.


Event = Range | Call


def order_of(event: Event) -> tuple[Any, ...]:
    start, end = ends(event)
    if isinstance(event, Range):
        return (start, -end, 0, event.domain, shown_range(event).encode())
    return (start, -end, 1, 0, event.name.encode())


def around(events: Sequence[Event], inner: Event) -> list[Event]:
    """The events of the thread, in nesting order, that contain one of them."""
    mine = sorted((e for e in events if (e.pid, e.tid) == (inner.pid, inner.tid)), key=order_of)
    place = next(number for number, event in enumerate(mine) if event is inner)
    return [event for event in mine[:place] if ends(event)[1] >= ends(inner)[1]]


def slow_owners(
    capture: Capture, window: Span, mine: Callable[[Event], bool] = lambda event: True
) -> dict[str, tuple[int, int, set[str]]]:
    """By range: syncs, their time, and the names that may be the one with most of it."""
    texts = ("cudaLaunchKernel", "cudaDeviceSynchronize")
    matches: list[Event] = [r for r in capture.ranges if shown_range(r).split(":")[-1] in ("forward", "mm")]
    matches += [call for call in capture.calls if call.name.startswith(texts)]
    times: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    counts: dict[str, int] = defaultdict(int)
    for match in matches:
        if not window.has(match) or not mine(match) or around(matches, match):
            continue
        stack = around([*capture.ranges, match] if isinstance(match, Call) else capture.ranges, match)
        owner = shown_range(stack[-1]) if stack else NO_RANGE  # type: ignore[arg-type]
        name = shown_range(match) if isinstance(match, Range) else match.name.split("_v")[0]
        times[owner][name] += window.part(match)
        counts[owner] += 1
    return {
        owner: (counts[owner], sum(of.values()), {name for name in of if of[name] == max(of.values())})
        for owner, of in times.items()
    }


with_ranges = captures(min_launches=4).filter(lambda c: bool(c.ranges and c.calls))


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_ranges)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else capture_span(capture)
    result = exact("host_sync_parent_ranges", written(capture), as_window(window), patterns=PATTERNS)
    expected = slow_owners(capture, window)
    assert {row[0]: row[1:3] for row in result.rows} == {name: row[:2] for name, row in expected.items()}
    for row in result.rows:
        assert row[3] in expected[str(row[0])][2]
    assert result.totals["syncs"] == sum(row[0] for row in expected.values())
    assert result.totals["sync_ms"] == sum(row[1] for row in expected.values())
    times = [row[2] for row in result.rows]
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]


@generated
@given(st.data())
def test_with_a_device_only_threads_of_processes_that_use_it_count(data: st.DataObject) -> None:
    capture = data.draw(with_ranges.filter(lambda c: bool(c.kernels)))
    device = data.draw(st.sampled_from(sorted({kernel.device for kernel in capture.kernels})))
    pids = {w.pid for w in (*capture.kernels, *capture.copies, *capture.sets) if w.device == device}
    envelope = ask("host_sync_parent_ranges", written(capture), device=device, patterns=PATTERNS, max_rows=200)
    expected = slow_owners(capture, capture_span(capture), lambda event: event.pid in pids)
    assert {row["range"]: row["syncs"] for row in rows_of(envelope)} == {name: row[0] for name, row in expected.items()}


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_ranges.filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    parts = [exact_rows("host_sync_parent_ranges", path, as_window(window), patterns=PATTERNS) for window in windows]
    times = [{row["range"]: row["sync_ms"] for row in part} for part in parts]
    for name in times[0].keys() | times[1].keys() | times[2].keys():
        assert times[0].get(name, 0) == times[1].get(name, 0) + times[2].get(name, 0)


# By hand.


def span(start: int, end: int, text: str, domain: int = 0, tid: int = 101) -> Range:
    return Range(start * US, end * US, 101, tid, text, domain)


def wait(start: int, end: int, name: str = "cudaStreamSynchronize_v3020", tid: int = 101) -> Call:
    return Call(start * US, end * US, 101, tid, name)


def owners(capture: Capture, **arguments: object) -> list[tuple[object, ...]]:
    return [tuple(row) for row in ask("host_sync_parent_ranges", written(capture), **arguments)["rows"]]


def test_item_and_what_it_calls_are_one_synchronisation_of_the_range_around_it() -> None:
    ranges = [span(0, 100, "step"), span(10, 60, "aten::item, seq = 4"), span(20, 50, "aten::_local_scalar_dense")]
    assert owners(Capture(ranges=ranges, calls=[wait(30, 40)])) == [("step", 1, 0.05, "aten::item")]


def test_a_match_that_begins_and_ends_with_the_one_around_it_is_not_counted_again() -> None:
    ranges = [span(0, 100, "step"), span(10, 60, "aten::item"), span(10, 60, "aten::_local_scalar_dense")]
    [row] = owners(Capture(ranges=ranges, calls=[wait(10, 60)]))
    assert row[:3] == ("step", 1, 0.05)


def test_a_wait_is_that_of_the_nearest_range_and_of_no_other_thread() -> None:
    ranges = [span(0, 100, "step"), span(10, 60, "aten::copy_, op_id = 3"), span(0, 100, "loader", tid=102)]
    calls = [wait(20, 30), wait(70, 75), wait(10, 20, tid=103)]
    assert owners(Capture(ranges=ranges, calls=calls)) == [
        ("aten::copy_", 1, 0.01, "cudaStreamSynchronize"),
        (NO_RANGE, 1, 0.01, "cudaStreamSynchronize"),
        ("step", 1, 0.005, "cudaStreamSynchronize"),
    ]


def test_a_call_that_outlives_a_range_is_not_in_it() -> None:
    capture = Capture(ranges=[span(0, 100, "step"), span(10, 40, "short")], calls=[wait(30, 50)])
    assert owners(capture) == [("step", 1, 0.02, "cudaStreamSynchronize")]


def test_the_nearest_range_may_be_of_another_domain() -> None:
    capture = Capture(
        ranges=[span(0, 100, "step"), span(10, 60, "init", domain=3)],
        calls=[wait(20, 30)],
        domains=[Domain(101, 3, "NCCL")],
    )
    assert owners(capture) == [("NCCL:init", 1, 0.01, "cudaStreamSynchronize")]


def test_the_top_child_is_the_match_with_most_time_and_not_the_most_frequent() -> None:
    calls = [wait(10, 12), wait(14, 16), wait(20, 40, "cudaDeviceSynchronize_v3020")]
    assert owners(Capture(ranges=[span(0, 100, "step")], calls=calls)) == [("step", 3, 0.024, "cudaDeviceSynchronize")]


def test_a_driver_call_within_a_runtime_call_counts_once() -> None:
    driver = Call(21 * US, 29 * US, 101, 101, "cuStreamSynchronize", driver=True)
    capture = Capture(ranges=[span(0, 100, "step")], calls=[wait(20, 30), driver])
    both = "cudaStreamSynchronize, cuStreamSynchronize"
    assert owners(capture, patterns=both) == [("step", 1, 0.01, "cudaStreamSynchronize")]
    assert owners(capture, patterns="cuStreamSynchronize") == [("step", 1, 0.008, "cuStreamSynchronize")]


def test_a_window_into_an_item_still_counts_it_once_and_not_what_is_inside() -> None:
    ranges = [span(0, 100, "step"), span(10, 60, "aten::item"), span(20, 50, "aten::_local_scalar_dense")]
    envelope = ask("host_sync_parent_ranges", written(Capture(ranges=ranges)), trim=["0.00003", "0.00004"])
    assert (envelope["rows"], envelope["totals"]["clipped"]) == ([["step", 1, 0.01, "aten::item"]], 1)


@pytest.mark.parametrize("patterns", ["", " , ,"])
def test_no_pattern_is_an_invalid_argument(patterns: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        ask("host_sync_parent_ranges", written(Capture(ranges=[span(0, 1, "step")])), patterns=patterns)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


def test_nothing_that_matches_is_empty_and_without_recorded_calls_partial() -> None:
    capture = Capture(ranges=[span(0, 100, "itemsize")], calls=[wait(10, 20, "cudaMalloc")])
    assert ask("host_sync_parent_ranges", written(capture))["status"] == "empty"
    envelope = ask("host_sync_parent_ranges", written(Capture(ranges=[span(0, 10, "aten::item")])))
    assert (envelope["status"], envelope["rows"]) == ("partial", [[NO_RANGE, 1, 0.01, "aten::item"]])
    assert any("API calls were not recorded" in note for note in envelope["notes"])


@pytest.mark.parametrize("style", ["startend", None])
def test_without_push_pop_ranges_it_abstains_and_names_what_there_is(style: str | None) -> None:
    ranges = [Range(0, 50 * US, 101, 101, "aten::item", style="startend")] if style else []
    envelope = ask("host_sync_parent_ranges", written(Capture(calls=[wait(10, 20)], ranges=ranges)))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["nvtx"])
    assert ("start/end ranges" in envelope["reason"]) == bool(style)
    assert "nvtx" in envelope["capture_hint"]


def test_an_absent_device_is_an_error() -> None:
    capture = Capture([Kernel(0, 10, 0, 1, 7, None, 101, "k")], ranges=[span(0, 1, "step")])
    with pytest.raises(EvidenceError) as caught:
        ask("host_sync_parent_ranges", written(capture), device=3)
    assert caught.value.code is ErrorCode.DEVICE_NOT_FOUND


# Known results.


def test_the_late_read_of_the_demo_is_found_in_its_steps() -> None:
    envelope = ask("host_sync_parent_ranges", written(demo_capture()[0]), max_rows=200)
    assert {row["range"]: (row["syncs"], row["top_child"]) for row in rows_of(envelope)} == {
        f"iteration {number}": (2, "aten::item") for number in range(8)
    }
    assert all_skills()["host_sync_parent_ranges"].max_rows == 5


@needs_shared
@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        ("h100x2_nccl_2026.2", {"aten::copy_": (33, 324_534_733, "cudaStreamSynchronize")}),
        (
            "h100x2_fsdp_2026.2",
            {
                "aten::is_nonzero": (2, 857_070_937, "aten::item"),
                NO_RANGE: (2, 90_952, "aten::item"),
                "aten::copy_": (4, 25_491, "cudaStreamSynchronize"),
            },
        ),
    ],
)
def test_owners_in_real_captures_are_those_of_an_independent_query(capture: str, expected: dict[str, Any]) -> None:
    # Checked by hand: NVTX rows of type 59 and runtime rows read with sqlite3, each match compared with every other one
    # of its globalTid, and the containing range with the latest start, earliest end taken for its owner.
    [path] = [path for path in CAPTURES if path.stem == capture]
    rows = exact_rows("host_sync_parent_ranges", path)
    assert {row["range"]: (row["syncs"], row["sync_ms"], row["top_child"]) for row in rows} == expected
