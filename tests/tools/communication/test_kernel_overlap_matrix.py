from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Capture, Copy, CudaDevice, Gpu, GraphLaunch, Kernel, Layout, Set
from nsys_evidence.ingest.synthetic.truth import Interval, intersection, length
from tests.oracle import exact, exact_rows
from tests.strategies import Span, device_key, generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.communication.collective_captures import NAMES, some_window, with_collectives
from tests.tools.slow_busy import DeviceKey, as_window, clipped, graph_key, halves, slow_parts

US = 1_000
ALL_REDUCE, TREE, _, REDUCE_SCATTER, SEND = NAMES
ORDER = (
    "compute", "AllReduce", "ReduceScatter", "SendRecv",
    "h2d", "d2h", "d2d", "h2h", "p2p", "managed", "other", "set",
)  # fmt: skip
COPY_KINDS = {1: "h2d", 2: "d2h", 8: "d2d", 9: "h2h", 10: "p2p", 11: "managed", 12: "managed", 13: "managed"}


def kernel(start: int, end: int, name: str = "scale", stream: int = 7, device: int = 0, pid: int = 101) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, None, pid, name)


def copy(start: int, end: int, kind: int = 1, stream: int = 20) -> Copy:
    return Copy(start * US, end * US, 0, 1, stream, None, 101, 4096, kind)


# Against the slow and obvious method.


def slow_work(capture: Capture, device: DeviceKey, window: Span) -> dict[str, list[Interval]]:
    """The intervals of each category that has time in the window, one for each kernel, graph, copy or set."""
    work: dict[str, list[Interval]] = {name: [] for name in ORDER}
    for k in (k for k in capture.kernels if device_key(capture, k) == device):
        work[NAMES[k.name][0] if k.name in NAMES else "compute"] += clipped([k], window)
    work["compute"] += clipped((g for g in capture.graph_launches if graph_key(capture, g) == device), window)
    for c in (c for c in capture.copies if device_key(capture, c) == device):
        work[COPY_KINDS.get(c.kind or 0, "other")] += clipped([c], window)
    work["set"] += clipped((s for s in capture.sets if device_key(capture, s) == device), window)
    return {name: intervals for name, intervals in work.items() if intervals}


def twice(intervals: list[Interval]) -> int:
    """The time in which two or more are open, from edge to edge."""
    edges = sorted({edge for interval in intervals for edge in interval})
    return sum(b - a for a, b in pairwise(edges) if sum(s <= a and e >= b for s, e in intervals) > 1)


@generated
@given(st.data())
def test_every_pair_of_every_device_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_collectives())
    path, window = written(capture), some_window(data, capture)
    expected, without = set(), 0
    for device in slow_parts(capture, window):
        work = slow_work(capture, device, window)
        for a, b in combinations_with_replacement(work, 2):
            time = twice(work[a]) if a == b else length(intersection(work[a], work[b]))
            shares = Fraction(time, length(work[a])), Fraction(time, length(work[b]))
            without += not time
            expected |= {(*device, a, b, time, *shares)} if time else set()
    result = exact("kernel_overlap_matrix", path, as_window(window))
    assert {tuple(row) for row in result.rows} == expected
    assert len(result.rows) == len(expected) == result.totals["pairs"]
    assert result.totals["pairs_without_overlap"] == without
    times = [row[4] for row in result.rows]
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]


@generated
@given(st.data())
def test_every_category_has_its_time_and_the_time_that_it_runs_alone(data: st.DataObject) -> None:
    capture = data.draw(with_collectives())
    path, window = written(capture), some_window(data, capture)
    expected = []
    for device in slow_parts(capture, window):
        work = slow_work(capture, device, window)
        for name, intervals in work.items():
            others = [interval for other, them in work.items() if other != name for interval in them]
            busy = length(intervals)
            expected.append((*device, name, busy, busy - length(intersection(intervals, others))))
    table = exact("kernel_overlap_matrix", path, as_window(window)).tables["categories"]
    assert list(table.rows) == expected
    assert table.total_rows == len(expected)


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_collectives().filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    of_whole, *of_parts = (
        {tuple(row[:4]): row[4] for row in exact("kernel_overlap_matrix", path, as_window(window)).rows}
        for window in (whole, *parts)
    )
    for pair, time in of_whole.items():
        assert time == sum(part.get(pair, 0) for part in of_parts)  # type: ignore[misc]


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_compute_of_a_real_capture_is_that_of_overlap_breakdown(capture: Path) -> None:
    if ask("kernel_overlap_matrix", capture)["status"] == "abstained":
        return
    envelope = ask("kernel_overlap_matrix", capture)
    assert len(dump_json(envelope)) < 6_000
    compute = [row for row in exact("kernel_overlap_matrix", capture).tables["categories"].rows if row[2] == "compute"]
    overlap = [row for row in exact_rows("overlap_breakdown", capture) if row["compute_ms"]]
    assert [(row[0], row[1], row[3]) for row in compute] == [
        (row["device"], row["process"], row["compute_ms"]) for row in overlap
    ]


