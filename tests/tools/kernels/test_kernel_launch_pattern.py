from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel
from nsys_evidence.ingest.synthetic.truth import length, union
from nsys_evidence.tools.measures.durations import percentile
from tests.oracle import exact, exact_rows
from tests.strategies import Span, call_of, device_key, generated, has_length, stream_label, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, clipped, halves, with_graphs, work_span

US, MS = 1_000, 1_000_000


def kernel(start: int, end: int, stream: int = 7, correlation: int | None = None, device: int = 0) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, correlation, 101, "scale")


def only_row(capture: Capture, **arguments: object) -> dict[str, Any]:
    [row] = rows_of(ask("kernel_launch_pattern", written(capture), **arguments))  # type: ignore[arg-type]
    return row


# Against the slow and obvious method.


def slow_rows(capture: Capture, window: Span) -> list[dict[str, Any]]:
    """Every stream with kernels in the window; `sync_stalls` is the set of numbers that ties between threads allow."""
    streams: dict[tuple[object, ...], list[Kernel]] = {}
    for one in filter(window.has, capture.kernels):
        device = device_key(capture, one)
        key = (device[0], device[1] or 0, one.pid, one.context, one.stream)
        streams.setdefault(key, []).append(one)
    found = []
    for (_, _, pid, context, stream), kernels in streams.items():
        where = (kernels[0].device, pid, context, stream)
        graphs = [g for g in capture.graph_launches if (g.device, g.pid, g.context, g.stream) == where]
        running = clipped((*kernels, *graphs), window)
        busy = union(running)
        gaps = [(end, start) for (_, end), (start, _) in pairwise(busy)]
        lengths = sorted(end - start for start, end in gaps)
        extent = busy[-1][1] - busy[0][0] if busy else 0
        bursts = [size for size in slow_bursts(kernels, running, window) if size > 1]
        device_id, process = device_key(capture, kernels[0])
        found.append(
            {
                "device": device_id,
                "process": process,
                "stream": stream_label(capture, kernels[0]),
                "kernels": len(kernels),
                "extent_ms": extent,
                "busy_ms": length(busy),
                "busy_pct": Fraction(length(busy), extent) if extent else None,
                "kernels_per_ms": Fraction(len(kernels) * MS, extent) if extent else None,
                "gap_avg_us": Fraction(sum(lengths), len(lengths)) if lengths else None,
                "gap_p99_us": slow_p99(lengths),
                "gap_max_us": max(lengths, default=None),
                "bursts": len(bursts),
                "kernels_per_burst": Fraction(sum(bursts), len(bursts)) if bursts else None,
                "sync_stalls": slow_stalls(capture, kernels, graphs, gaps),
            }
        )
    return found


def slow_bursts(kernels: list[Kernel], running: list[tuple[int, int]], window: Span) -> list[int]:
    """Sizes of the runs of kernels between gaps of 10 µs and more."""
    starts = sorted(start for start, _ in clipped(kernels, window))
    sizes, reach = [0], None
    for start, end in sorted(running):
        if reach is not None and start - reach >= 10 * US:
            sizes.append(0)
        if start in starts:
            starts.remove(start)
            sizes[-1] += 1
        reach = max(end, reach or end)
    return sizes


def slow_p99(ascending: list[int]) -> Fraction | None:
    if not ascending:
        return None
    place = Fraction(99, 100) * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def slow_stalls(
    capture: Capture, kernels: list[Kernel], graphs: list[GraphLaunch], gaps: list[tuple[int, int]]
) -> set[int] | None:
    if not capture.calls:
        return None
    least = most = 0
    for start, end in gaps:
        if end - start < MS:
            continue
        verdicts = set()
        for one in [*kernels, *graphs]:
            if one.start == end < (one.end or 0):
                call = call_of(capture, one) if isinstance(one, Kernel) else None
                waits = [w for w in capture.calls if call and (w.pid, w.tid) == (call.pid, call.tid)]
                waits = [w for w in waits if "Synchronize" in w.name]
                verdicts.add(2 * length(clipped(waits, Span(start, end))) >= end - start)
        least += all(verdicts)
        most += any(verdicts)
    return set(range(least, most + 1))


@generated
@given(st.data())
def test_every_figure_of_every_stream_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    rows = exact_rows("kernel_launch_pattern", path, as_window(window))
    truth = slow_rows(capture, window)
    name = ("device", "process", "stream")
    expected = {tuple(row[key] for key in name): row for row in truth}
    assert [row["kernels"] for row in rows] == sorted((row["kernels"] for row in truth), reverse=True)
    assert {tuple(row[key] for key in name) for row in rows} == expected.keys()
    for row in rows:
        of = expected[tuple(row[key] for key in name)]
        stalls, possible = row.pop("sync_stalls"), of.pop("sync_stalls")
        assert row == of
        assert stalls is None if possible is None else stalls in possible
    totals = exact("kernel_launch_pattern", path, as_window(window)).totals
    assert totals["streams"] == len(truth)
    assert totals["kernels"] == sum(row["kernels"] for row in truth)
    assert totals["bursts"] == sum(row["bursts"] for row in truth)
    assert totals["clipped"] == sum(map(window.cuts, capture.kernels))


