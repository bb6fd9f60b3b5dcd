from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Range
from nsys_evidence.tools.measures.api_names import matched
from nsys_evidence.tools.thresholds.bottlenecks import MODULE_LOADING
from tests.oracle import exact, exact_rows
from tests.strategies import Span, ends, generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window
from tests.tools.slow_stretches import events_of, figures, with_calls

MS = 10**6
LOADING = ("cuModuleLoadDataEx", "cuLibraryLoadData", "cuLinkComplete", "cuModuleGetFunction", "cuKernelGetFunction")
OTHERS = ("cuModuleUnload", "cuModuleGetLoadingMode", "cuKernelGetAttribute", "cudaMalloc")


def kernel(start: float, end: float, pid: int = 101, device: int = 0, correlation: int | None = None) -> Kernel:
    return Kernel(int(start * MS), int(end * MS), device, 1, 7, correlation, pid, "k")


def load(start: float, end: float, pid: int = 101, tid: int = 101, name: str = "cuModuleLoadData") -> Call:
    return Call(int(start * MS), int(end * MS), pid, tid, name)


def answer(*events: Any, **arguments: Any) -> dict[str, Any]:
    """The result about a capture of these kernels, calls and ranges."""
    parts: dict[str, list[Any]] = defaultdict(list)
    kinds = {Kernel: "kernels", Call: "calls", Range: "ranges", GraphLaunch: "graph_launches", Copy: "copies"}
    for event in events:
        parts[kinds[type(event)]].append(event)
    return ask("module_loading", written(Capture(**parts)), **arguments)


# Against plain Python.


@generated
@given(st.data())
def test_every_figure_agrees_with_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_calls(LOADING + OTHERS).filter(has_length))
    path = written(capture)
    span = data.draw(trims(capture))
    rows = {row["call"]: row for row in exact_rows("module_loading", path, as_window(span))}
    first_step = end_of_first_step(path)
    calls = [call for call in capture.calls if call.name in LOADING and span.has(call)]
    later = None if first_step is None else [call for call in calls if ends(call)[0] >= first_step]
    assert list(rows) == sorted({call.name for call in calls}, key=lambda name: (-rows[name]["total_ms"], name))
    for name, row in rows.items():
        expected = figures(capture, events_of([call for call in calls if call.name == name]), span)
        assert row.items() <= {**expected, "call": name, "after_first_step": count(later, name)}.items()
    totals = exact("module_loading", path, as_window(span)).totals
    whole = figures(capture, events_of(calls), span)
    after = None if later is None else len(later)
    assert totals == {**whole, "calls": len(rows), "after_first_step": after}


def count(calls: list[Call] | None, name: str) -> int | None:
    return None if calls is None else sum(call.name == name for call in calls)


def end_of_first_step(path: Path) -> int | None:
    """The end of the first iteration, as asked for as a scope; None where there are none."""
    try:
        return int(Decimal(str(ask("module_loading", path, iteration=0)["scope"]["end_s"])) * 10**9)
    except EvidenceError as error:
        return None if error.code is ErrorCode.ITERATION_OUT_OF_RANGE else pytest.fail(str(error))


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_calls(LOADING).filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    at = data.draw(st.integers(whole.start, whole.end))
    parts = [Span(whole.start, at), Span(at, whole.end, whole.includes_end)]
    one, *halves = (exact("module_loading", path, as_window(span)).totals for span in (whole, *parts))
    for name in ("total_ms", "busy_ms", "idle_ms"):
        assert (one[name] or 0) == sum(half[name] or 0 for half in halves), name  # type: ignore[misc]


# Names.


@pytest.mark.parametrize(
    "name",
    [
        "cuModuleLoad",
        "cuModuleLoadDataEx",
        "cuModuleLoadFatBinary",
        "cuLibraryLoadData",
        "cuLibraryLoadFromFile",
        "cudaLibraryLoadData_v12090",
        "cuLinkAddData_v2",
        "cuLinkCreate_v2",
        "cuModuleGetFunction",
        "cuLibraryGetKernel",
        "cuFuncLoad",
        "cudaFuncGetAttributes_v3020",
    ],
)
def test_calls_that_load_link_compile_or_load_lazily_are_found_in_every_version(name: str) -> None:
    assert matched(MODULE_LOADING, name)


