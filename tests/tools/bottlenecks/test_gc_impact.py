from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Domain, Kernel, Range, capture_window
from nsys_evidence.tools.measures.api_names import matched
from nsys_evidence.tools.thresholds.bottlenecks import ALLOCATION, ALLOCATIONS, MAPPING, POOL
from tests.oracle import exact, exact_rows
from tests.strategies import PIDS, ends, generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window
from tests.tools.slow_stretches import Event, events_of, figures, with_calls

MS = 10**6
KINDS = {"cudaMalloc": ALLOCATION, "cuMemFree_v2": ALLOCATION, "cudaMallocAsync_v11020": POOL, "cuMemMap": MAPPING}
OTHERS = ("cuMemGetInfo_v2", "cudaLaunchKernel")
GC_NAMES = ("gc", "python gc", "GC gen2")


def kernel(start: float, end: float, pid: int = 101, device: int = 0) -> Kernel:
    return Kernel(int(start * MS), int(end * MS), device, 1, 7, None, pid, "k")


def call(start: float, end: float, name: str = "cudaMalloc_v3020", pid: int = 101, tid: int = 101) -> Call:
    return Call(int(start * MS), int(end * MS), pid, tid, name, driver=name.startswith("cu") and name[2:3].isupper())


def gc(start: float, end: float, text: str = "gc", **more: Any) -> Range:
    return Range(int(start * MS), int(end * MS), 101, 101, text, **more)


def answer(*events: Any, **arguments: Any) -> dict[str, Any]:
    """The result about a capture of these kernels, calls and ranges."""
    parts: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        parts[{Kernel: "kernels", Call: "calls", Range: "ranges", Domain: "domains"}[type(event)]].append(event)
    return ask("gc_impact", written(Capture(**parts)), **arguments)


def seen(*names: str) -> dict[str, int]:
    """Which of these range names are told to be garbage collection, and how many ranges of each."""
    ranges = [gc(number * 10, number * 10 + 5, name) for number, name in enumerate(names)]
    envelope = answer(kernel(0, 1), call(0, 1, "cudaLaunchKernel_v7000"), *ranges)
    return {row["what"].removeprefix("NVTX range "): row["count"] for row in rows_of(envelope)}


# Against plain Python.


@st.composite
def with_gc(draw: st.DrawFn) -> Capture:
    """A generated capture with allocation calls and ranges of both styles, some of them named gc."""
    capture = draw(with_calls((*KINDS, *OTHERS)).filter(has_length))
    first, last = capture_window(capture)
    step = max(1, (last - first) // 40)
    names = st.sampled_from((*GC_NAMES, "gcn_layer"))
    for number in range(draw(st.integers(0, 6))):
        start = first + step * draw(st.integers(0, 40))
        end = start + step * draw(st.integers(0, 12))
        pid = draw(st.sampled_from((*PIDS, 301)))
        if draw(st.booleans()):
            capture.ranges.append(Range(start, end, pid, 900 + number, draw(names), style="startend", end_tid=pid))
        else:
            capture.ranges.append(Range(start, end, pid, 900 + number, draw(names)))
    return capture


@generated
@given(st.data())
def test_every_figure_agrees_with_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_gc())
    path, span = written(capture), data.draw(trims(capture))
    events: dict[str, list[Event]] = defaultdict(list)
    for found in filter(span.has, capture.calls):
        if found.name in KINDS:
            events[found.name] += events_of([found])
    for r in filter(span.has, capture.ranges):
        if r.text in GC_NAMES:
            events[f"NVTX range {r.text}"].append(Event(r.pid, *ends(r)))
    rows = {row["what"]: row for row in exact_rows("gc_impact", path, as_window(span))}
    assert rows.keys() == events.keys()
    for what, row in rows.items():
        expected = figures(capture, events[what], span)
        assert row == {"what": what, **{key: expected[key] for key in row if key != "what"}}
    by_total = [row["total_ms"] for row in rows.values()]
    assert by_total == sorted(by_total, reverse=True)
    busy = {
        kind: figures(capture, [e for what in events if KINDS.get(what, "gc") == kind for e in events[what]], span)
        for kind in (ALLOCATION, POOL, MAPPING, "gc")
    }
    recorded = bool(capture.ranges)
    assert exact("gc_impact", path, as_window(span)).totals == {
        **figures(capture, [event for mine in events.values() for event in mine], span),
        "names": len(rows),
        "alloc_ms": busy[ALLOCATION]["busy_ms"],
        "pool_ms": busy[POOL]["busy_ms"],
        "mapping_ms": busy[MAPPING]["busy_ms"],
        "gc_ms": busy["gc"]["busy_ms"] if recorded else None,
    }


