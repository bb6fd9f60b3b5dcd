"""Section 1.4: unions and sums, and what is busy and idle, are the same in every skill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.errors import ErrorCode
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, Kernel, Sync, capture_window
from tests.pitfalls.asking import MS, TRIMMED, answer, as_recorded, small_capture
from tests.strategies import Span
from tests.support import ask, rows_of, written

PID = 42
HTOD = 1


def kernel(start: float, end: float, stream: int = 7, correlation: int | None = None, **more: Any) -> Kernel:
    return Kernel(int(start * MS), int(end * MS), 0, 1, stream, correlation, PID, "k()", **more)


def copy(start: float, end: float) -> Copy:
    return Copy(int(start * MS), int(end * MS), 0, 1, 13, None, PID, 1 << 20, HTOD)


def test_two_streams_at_work_at_once_never_make_more_than_the_span() -> None:
    path = written(Capture(kernels=[kernel(100, 190, 7), kernel(110, 200, 8), kernel(110, 190, 9)]))
    [row] = rows_of(ask("pipeline_bubble_metrics", path))
    assert (row["busy_ms"], row["span_ms"], row["idle_ms"]) == (100, 100, 0)
    totals = ask("top_kernels", path)["totals"]
    assert (totals["total_ms"], totals["busy_ms"]) == (260, 100)
    [spread] = rows_of(ask("stream_concurrency", path))
    assert spread["kernels_0_ms"] == 0


def test_gaps_of_streams_on_a_device_that_never_idles_are_no_idle_time() -> None:
    path = written(Capture(kernels=[kernel(100, 150, 7), kernel(150, 200, 8), kernel(200, 250, 7)]))
    gaps = ask("gpu_idle_gaps", path, level="stream", min_gap_ns=0)
    assert rows_of(gaps)
    assert gaps["totals"]["idle_ms"] is None or gaps["totals"]["idle_ms"] == 0
    assert ask("pipeline_bubble_metrics", path)["totals"]["idle_ms"] == 0
    assert [row["gap_us"] for row in rows_of(ask("gpu_idle_gaps", path, min_gap_ns=0))] == []


def test_time_in_which_only_a_copy_runs_is_copy_only_and_idle_in_no_skill() -> None:
    path = written(Capture(kernels=[kernel(100, 110), kernel(160, 170)], copies=[copy(110, 160)]))
    [overlap] = rows_of(ask("overlap_breakdown", path))
    assert (overlap["copy_only_ms"], overlap["idle_ms"], overlap["compute_ms"]) == (50, 0, 20)
    assert rows_of(ask("pipeline_bubble_metrics", path))[0]["idle_ms"] == 0
    assert ask("gpu_idle_gaps", path)["totals"]["idle_ms"] == 0
    [path_row] = rows_of(ask("critical_path", path))
    assert path_row["host_ms"] == 0
    assert "idle_device" not in {row["pattern"] for row in rows_of(ask("root_cause_matcher", path))}


def test_threads_that_wait_at_once_wait_no_longer_than_the_window() -> None:
    calls = [Call(100 * MS, 190 * MS, PID, tid, "cudaStreamSynchronize_v3020", tid) for tid in (1, 2, 3)]
    syncs = [Sync(100 * MS, 190 * MS, 0, 1, 7, tid, PID, 3) for tid in (1, 2, 3)]
    path = written(Capture(kernels=[kernel(100, 200)], calls=calls, syncs=syncs))
    found = ask("sync_cost_analysis", path)
    assert found["rows"]
    assert all(row["busy_ms"] <= 100 for row in rows_of(found))
    assert found["totals"]["busy_ms"] <= 100


def test_one_graph_launch_of_three_nodes_is_one_launch_in_every_skill_that_counts_launches() -> None:
    nodes = [kernel(start, start + 1, correlation=1, graph_node=start, graph_id=1) for start in (101, 103, 105)]
    calls = [Call(100 * MS, 100 * MS + 5_000, PID, PID, "cudaGraphLaunch_v10000", 1)]
    path = written(Capture(kernels=nodes, calls=calls))
    assert ask("kernel_launch_overhead", path)["totals"]["launches"] == 1
    assert ask("cpu_gpu_pipeline", path)["totals"]["launches"] == 1
    assert ask("top_kernels", path)["totals"]["instances"] == 3


def test_a_kernel_that_waits_in_a_queue_is_no_slow_launch() -> None:
    path = written(
        Capture(
            kernels=[kernel(100, 900, correlation=1), kernel(900, 901, correlation=2)],
            calls=[
                Call(99 * MS, 99 * MS + 5_000, PID, PID, "cudaLaunchKernel_v7000", 1),
                Call(101 * MS, 101 * MS + 5_000, PID, PID, "cudaLaunchKernel_v7000", 2),
            ],
        )
    )
    totals = ask("kernel_launch_overhead", path)["totals"]
    assert totals["api_ms"] == 0.01
    assert totals["launch_bound_pct"] == 0


def test_parts_of_recoverable_time_are_no_more_than_idle_and_exposed_time() -> None:
    found = as_recorded()["root_cause_matcher"]
    assert isinstance(found, dict)
    overlap = ask("overlap_breakdown", written(small_capture()))
    at_stake = sum(row["idle_ms"] + row["exposed_comm_ms"] + row["copy_only_ms"] for row in rows_of(overlap))
    owned = sum(row["recoverable_ms"] or 0 for row in rows_of(found))
    assert 0 < owned <= at_stake + 0.01


@pytest.mark.parametrize("name", TRIMMED)
def test_no_share_of_a_quarter_of_a_busy_capture_leaves_0_to_100(name: str, twice: Path) -> None:
    """Every kernel runs twice at once, on another stream, so that a sum taken for a union would show."""
    first, last = capture_window(small_capture())
    quarter = (last - first) // 4
    part = answer(TRIMMED[name], twice, trim=Span(first + quarter, first + 2 * quarter).trim)
    assert not isinstance(part, ErrorCode)
    for table in (None, *part["tables"]):
        source = part["tables"][table] if table else part
        for values in (source["totals"] or {}, *rows_of(part, table)):
            for key, value in values.items():
                if key.endswith("_pct") and value is not None and key != "vs_median_pct":
                    assert 0 <= value <= 100, key
                if key in ("busy_ms", "idle_ms", "compute_ms") and "device" in values:
                    assert value is None or value <= part["scope"]["span_ms"] + 0.001, key


@pytest.fixture(scope="module")
def twice() -> Path:
    capture = small_capture()
    return written(replace(capture, kernels=[*capture.kernels, *(replace(k, stream=99) for k in capture.kernels)]))
