from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, Copy, CudaDevice, Gpu, GraphLaunch, Kernel, Set
from nsys_evidence.ingest.synthetic.truth import intersection, is_comm, length
from tests.oracle import exact, exact_rows
from tests.strategies import Span, device_key, generated, has_length, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import DeviceKey, as_window, clipped, graph_key, halves, slow_parts, with_graphs, work_span

US = 1_000
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
TIMES = ("kernels_0_ms", "kernels_1_ms", "kernels_2_ms", "kernels_3plus_ms")


def kernel(start: int, end: int, stream: int = 7, device: int = 0, name: str = "scale", pid: int = 101) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, None, pid, name)


def copy(start: int, end: int, stream: int = 8) -> Copy:
    return Copy(start * US, end * US, 0, 1, stream, None, 101, 4096, 1)


# Against the slow and obvious method.


def slow_row(capture: Capture, device: DeviceKey, window: Span) -> dict[str, object]:
    """Walk from edge to edge and count what runs between them."""
    kernels = [k for k in capture.kernels if device_key(capture, k) == device]
    graphs = [g for g in capture.graph_launches if graph_key(capture, g) == device]
    moved = [w for w in (*capture.copies, *capture.sets) if device_key(capture, w) == device]
    running = clipped((*kernels, *graphs), window)
    edges = sorted({window.start, window.end, *(edge for interval in running for edge in interval)})
    time_at: Counter[int] = Counter()
    for start, end in pairwise(edges):
        time_at[sum(a <= start and b >= end for a, b in running)] += end - start
    busy = sum(time for depth, time in time_at.items() if depth)
    on = {(w.pid, w.device, w.context, w.stream) for w in (*kernels, *moved, *graphs) if window.part(w)}
    compute = clipped((*(k for k in kernels if not is_comm(k)), *graphs), window)
    return {
        "device": device[0],
        "process": device[1],
        "streams": len(on),
        "max_concurrent": max((depth for depth, time in time_at.items() if time), default=0),
        "kernels_0_ms": time_at[0],
        "kernels_1_ms": time_at[1],
        "kernels_2_ms": time_at[2],
        "kernels_3plus_ms": sum(time for depth, time in time_at.items() if depth > 2),
        "mean_concurrency": Fraction(sum(end - start for start, end in running), busy) if busy else None,
        "compute_with_copy_ms": length(intersection(compute, clipped(moved, window)))
        if capture.copies or capture.sets
        else None,
    }


@generated
@given(st.data())
def test_every_figure_of_every_device_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    rows = exact_rows("stream_concurrency", path, as_window(window))
    devices = list(slow_parts(capture, window))
    assert rows == [slow_row(capture, device, window) for device in devices]
    for row in rows:
        assert sum(row[name] for name in TIMES) == window.end - window.start


@generated
@given(st.data())
def test_totals_are_sums_and_the_most_over_devices(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path, window = written(capture), as_window(work_span(capture))
    rows, totals = exact_rows("stream_concurrency", path, window), exact("stream_concurrency", path, window).totals
    assert totals["devices"] == len(rows)
    for name in (*TIMES, "streams"):
        assert totals[name] == sum(row[name] for row in rows)
    assert totals["max_concurrent"] == max(row["max_concurrent"] for row in rows)
    busy = [sum(row[name] for name in TIMES[1:]) for row in rows]
    weighted = sum((row["mean_concurrency"] or 0) * time for row, time in zip(rows, busy, strict=True))
    assert totals["mean_concurrency"] == (weighted / sum(busy) if sum(busy) else None)


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels) and has_length(found)))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    rows = [exact_rows("stream_concurrency", path, as_window(window)) for window in (whole, *parts)]
    for of_whole, first, second in zip(*rows, strict=True):
        for name in (*TIMES, "compute_with_copy_ms"):
            assert of_whole[name] == (None if first[name] is None else first[name] + second[name]), name
        assert of_whole["max_concurrent"] == max(first["max_concurrent"], second["max_concurrent"])


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_time_with_kernels_of_a_real_capture_is_exactly_that_of_other_skills(capture: Path) -> None:
    if ask("stream_concurrency", capture)["status"] == "abstained":
        return
    overlap = exact_rows("overlap_breakdown", capture)
    for row, other in zip(exact_rows("stream_concurrency", capture), overlap, strict=True):
        assert sum(row[name] for name in TIMES) == other["span_ms"]
        busy = other["compute_ms"] + other["exposed_comm_ms"]
        assert sum(row[name] for name in TIMES[1:]) == busy
        assert row["kernels_0_ms"] == other["copy_only_ms"] + other["idle_ms"]
        assert row["compute_with_copy_ms"] is None or row["compute_with_copy_ms"] <= other["compute_ms"]
    totals, top = exact("stream_concurrency", capture).totals, exact("top_kernels", capture).totals
    assert totals["mean_concurrency"] == Fraction(top["total_ms"], top["busy_ms"])  # type: ignore[arg-type]


