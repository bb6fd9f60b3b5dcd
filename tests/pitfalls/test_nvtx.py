"""Section 1.5: work belongs to the ranges around its launch on its thread, once, and to none by its looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nsys_evidence.ingest.synthetic import Call, Capture, Kernel, Range
from tests.pitfalls.asking import MS
from tests.support import ask, rows_of, written

PID = 42


def launched(number: int, start: int, stream: int = 7, tid: int = PID, ms: int = 1) -> tuple[Kernel, Call]:
    """A kernel, and its call one millisecond earlier."""
    kernel = Kernel(start * MS, (start + ms) * MS, 0, 1, stream, number, PID, "k()")
    return kernel, Call((start - 1) * MS, (start - 1) * MS + 1_000, PID, tid, "cudaLaunchKernel_v7000", number)


def capture(pairs: list[tuple[Kernel, Call]], *ranges: tuple[int, int, str], **more: Any) -> Path:
    made = [Range(start * MS, end * MS, PID, PID, text) for start, end, text in ranges]
    return written(Capture(kernels=[k for k, _ in pairs], calls=[c for _, c in pairs], ranges=made, **more))


def test_kernels_with_equal_times_are_each_counted_once() -> None:
    pairs = [launched(number, 102, stream=6 + number) for number in (1, 2, 3)]
    path = capture(pairs, (100, 110, "step"))
    found = ask("nvtx_kernel_map", path)
    assert [(row["kernels"], row["self_ms"]) for row in rows_of(found)] == [(3, 3)]
    assert found["totals"]["kernel_ms"] == 3
    [region] = rows_of(ask("nvtx_layer_breakdown", path))
    assert (region["region"], region["inclusive_ms"]) == ("step", 3)


def test_a_kernel_whose_only_range_is_an_operator_of_a_library_keeps_it() -> None:
    path = capture([launched(1, 102)], (100, 110, "aten::mm"))
    assert [row["path"] for row in rows_of(ask("nvtx_kernel_map", path))] == ["aten::mm"]


def test_operators_and_gaps_are_no_iterations() -> None:
    """Ten equal operators of one inference, with gaps between them, under one range; and two kernels far apart."""
    starts = range(102, 202, 10)
    pairs = [launched(number, start) for number, start in enumerate(starts, 1)]
    operators = capture(pairs, (100, 300, "inference"), *((start - 2, start + 3, "cudnn::conv") for start in starts))
    alone = capture([launched(1, 102), launched(2, 150)], (100, 300, "inference"))
    for path in (operators, alone):
        found = ask("iteration_timing", path)
        assert (found["status"], found["rows"]) == ("abstained", [])


def test_a_range_that_only_contains_the_marker_s_word_is_no_iteration() -> None:
    pairs = [launched(number, 100 * number + 2) for number in (1, 2, 3)]
    steps = [(100 * number, 100 * number + 50, f"step {number}") for number in (1, 2, 3)]
    others = [(100 * number + 60, 100 * number + 61, "optimizer_step_hook") for number in (1, 2, 3)]
    found = ask("iteration_timing", capture(pairs, *steps, *others))
    assert found["status"] == "ok"
    assert len(found["rows"]) == 3
    assert [row["start_s"] for row in rows_of(found)] == [0.1, 0.2, 0.3]


def test_a_kernel_outside_every_range_is_counted_as_such_and_breaks_nothing() -> None:
    path = capture([launched(1, 102), launched(2, 502, ms=3)], (100, 110, "step"))
    found = ask("nvtx_kernel_map", path)
    assert sum(row["self_ms"] for row in rows_of(found) if row["path"] == "step") == 1
    assert ask("top_kernels", path)["totals"]["total_ms"] == 4


def test_work_of_a_thread_without_ranges_is_in_no_range_of_another_thread() -> None:
    backward = launched(2, 104, tid=PID + 1)
    path = capture([launched(1, 102), backward], (100, 110, "forward"))
    found = ask("nvtx_kernel_map", path)
    assert [row["kernels"] for row in rows_of(found) if row["path"] == "forward"] == [1]


def test_nested_ranges_of_one_name_never_share_more_than_all_of_the_work() -> None:
    path = capture([launched(1, 104, ms=5)], (100, 120, "f"), (101, 115, "f"), (102, 110, "f"))
    for row in rows_of(ask("nvtx_layer_breakdown", path)):
        assert all(0 <= row[key] <= 100 for key in row if key.endswith("_pct") and row[key] is not None)
    assert ask("nvtx_kernel_map", path)["totals"]["kernel_ms"] == 5
