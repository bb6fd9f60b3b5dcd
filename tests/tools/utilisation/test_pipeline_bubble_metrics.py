from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout, Set
from tests.oracle import exact, exact_rows
from tests.strategies import generated, has_length, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves, slow_parts, with_graphs, work_span

US = 1_000


def kernel(start: int, end: int, device: int = 0, name: str = "scale") -> Kernel:
    return Kernel(start * US, end * US, device, 1, 7, None, 101, name)


def copy(start: int, end: int, device: int = 0) -> Copy:
    return Copy(start * US, end * US, device, 1, 8, None, 101, 4096, 1)


@generated
@given(st.data())
def test_every_figure_of_every_device_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_graphs())
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    truth = slow_parts(capture, window)
    rows = exact_rows("pipeline_bubble_metrics", path, as_window(window))
    assert [(row["device"], row["process"]) for row in rows] == list(truth)
    recorded = {"copies": bool(capture.copies or capture.sets), "calls": bool(capture.calls)}
    recorded |= {"compute": bool(capture.kernels or capture.graph_launches), "comm": bool(capture.kernels)}
    for row, parts in zip(rows, truth.values(), strict=True):
        assert (row["span_ms"], row["idle_ms"]) == (parts.span, parts.idle)
        assert row["busy_ms"] + row["idle_ms"] == row["span_ms"]
        assert row["compute_ms"] == (parts.compute if recorded["compute"] else None)
        assert row["comm_ms"] == (parts.comm if recorded["comm"] else None)
        assert row["copy_ms"] == (parts.copy if recorded["copies"] else None)
        assert row["host_sync_ms"] == (parts.sync if recorded["calls"] else None)


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    names = ("span_ms", "busy_ms", "idle_ms", "compute_ms", "comm_ms", "copy_ms", "host_sync_ms")
    rows = [exact_rows("pipeline_bubble_metrics", path, as_window(window)) for window in (whole, *parts)]
    for of_whole, first, second in zip(*rows, strict=True):
        for name in names:
            assert of_whole[name] == (None if first[name] is None else first[name] + second[name]), name


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_idle_time_of_a_real_capture_is_exactly_that_of_the_other_skills(capture: Path) -> None:
    if ask("pipeline_bubble_metrics", capture)["status"] == "abstained":
        return
    totals = exact("pipeline_bubble_metrics", capture).totals
    assert exact("gpu_idle_gaps", capture).totals["idle_ms"] == totals["idle_ms"]
    if ask("overlap_breakdown", capture)["status"] != "abstained":
        assert exact("overlap_breakdown", capture).totals["idle_ms"] == totals["idle_ms"]


def test_a_copy_is_busy_time_and_no_kernel() -> None:
    [row] = rows_of(ask("pipeline_bubble_metrics", written(Capture([kernel(0, 10), kernel(60, 70)], [copy(10, 60)]))))
    assert (row["busy_ms"], row["idle_ms"], row["idle_pct"]) == (0.07, 0.0, 0.0)
    assert (row["compute_ms"], row["copy_ms"]) == (0.02, 0.05)


def test_a_device_that_is_idle_in_the_window_has_its_row_and_idles_all_of_it() -> None:
    capture = written(Capture([kernel(1000, 1010), kernel(2000, 2010, device=1)]))
    busy, idle = rows_of(ask("pipeline_bubble_metrics", capture, trim=["0.001", "0.00101"]))
    assert (busy["device"], busy["idle_pct"], busy["span_ms"]) == (0, 0.0, 0.01)
    assert (idle["device"], idle["idle_pct"], idle["idle_ms"], idle["compute_ms"]) == (1, 100.0, 0.01, 0.0)


def test_the_total_is_a_share_of_the_span_times_the_devices() -> None:
    capture = written(Capture([kernel(0, 10), kernel(0, 4, device=1)]))
    totals = ask("pipeline_bubble_metrics", capture)["totals"]
    assert totals == {"devices": 2, "span_ms": 0.02, "busy_ms": 0.014, "idle_ms": 0.006, "idle_pct": 30.0}


def test_one_device_is_measured_against_the_window_of_all() -> None:
    capture = written(Capture([kernel(0, 10), kernel(0, 40, device=1)]))
    [row] = rows_of(ask("pipeline_bubble_metrics", capture, device=0))
    assert (row["span_ms"], row["idle_pct"]) == (0.04, 75.0)


def test_waiting_threads_are_not_added_up_and_other_processes_do_not_count() -> None:
    waits = [
        Call(0, 8 * US, 101, 101, "cudaDeviceSynchronize_v3020"),
        Call(2 * US, 9 * US, 101, 102, "cuCtxSynchronize"),
    ]
    other = [Call(0, 10 * US, 202, 202, "cudaStreamSynchronize"), Call(0, 10 * US, 101, 103, "cudaMalloc")]
    [row] = rows_of(ask("pipeline_bubble_metrics", written(Capture([kernel(0, 10)], calls=waits + other))))
    assert row["host_sync_ms"] == 0.009