# Words.


def test_a_kernel_that_ends_where_another_starts_does_not_run_with_it() -> None:
    [row] = rows_of(ask("stream_concurrency", written(Capture([kernel(0, 10), kernel(10, 20, stream=8)]))))
    assert (row["streams"], row["max_concurrent"], row["kernels_1_ms"], row["mean_concurrency"]) == (2, 1, 0.02, 1.0)


def test_four_streams_at_once_are_three_or_more() -> None:
    kernels = [kernel(0, 10 + stream, stream) for stream in range(4)]
    [row] = rows_of(ask("stream_concurrency", written(Capture(kernels))))
    assert (row["streams"], row["max_concurrent"]) == (4, 4)
    assert [row[name] for name in TIMES] == [0.0, 0.001, 0.001, 0.011]
    assert row["mean_concurrency"] == round(46 / 13, 4)


def test_kernels_of_several_processes_on_one_gpu_run_together() -> None:
    maps = [CudaDevice(0, 0, pid) for pid in (101, 102)]
    capture = Capture(
        [kernel(0, 10), kernel(5, 15, pid=102)],
        gpus=[Gpu(0, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 0)],
        cuda_devices=maps,
    )
    envelope = ask("stream_concurrency", written(capture))
    [row] = rows_of(envelope)
    assert (row["process"], row["streams"], row["max_concurrent"], row["kernels_2_ms"]) == (None, 2, 2, 0.005)
    assert any("physical GPU" in note for note in envelope["notes"])


def test_collectives_are_kernels_and_no_compute() -> None:
    [row] = rows_of(
        ask("stream_concurrency", written(Capture([kernel(0, 10), kernel(0, 30, 8, name=NCCL)], [copy(5, 20)])))
    )
    assert (row["kernels_2_ms"], row["kernels_1_ms"], row["compute_with_copy_ms"]) == (0.01, 0.02, 0.005)


def test_copies_at_once_count_once_and_their_time_alone_has_no_kernel() -> None:
    sets = [Set(5 * US, 40 * US, 0, 1, 9, None, 101, 64)]
    [row] = rows_of(ask("stream_concurrency", written(Capture([kernel(0, 10)], [copy(2, 8)], sets))))
    assert (row["streams"], row["kernels_0_ms"], row["compute_with_copy_ms"]) == (3, 0.03, 0.008)


def test_a_device_that_is_idle_in_the_window_has_its_row() -> None:
    capture = written(Capture([kernel(1000, 1010), kernel(2000, 2010, device=1)]))
    _, idle = rows_of(ask("stream_concurrency", capture, trim=["0.001", "0.00101"]))
    assert [idle[name] for name in TIMES] == [0.01, 0.0, 0.0, 0.0]
    assert (idle["streams"], idle["max_concurrent"], idle["mean_concurrency"]) == (0, 0, None)


def test_a_listed_device_without_work_can_be_asked_for() -> None:
    gpus = [Gpu(number, "NVIDIA Test", "GT000", 10**12, 10**10, 100, number) for number in (0, 1)]
    envelope = ask("stream_concurrency", written(Capture([kernel(0, 10)], gpus=gpus)), device=1)
    [row] = rows_of(envelope)
    assert (row["device"], row["kernels_0_ms"], row["max_concurrent"]) == (1, 0.01, 0)


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("stream_concurrency", written(Capture([kernel(0, 10)])), device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


# What may be missing.


def test_a_whole_graph_counts_as_one_kernel_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(0, 30 * US, 0, 1, 9, None, 101, 1)
    envelope = ask("stream_concurrency", written(Capture([kernel(10, 40)], graph_launches=[graph])))
    [row] = rows_of(envelope)
    assert (row["max_concurrent"], row["kernels_2_ms"], row["kernels_1_ms"]) == (2, 0.02, 0.02)
    assert envelope["status"] == "partial"
    assert any("1 CUDA graph" in note and "hidden" in note for note in envelope["notes"])


def test_without_copies_and_sets_their_time_with_compute_is_unknown_and_not_zero() -> None:
    envelope = ask("stream_concurrency", written(Capture([kernel(0, 10)])))
    assert rows_of(envelope)[0]["compute_with_copy_ms"] is None
    assert envelope["totals"]["compute_with_copy_ms"] is None
    assert any("compute_with_copy_ms is unknown" in note for note in envelope["notes"])


def test_without_kernels_it_abstains_and_says_what_to_record() -> None:
    envelope = ask("stream_concurrency", written(Capture(copies=[copy(0, 10)])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
    assert envelope["capture_hint"].startswith("nsys profile")