# Names of calls.


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaMalloc_v3020", ALLOCATION),
        ("cudaMallocHost_v3020", ALLOCATION),
        ("cudaMallocManaged_v6000", ALLOCATION),
        ("cudaMalloc3DArray_v3020", ALLOCATION),
        ("cudaFree_v3020", ALLOCATION),
        ("cudaFreeHost", ALLOCATION),
        ("cudaHostAlloc_v3020", ALLOCATION),
        ("cuMemAlloc_v2", ALLOCATION),
        ("cuMemAllocHost_v2", ALLOCATION),
        ("cuMemAllocPitch_v2", ALLOCATION),
        ("cuMemHostAlloc", ALLOCATION),
        ("cuMemFree_v2", ALLOCATION),
        ("cuMemFreeHost", ALLOCATION),
        ("cudaMallocAsync_v11020", POOL),
        ("cudaMallocAsync_ptsz_v11020", POOL),
        ("cudaMallocFromPoolAsync_v11020", POOL),
        ("cudaFreeAsync_v11020", POOL),
        ("cuMemAllocAsync", POOL),
        ("cuMemAllocFromPoolAsync_ptsz", POOL),
        ("cuMemFreeAsync", POOL),
        ("cuMemPoolTrimTo", POOL),
        ("cudaMemPoolCreate_v11020", POOL),
        ("cuMemCreate", MAPPING),
        ("cuMemAddressFree", MAPPING),
        ("cuMemUnmap", MAPPING),
        ("cuMemGetInfo_v2", None),
        ("cudaMemGetInfo_v3020", None),
        ("cuMemGetAllocationGranularity", None),
        ("cuMemcpyHtoDAsync_v2", None),
        ("cuMemsetD8Async", None),
        ("cuMemMapArrayAsync", None),
        ("cuMemHostRegister_v2", None),
        ("cudaStreamSynchronize", None),
        ("mycudaMalloc", None),
    ],
)
def test_pool_forms_are_told_apart_from_allocation_and_what_allocates_nothing_is_neither(
    name: str, kind: str | None
) -> None:
    assert matched(ALLOCATIONS, name) == kind


def test_pool_forms_have_rows_and_times_of_their_own() -> None:
    envelope = answer(
        kernel(0, 1), kernel(20, 21), call(2, 6), call(8, 9, "cudaMallocAsync_v11020"), call(9, 11, "cuMemCreate")
    )
    assert [(row["what"], row["total_ms"]) for row in rows_of(envelope)] == [
        ("cudaMalloc", 4.0),
        ("cuMemCreate", 2.0),
        ("cudaMallocAsync_v11020", 1.0),
    ]
    totals = envelope["totals"]
    assert (totals["alloc_ms"], totals["pool_ms"], totals["mapping_ms"], totals["busy_ms"]) == (4.0, 1.0, 2.0, 7.0)


def test_a_driver_call_within_a_runtime_call_counts_once_in_the_times_of_all() -> None:
    envelope = answer(kernel(0, 1), kernel(20, 21), call(2, 6), call(3, 5, "cuMemAlloc_v2"))
    assert [row["total_ms"] for row in rows_of(envelope)] == [4.0, 2.0]
    totals = envelope["totals"]
    assert (totals["total_ms"], totals["busy_ms"], totals["alloc_ms"], totals["idle_ms"]) == (6.0, 4.0, 4.0, 4.0)


def test_two_processes_that_allocate_at_once_both_count_and_each_idles_its_own_device() -> None:
    envelope = answer(kernel(0, 1), kernel(3, 4, 202, 1), call(2, 6), call(2, 6, pid=202, tid=202))
    assert envelope["totals"]["busy_ms"] == 8.0
    assert envelope["totals"]["idle_ms"] == 4.0 + 3.0


# Names of ranges.


def test_ranges_named_gc_are_found_and_words_that_only_begin_or_end_so_are_not() -> None:
    names = ("gc", "GC", "python gc", "Python GC: gen 2", "gc.collect", "gc 3")
    others = ("bgcolor", "gcn_layer", "gc_layer", "my gc", "gcc", "GCN", "python gcn", "aten::gc", "no gc here", "")
    assert seen(*names, *others) == dict.fromkeys(names, 1)


def test_both_styles_of_range_count_in_one_row_and_marks_and_open_ranges_do_not() -> None:
    events = [gc(2, 3), gc(5, 8, style="startend"), Range(6 * MS, None, 101, 101, "gc")]
    envelope = answer(kernel(0, 1), call(0, 1, "cudaLaunchKernel"), *events)
    assert [(row["what"], row["count"], row["max_ms"]) for row in rows_of(envelope)] == [("NVTX range gc", 2, 3.0)]
    assert envelope["totals"]["gc_ms"] == 4.0