def test_without_a_kernel_table_compute_is_unknown_and_the_answer_partial() -> None:
    envelope = ask("pipeline_bubble_metrics", written(Capture(copies=[copy(0, 10), copy(30, 40)])))
    [row] = rows_of(envelope)
    assert envelope["status"] == "partial"
    assert (row["compute_ms"], row["comm_ms"], row["copy_ms"], row["idle_ms"]) == (None, None, 0.02, 0.02)
    assert any("kernels were not recorded" in note for note in envelope["notes"])


def test_what_was_not_recorded_is_null_and_not_zero() -> None:
    envelope = ask("pipeline_bubble_metrics", written(Capture([kernel(0, 10)])))
    [row] = rows_of(envelope)
    assert envelope["status"] == "ok"
    assert (row["copy_ms"], row["host_sync_ms"]) == (None, None)
    unknown = [note for note in envelope["notes"] if note.endswith("is unknown")]
    assert [note.split()[-3] for note in unknown] == ["copy_ms", "host_sync_ms"]


def test_a_kernel_table_without_rows_tells_nothing_of_kernels() -> None:
    capture = Capture(copies=[copy(0, 10)])
    lazy, eager = (ask("pipeline_bubble_metrics", written(capture, Layout(empty_tables=on))) for on in (False, True))
    assert {**eager, "profile": None} == {**lazy, "profile": None}
    [row] = rows_of(eager)
    assert (eager["status"], row["compute_ms"], row["comm_ms"]) == ("partial", None, None)


def test_a_whole_graph_counts_as_compute_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(0, 30 * US, 0, 1, 7, None, 101, 1)
    capture = written(
        Capture([kernel(35, 40)], sets=[Set(30 * US, 35 * US, 0, 1, 7, None, 101, 64)], graph_launches=[graph])
    )
    envelope = ask("pipeline_bubble_metrics", capture)
    [row] = rows_of(envelope)
    assert envelope["status"] == "partial"
    assert any("1 CUDA graph" in note and "hidden" in note for note in envelope["notes"])
    assert (row["compute_ms"], row["idle_ms"]) == (0.035, 0.0)


def test_graphs_alone_tell_compute_and_leave_communication_unknown() -> None:
    graph = GraphLaunch(0, 30 * US, 0, 1, 7, None, 101, 1)
    envelope = ask("pipeline_bubble_metrics", written(Capture(graph_launches=[graph])))
    [row] = rows_of(envelope)
    assert envelope["status"] == "partial"
    assert (row["compute_ms"], row["comm_ms"], row["idle_ms"]) == (0.03, None, 0.0)
    assert any("comm_ms is unknown" in note for note in envelope["notes"])


def test_without_any_gpu_work_it_abstains_and_names_the_flags() -> None:
    envelope = ask("pipeline_bubble_metrics", written(Capture(calls=[Call(0, 10, 101, 101, "cudaMalloc")])))
    assert envelope["status"] == "abstained"
    assert set(envelope["missing"]) == {"kernels", "copies", "sets"}
    assert envelope["capture_hint"].startswith("nsys profile")


# Whose the idle time is.


@generated
@given(st.data())
def test_every_gap_has_one_owner_the_one_that_gpu_idle_gaps_names_and_all_add_up_to_the_idle_time(
    data: st.DataObject,
) -> None:
    capture = data.draw(with_graphs())
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    result = exact("pipeline_bubble_metrics", path, as_window(window))
    owners = {str(host): (gaps, time) for host, gaps, time in result.tables["idle"].rows}  # type: ignore[misc]
    expected: dict[str, tuple[int, int]] = {}
    for gap in exact_rows("gpu_idle_gaps", path, as_window(window), min_gap_ns=0):
        owner = "between launches" if gap["gap_us"] < 10_000 else gap["host"] or "unknown"
        count, time = expected.get(owner, (0, 0))
        expected[owner] = (count + 1, time + gap["gap_us"])
    assert owners == expected
    assert sum(int(str(time)) for _, time in owners.values()) == result.totals["idle_ms"]


def test_a_short_gap_belongs_to_launching_and_a_long_one_to_what_the_host_did_for_most_of_it() -> None:
    kernels = [
        Kernel(start * US, end * US, 0, 1, 7, n, 101, "scale")
        for n, (start, end) in enumerate([(0, 10), (15, 20), (120, 130), (140, 150)])
    ]
    calls = [
        Call(21 * US, 80 * US, 101, 101, "cudaDeviceSynchronize_v3020", 9),
        Call(81 * US, 119 * US, 101, 101, "cudaLaunchKernel_v7000", 2),
    ]
    idle = rows_of(ask("pipeline_bubble_metrics", written(Capture(kernels, calls=calls))), "idle")
    assert idle == [
        {"host": "between launches", "gaps": 1, "idle_ms": 0.005},
        {"host": "sync", "gaps": 1, "idle_ms": 0.1},
        {"host": "no_cuda_call", "gaps": 1, "idle_ms": 0.01},
    ]


def test_without_calls_the_owner_of_a_long_gap_is_unknown() -> None:
    [idle] = rows_of(ask("pipeline_bubble_metrics", written(Capture([kernel(0, 10), kernel(100, 110)]))), "idle")
    assert idle == {"host": "unknown", "gaps": 1, "idle_ms": 0.09}