@pytest.mark.parametrize(
    "name",
    [
        "cuModuleGetLoadingMode",
        "cuModuleUnload",
        "cuLibraryGetKernelCount",
        "cuKernelGetAttribute",
        "cudaLaunchKernel",
        "cuMemcpyHtoD_v2",
        "mycuModuleLoad",
        "cumoduleload",
    ],
)
def test_calls_that_only_ask_or_unload_are_not(name: str) -> None:
    assert matched(MODULE_LOADING, name) is None
    envelope = answer(kernel(0, 1), load(0, 1, name=name))
    assert (envelope["status"], envelope["rows"]) == ("empty", [])


# Idle time.


def test_idle_time_is_what_the_device_has_nothing_to_do_in_while_calls_run() -> None:
    envelope = answer(kernel(0, 4), kernel(6, 7), load(2, 6.5), load(8, 9), kernel(10, 11))
    [row] = rows_of(envelope)
    assert (row["count"], row["total_ms"], row["max_ms"], row["idle_ms"]) == (2, 5.5, 4.5, 3.0)


def test_copies_and_graphs_keep_a_device_busy() -> None:
    copy = Copy(2 * MS, 3 * MS, 0, 1, 7, None, 101, 8, 1)
    graph = GraphLaunch(3 * MS, 5 * MS, 0, 1, 7, None, 101, 1)
    envelope = answer(kernel(0, 2), copy, graph, load(1, 6))
    assert rows_of(envelope)[0]["idle_ms"] == 1.0
    assert envelope["status"] == "partial"


def test_a_device_that_another_process_uses_does_not_idle_for_it() -> None:
    rows = rows_of(answer(kernel(0, 1), kernel(9, 10), load(2, 5, pid=202, tid=202)))
    assert (rows[0]["total_ms"], rows[0]["idle_ms"]) == (3.0, None)


def test_over_several_devices_idle_time_is_a_sum_and_says_so() -> None:
    envelope = answer(kernel(0, 1), kernel(9, 10, device=1), load(2, 5))
    assert rows_of(envelope)[0]["idle_ms"] == 6.0
    assert "idle_ms is a sum over 2 devices" in envelope["notes"]


def test_calls_on_several_threads_at_once_idle_a_device_once() -> None:
    envelope = answer(kernel(0, 1), kernel(9, 10), load(2, 5), load(3, 6, tid=102))
    assert (rows_of(envelope)[0]["total_ms"], rows_of(envelope)[0]["idle_ms"]) == (6.0, 4.0)
    assert (envelope["totals"]["total_ms"], envelope["totals"]["busy_ms"]) == (6.0, 4.0)


def test_a_call_within_another_has_its_row_and_counts_once_in_the_times_of_all() -> None:
    envelope = answer(kernel(0, 1), kernel(9, 10), load(2, 6), load(3, 5, name="cuLinkComplete"))
    assert [(row["call"], row["total_ms"]) for row in rows_of(envelope)] == [
        ("cuModuleLoadData", 4.0),
        ("cuLinkComplete", 2.0),
    ]
    assert (envelope["totals"]["total_ms"], envelope["totals"]["busy_ms"]) == (6.0, 4.0)
    assert envelope["totals"]["idle_ms"] == 4.0


# The first step.


def steps(*starts: int) -> list[Any]:
    """A range of 4 ms with a launch and a kernel of 1 ms at each start."""
    events: list[Any] = []
    for number, start in enumerate(starts):
        events.append(Range(start * MS, (start + 4) * MS, 101, 101, f"step {number}"))
        events.append(Call((start + 1) * MS, (start + 2) * MS, 101, 101, "cudaLaunchKernel_v7000", number + 1))
        events.append(kernel(start + 2, start + 3, correlation=number + 1))
    return events