def test_a_range_in_a_domain_is_told_by_its_own_name_and_not_the_domains() -> None:
    events = [Domain(101, 1, "Python"), Domain(101, 2, "gc"), gc(2, 3, domain=1), gc(4, 5, "step", domain=2)]
    events += [gc(6, 7, domain=3), gc(8, 9, "bgcolor", domain=1)]  # domain 3 has no name
    found = rows_of(answer(kernel(0, 1), call(0, 1, "cudaLaunchKernel"), *events))
    assert [row["what"] for row in found] == ["NVTX range Python:gc", "NVTX range gc"]


def test_idle_time_during_garbage_collection_is_that_of_the_devices_of_its_process() -> None:
    envelope = answer(kernel(0, 3), kernel(9, 10), kernel(0, 10, 202, 1), gc(2, 6), call(0, 1, "cudaLaunchKernel"))
    [row] = rows_of(envelope)
    assert (row["total_ms"], row["idle_ms"]) == (4.0, 3.0)


# Real captures.


@needs_shared
def test_the_figures_of_a_real_run_are_those_of_a_query_of_its_own() -> None:
    # From CUPTI_ACTIVITY_KIND_RUNTIME by name: 11 cudaMalloc of 3,119,048 ns, the longest 805,811, and 7 cudaFree of
    # 1,628,372 ns, none of which overlap; kernels, copies and sets, merged by hand, run in 296,204 ns of the former and
    # in none of the latter. No range is named gc; MakeReshardingContiguousPass is none.
    envelope = ask("gc_impact", SHARED / "captures" / "h200_cpu_bound_2025.1.sqlite")
    assert envelope["rows"] == [["cudaMalloc", 11, 3.119, 0.806, 2.823], ["cudaFree", 7, 1.628, 1.565, 1.628]]
    assert (envelope["totals"]["alloc_ms"], envelope["totals"]["gc_ms"]) == (4.747, 0.0)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_calls_of_a_real_capture_are_those_of_cuda_api_summary(capture: Path) -> None:
    envelope = ask("gc_impact", capture)
    assert len(dump_json(envelope)) <= 6000
    if envelope["status"] == "abstained":
        return
    apis = {row["api"]: row for row in exact_rows("cuda_api_summary", capture)}
    expected = {name: (apis[name]["calls"], apis[name]["total_ms"]) for name in apis if matched(ALLOCATIONS, name)}
    rows = exact_rows("gc_impact", capture)
    assert {row["what"]: (row["count"], row["total_ms"]) for row in rows} == expected
    assert all(row["idle_ms"] <= row["total_ms"] * len(envelope["scope"]["devices"]) for row in rows)


# Scope, and what may be missing.


def test_a_window_cuts_calls_and_their_idle_time() -> None:
    envelope = answer(kernel(0, 1), kernel(9, 10), call(2, 6), gc(3, 8), trim=["0.004", "0.0095"])
    assert [(row["total_ms"], row["max_ms"], row["idle_ms"]) for row in rows_of(envelope)] == [
        (4.0, 5.0, 4.0),
        (2.0, 4.0, 2.0),
    ]
    assert (envelope["totals"]["busy_ms"], envelope["totals"]["clipped"]) == (4.0, 2)


def test_a_device_selects_the_processes_that_use_it() -> None:
    events = [kernel(0, 1), kernel(9, 10, 202, 1), call(2, 3), call(4, 7, pid=202, tid=202), gc(2, 8)]
    envelope = answer(*events, device=1)
    assert [(row["what"], row["count"]) for row in rows_of(envelope)] == [("cudaMalloc", 1)]


def test_a_device_without_work_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        answer(kernel(0, 1), call(2, 3), device=5)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_without_calls_and_gc_ranges_it_abstains_and_says_what_to_record() -> None:
    envelope = answer(kernel(0, 1), gc(0, 1, "step"))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["calls"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")


def test_without_calls_garbage_collection_is_told_and_allocation_unknown() -> None:
    envelope = answer(kernel(0, 1), gc(2, 5), kernel(8, 9))
    assert (envelope["status"], rows_of(envelope)[0]["idle_ms"]) == ("partial", 3.0)
    assert (envelope["totals"]["alloc_ms"], envelope["totals"]["pool_ms"]) == (None, None)


def test_without_ranges_garbage_collection_is_unknown_and_not_zero() -> None:
    envelope = answer(kernel(0, 1), call(2, 3))
    assert (envelope["status"], envelope["totals"]["gc_ms"]) == ("ok", None)
    assert any("NVTX ranges were not recorded" in note for note in envelope["notes"])


def test_a_capture_without_allocation_is_empty_with_zeros() -> None:
    envelope = answer(kernel(0, 1), call(0, 1, "cudaLaunchKernel_v7000"))
    assert (envelope["status"], envelope["rows"], envelope["totals"]["idle_ms"]) == ("empty", [], 0.0)