@generated
@given(st.data())
def test_busy_time_over_a_partition_of_the_window_adds_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels) and not found.graph_launches))
    whole = data.draw(trims(capture)) if has_length(capture) else work_span(capture)
    path, parts = written(capture), halves(whole, data.draw(st.integers(whole.start, whole.end)))
    busy = [
        sum(row["busy_ms"] for row in exact_rows("kernel_launch_pattern", path, as_window(window)))
        for window in (whole, *parts)
    ]
    assert busy[0] == busy[1] + busy[2]


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_streams_of_a_real_capture_are_busy_no_less_than_their_device_and_no_longer_than_their_kernels(
    capture: Path,
) -> None:
    if ask("kernel_launch_pattern", capture)["status"] == "abstained":
        return
    rows = exact_rows("kernel_launch_pattern", capture)
    for device in exact_rows("stream_concurrency", capture):
        mine = [row for row in rows if (row["device"], row["process"]) == (device["device"], device["process"])]
        time_of = {depth: device[f"kernels_{depth}_ms"] for depth in (1, 2, "3plus")}
        device_busy = sum(time_of.values())
        assert max(row["busy_ms"] for row in mine) <= device_busy <= sum(row["busy_ms"] for row in mine)
    top = exact("top_kernels", capture).totals
    assert sum(row["kernels"] for row in rows) == top["instances"]
    assert sum(row["busy_ms"] for row in rows) <= top["total_ms"]  # type: ignore[operator]
    for row in rows:
        gaps = row["extent_ms"] - row["busy_ms"]
        assert (gaps == 0) == (row["gap_max_us"] is None)


# Gaps.


def test_a_gap_runs_from_the_maximum_end_so_far() -> None:
    row = only_row(Capture([kernel(0, 50), kernel(10, 20), kernel(60, 70)]))
    assert (row["gap_avg_us"], row["gap_p99_us"], row["gap_max_us"]) == (10.0, 10.0, 10.0)
    assert (row["extent_ms"], row["busy_ms"], row["busy_pct"]) == (0.07, 0.06, 85.71)


def test_back_to_back_kernels_have_no_gap() -> None:
    row = only_row(Capture([kernel(0, 10), kernel(10, 20)]))
    assert (row["gap_avg_us"], row["gap_p99_us"], row["gap_max_us"], row["busy_pct"]) == (None, None, None, 100.0)


def test_the_99th_percentile_of_gaps_interpolates_linearly() -> None:
    assert percentile([], 99) is None
    assert percentile([7], 99) == 7
    assert percentile([0, 100], 99) == 99
    assert percentile(list(range(101)), 99) == 99
    assert percentile([1, 2, 4], 99) == Fraction(396, 100)


def test_a_copy_between_kernels_is_part_of_a_gap_and_the_result_says_so() -> None:
    capture = Capture([kernel(0, 10), kernel(60, 70)], [Copy(10 * US, 60 * US, 0, 1, 7, None, 101, 4096, 1)])
    envelope = ask("kernel_launch_pattern", written(capture))
    assert rows_of(envelope)[0]["gap_max_us"] == 50.0
    assert "copies or sets ran in gaps between kernels on 1 of 1 streams" in envelope["notes"]
    beside = replace(capture.copies[0], start=80 * US, end=90 * US)
    later = ask("kernel_launch_pattern", written(Capture([kernel(0, 10), kernel(60, 70)], [beside])))
    assert not any("copies or sets" in note for note in later["notes"])


def test_streams_of_one_device_have_gaps_of_their_own() -> None:
    rows = rows_of(
        ask("kernel_launch_pattern", written(Capture([kernel(0, 10), kernel(30, 40), kernel(10, 30, stream=8)])))
    )
    assert [(row["stream"], row["gap_max_us"]) for row in rows] == [("7", 20.0), ("8", None)]


def test_work_cut_by_the_window_counts_and_ends_the_extent_at_its_edge() -> None:
    capture = Capture([kernel(0, 20), kernel(40, 60), kernel(90, 95)])
    envelope = ask("kernel_launch_pattern", written(capture), trim=["0.00001", "0.00005"])
    [row] = rows_of(envelope)
    assert (row["kernels"], row["extent_ms"], row["busy_ms"], row["gap_max_us"]) == (2, 0.04, 0.02, 20.0)
    assert envelope["totals"]["clipped"] == 2


# Bursts.


def test_a_gap_of_10_microseconds_ends_a_burst_and_a_shorter_one_does_not() -> None:
    kernels = [kernel(0, 1), kernel(10, 11), kernel(21, 22), kernel(23, 24), kernel(24, 25), kernel(40, 41)]
    row = only_row(Capture(kernels))
    assert (row["bursts"], row["kernels_per_burst"]) == (2, 2.5)


def test_a_single_kernel_is_no_burst() -> None:
    row = only_row(Capture([kernel(0, 1), kernel(20, 21)]))
    assert (row["bursts"], row["kernels_per_burst"]) == (0, None)