def test_calls_after_the_end_of_the_first_step_are_told_apart() -> None:
    envelope = answer(*steps(10, 20, 30), load(0, 5), load(13, 20), load(14, 15), load(31, 32))
    [row] = rows_of(envelope)
    assert (row["count"], row["after_first_step"]) == (4, 2)
    assert any("first of 3 iterations of step" in note for note in envelope["notes"])


def test_without_iterations_what_comes_after_the_first_is_unknown_and_not_zero() -> None:
    envelope = answer(*steps(10, 20), load(0, 5), load(31, 32))
    assert (rows_of(envelope)[0]["after_first_step"], envelope["totals"]["after_first_step"]) == (None, None)
    assert any("after_first_step is unknown" in note for note in envelope["notes"])


# Real captures.


@needs_shared
def test_the_figures_of_a_real_run_are_those_of_a_query_of_its_own() -> None:
    # From CUPTI_ACTIVITY_KIND_RUNTIME by name: 13,269,073 ns of cuLibraryLoadData, 844,551 ns of cuModuleLoadDataEx and
    # 27,969 ns of cuLibraryGetKernel, none of which overlap; kernels, copies and sets, merged by hand, run in 15,562 ns
    # of the first and in none of the others.
    envelope = ask("module_loading", SHARED / "captures" / "h200_cpu_bound_2025.1.sqlite")
    assert [(*row[:4], row[5]) for row in envelope["rows"]] == [
        ("cuLibraryLoadData", 13, 13.269, 2.151, 13.254),
        ("cuModuleLoadDataEx", 6, 0.845, 0.162, 0.845),
        ("cuLibraryGetKernel", 13, 0.028, 0.004, 0.028),
    ]
    assert (envelope["totals"]["busy_ms"], envelope["totals"]["idle_ms"]) == (14.142, 14.126)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_idle_time_never_exceeds_that_of_the_devices(capture: Path) -> None:
    envelope = ask("module_loading", capture)
    assert len(dump_json(envelope)) <= 6000
    if envelope["status"] in ("abstained", "empty"):
        return
    totals = envelope["totals"]
    assert totals["idle_ms"] <= exact("module_loading", capture).totals["busy_ms"] * len(envelope["scope"]["devices"])  # type: ignore[operator]
    cut = ask("module_loading", capture, max_rows=1, device=envelope["scope"]["devices"][0])
    assert len(cut["rows"]) == 1


# Scope, and what may be missing.


def test_a_device_selects_the_processes_that_use_it() -> None:
    events = [kernel(0, 1), kernel(9, 10, pid=202, device=1), load(2, 3), load(4, 7, pid=202, tid=202)]
    envelope = answer(*events, device=1)
    assert [(row["count"], row["total_ms"], row["idle_ms"]) for row in rows_of(envelope)] == [(1, 3.0, 3.0)]
    assert any("202" in note for note in envelope["notes"])


def test_a_window_cuts_calls_and_their_idle_time() -> None:
    envelope = answer(kernel(0, 1), kernel(9, 10), load(2, 6), trim=["0.004", "0.0095"])
    [row] = rows_of(envelope)
    assert (row["total_ms"], row["max_ms"], row["idle_ms"], envelope["totals"]["clipped"]) == (2.0, 4.0, 2.0, 1)


def test_a_device_without_work_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        answer(kernel(0, 1), load(2, 3), device=5)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_without_calls_it_abstains_and_says_what_to_record() -> None:
    envelope = answer(kernel(0, 1))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["calls"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")


def test_without_gpu_work_the_calls_are_told_and_idle_time_is_unknown() -> None:
    envelope = answer(load(0, 3))
    assert (envelope["status"], rows_of(envelope)[0]["idle_ms"]) == ("partial", None)
    assert any("GPU work was not recorded" in note for note in envelope["notes"])