@needs_shared
def test_a_real_capture_says_what_its_event_tables_say() -> None:
    # A self-join of kernels, copies and sets by device finds one overlapping pair: two kernels of stream 7 of device 0
    # that are no collectives, [60362719623, 60362785191) and [60362772749, 60362815885), which share 12442 ns. Sums of
    # durations on device 0: compute 253703274, which the 12442 are twice in, collectives 17172652.
    capture = SHARED / "captures" / "h100x2_nccl_2026.2.sqlite"
    [row] = exact_rows("kernel_overlap_matrix", capture)
    assert (row["device"], row["a"], row["b"], row["overlap_ms"]) == (0, "compute", "compute", 12_442)
    compute, send, *_ = exact("kernel_overlap_matrix", capture).tables["categories"].rows
    assert tuple(compute) == (0, None, "compute", 253_703_274 - 12_442, 253_703_274 - 12_442)
    assert tuple(send) == (0, None, "SendRecv", 17_172_652, 17_172_652)


# Words.


def test_a_pair_is_shown_once_with_its_share_of_both() -> None:
    capture = written(Capture([kernel(0, 20), kernel(10, 50, ALL_REDUCE, 8)], [copy(90, 100)]))
    envelope = ask("kernel_overlap_matrix", capture)
    assert envelope["rows"] == [[0, None, "compute", "AllReduce", 0.01, 50.0, 25.0]]
    assert envelope["totals"] == {"devices": 1, "pairs": 1, "pairs_without_overlap": 5}
    assert envelope["of"]["pct_of_a"] == "busy time of a on the device"


def test_the_diagonal_is_time_with_two_or_more_and_no_sum_of_pairs() -> None:
    kernels = [kernel(0, 30, ALL_REDUCE, stream) for stream in (1, 2, 3)] + [kernel(40, 50, TREE, 4)]
    [row] = rows_of(ask("kernel_overlap_matrix", written(Capture(kernels))))
    assert (row["a"], row["b"], row["overlap_ms"], row["pct_of_a"]) == ("AllReduce", "AllReduce", 0.03, 75.0)


def test_work_that_touches_does_not_overlap_and_that_is_said() -> None:
    capture = written(Capture([kernel(0, 10), kernel(10, 20, stream=8)], [copy(20, 30)]))
    envelope = ask("kernel_overlap_matrix", capture)
    assert (envelope["status"], envelope["rows"]) == ("empty", [])
    assert envelope["totals"]["pairs_without_overlap"] == 3
    assert any("nothing overlaps" in note for note in envelope["notes"])
    assert [row["alone_ms"] for row in rows_of(envelope, "categories")] == [0.02, 0.01]


def test_unified_memory_and_peer_copies_are_no_host_to_device_copies() -> None:
    kinds = {11: "managed", 10: "p2p", 1: "h2d", 3: "other", 0: "other"}
    for kind, category in kinds.items():
        [row] = rows_of(ask("kernel_overlap_matrix", written(Capture([kernel(0, 10)], [copy(5, 15, kind)]))))
        assert (row["a"], row["b"], row["overlap_ms"]) == ("compute", category, 0.005)


def test_devices_are_apart_and_processes_of_one_gpu_together() -> None:
    apart = Capture([kernel(0, 10), kernel(0, 10, ALL_REDUCE, device=1)])
    assert ask("kernel_overlap_matrix", written(apart))["rows"] == []
    gpus, maps = [Gpu(0, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 0)], [CudaDevice(0, 0, pid) for pid in (101, 102)]
    shared = Capture([kernel(0, 10), kernel(4, 10, SEND, pid=102)], gpus=gpus, cuda_devices=maps)
    [row] = rows_of(ask("kernel_overlap_matrix", written(shared)))
    assert (row["process"], row["b"], row["overlap_ms"]) == (None, "SendRecv", 0.006)


def test_only_the_window_and_the_device_asked_for_count() -> None:
    kernels = [kernel(0, 20), kernel(10, 50, ALL_REDUCE, 8), kernel(0, 9, device=1), kernel(0, 9, stream=8, device=1)]
    capture = written(Capture(kernels))
    [row] = rows_of(ask("kernel_overlap_matrix", capture, device=0, trim=["0.000015", "0.00003"]))
    assert (row["overlap_ms"], row["pct_of_a"], row["pct_of_b"]) == (0.005, 100.0, 33.33)
    assert ask("kernel_overlap_matrix", capture, device=1)["totals"]["devices"] == 1
    with pytest.raises(EvidenceError) as refused:
        ask("kernel_overlap_matrix", capture, device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


# What may be missing.


def test_a_whole_graph_counts_as_compute_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(0, 30 * US, 0, 1, 9, None, 101, 1)
    envelope = ask("kernel_overlap_matrix", written(Capture([kernel(10, 40, SEND)], graph_launches=[graph])))
    assert envelope["status"] == "partial"
    assert rows_of(envelope)[0]["overlap_ms"] == 0.02


def test_that_copies_and_sets_were_not_recorded_is_said() -> None:
    notes = ask("kernel_overlap_matrix", written(Capture([kernel(0, 10)])))["notes"]
    assert any("memory copies not recorded" in note for note in notes)
    assert any("memory sets not recorded" in note for note in notes)


def test_without_kernels_it_abstains_and_says_what_to_record() -> None:
    capture = Capture(copies=[copy(0, 10)], sets=[Set(0, 9 * US, 0, 1, 9, None, 101, 64)])
    for layout in (Layout(), Layout(empty_tables=True)):
        envelope = ask("kernel_overlap_matrix", written(capture, layout))
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
        assert envelope["capture_hint"].startswith("nsys profile")