# Stalls.


def stalled(*calls: Call, gap: int = 1000) -> Capture:
    kernels = [kernel(0, 10, correlation=1), kernel(10 + gap, 20 + gap, correlation=2)]
    launch = Call((5 + gap) * US, (6 + gap) * US, 101, 101, "cudaLaunchKernel_v7000", 2)
    return Capture(kernels, calls=[launch, *calls])


def wait(start: int, end: int, tid: int = 101, name: str = "cudaStreamSynchronize_v3020") -> Call:
    return Call(start * US, end * US, 101, tid, name)


def test_a_gap_of_1_ms_of_which_half_is_waiting_is_a_stall() -> None:
    assert only_row(stalled(wait(10, 510)))["sync_stalls"] == 1
    assert only_row(stalled(wait(10, 509)))["sync_stalls"] == 0
    assert only_row(stalled(wait(10, 510), gap=999))["sync_stalls"] == 0


def test_nested_waits_of_the_driver_and_other_calls_do_not_add_up_to_a_stall() -> None:
    nested = [wait(10, 310), wait(11, 309, name="cuStreamSynchronize"), wait(400, 900, name="cudaMemcpy_v3020")]
    assert only_row(stalled(*nested))["sync_stalls"] == 0
    assert only_row(stalled(*nested, wait(500, 700)))["sync_stalls"] == 1


def test_waits_of_a_thread_that_does_not_launch_the_next_kernel_make_no_stall() -> None:
    assert only_row(stalled(wait(10, 1010, tid=102)))["sync_stalls"] == 0


def test_a_gap_before_a_kernel_of_unknown_launch_is_no_stall_and_said() -> None:
    capture = Capture([kernel(0, 10), kernel(1010, 1020)], calls=[wait(10, 1010)])
    envelope = ask("kernel_launch_pattern", written(capture))
    assert rows_of(envelope)[0]["sync_stalls"] == 0
    assert any("1 gaps of 1 ms or more" in note and "unknown launch" in note for note in envelope["notes"])


def test_without_calls_stalls_are_unknown_and_not_zero() -> None:
    envelope = ask("kernel_launch_pattern", written(Capture([kernel(0, 10), kernel(2000, 2010)])))
    assert (rows_of(envelope)[0]["sync_stalls"], envelope["totals"]["sync_stalls"]) == (None, None)
    assert "CUDA API calls were not recorded: sync_stalls is unknown" in envelope["notes"]


# Order, devices, and what may be missing.


def test_streams_stand_by_number_of_kernels_then_in_their_own_order() -> None:
    kernels = [kernel(0, 1, stream=14), kernel(0, 1, stream=7), kernel(5, 6, stream=9), kernel(8, 9, stream=9)]
    path = written(Capture(kernels))
    assert [row["stream"] for row in rows_of(ask("kernel_launch_pattern", path))] == ["9", "7", "14"]
    pages = [ask("kernel_launch_pattern", path, max_rows=1, offset=place) for place in range(3)]
    assert [page["rows"][0][2] for page in pages] == ["9", "7", "14"]
    assert all(page["totals"] == pages[0]["totals"] for page in pages)


def test_a_device_without_kernels_in_the_window_has_no_row_and_is_named() -> None:
    path = written(Capture([kernel(0, 10), kernel(1000, 1010, device=1)]))
    envelope = ask("kernel_launch_pattern", path, trim=["0", "0.0001"])
    assert [row["device"] for row in rows_of(envelope)] == [0]
    assert "no kernel in the window on device 1" in envelope["notes"]
    twin = replace(kernel(1000, 1010), pid=102)
    same_id = ask("kernel_launch_pattern", written(Capture([kernel(0, 10), twin])), trim=["0", "0.0001"])
    assert "no kernel in the window on device 0 of process 102" in same_id["notes"]
    between = ask("kernel_launch_pattern", path, trim=["0.0001", "0.0002"])
    assert (between["status"], between["rows"], between["totals"]["kernels"]) == ("empty", [], 0)


def test_a_kernel_of_no_length_has_no_extent_and_no_rate() -> None:
    row = only_row(Capture([kernel(5, 5)], calls=[wait(0, 10)]))
    assert (row["kernels"], row["extent_ms"], row["busy_pct"], row["kernels_per_ms"]) == (1, 0.0, None, None)


def test_a_whole_graph_fills_a_gap_counts_as_no_kernel_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(10 * US, 60 * US, 0, 1, 7, None, 101, 1)
    envelope = ask("kernel_launch_pattern", written(Capture([kernel(0, 10), kernel(60, 70)], graph_launches=[graph])))
    [row] = rows_of(envelope)
    assert (row["kernels"], row["gap_max_us"], row["busy_pct"]) == (2, None, 100.0)
    assert envelope["status"] == "partial"


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("kernel_launch_pattern", written(Capture([kernel(0, 10)])), device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_without_kernels_it_abstains_and_says_what_to_record() -> None:
    envelope = ask("kernel_launch_pattern", written(Capture(calls=[wait(0, 10)])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
    assert envelope["capture_hint"].startswith("nsys profile")
