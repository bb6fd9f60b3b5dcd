from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.host_class import host_class
from nsys_evidence.ingest.synthetic import Call, Capture, Gpu, Kernel, OsrtCall, Sync
from nsys_evidence.ingest.synthetic.truth import length
from nsys_evidence.ingest.tables import HOST_CLASSES
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.thresholds.system import SYNC_TYPES
from tests.oracle import exact, exact_rows
from tests.strategies import Span, captures, generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, clipped, halves
from tests.tools.slow_by_name import capture_span, users_of

US = 1_000
TYPE_OF = {
    "cudaDeviceSynchronize_v3020": "device",
    "cudaThreadSynchronize_v3020": "device",
    "cuCtxSynchronize": "device",
    "cuCtxSynchronize_v2": "device",
    "cudaStreamSynchronize_ptsz_v7000": "stream",
    "cuStreamSynchronize": "stream",
    "cudaEventSynchronize_v3020": "event",
    "cuEventSynchronize": "event",
}
OF_RECORDS = {
    "cudaDeviceSynchronize": "device",
    "cudaStreamSynchronize": "stream",
    "cudaEventSynchronize": "event",
    "cudaStreamWaitEvent": "stream_wait",
    "cudaEventQuery": "query",
    "cudaStreamQuery": "query",
}
CODES = {1: "event", 2: "stream_wait", 3: "stream", 4: "device"}
Key = tuple[int, int, str]


def call(start: int, end: int, name: str, tid: int = 101, pid: int = 101, correlation: int | None = None) -> Call:
    return Call(start * US, end * US, pid, tid, name, correlation, driver=name.startswith("cuC"))


def record(start: int, end: int, code: int, correlation: int | None = None, context: int = 1, pid: int = 101) -> Sync:
    return Sync(start * US, end * US, 0, context, 7, correlation, pid, code)


@st.composite
def waiting_hosts(draw: st.DrawFn) -> Capture:
    """A generated capture with threads that wait, at once and within one another, and what CUPTI recorded of it."""
    capture = draw(captures())
    first, last = (capture_span(capture).start, capture_span(capture).end)
    instant = st.integers(first, last)
    for place in range(draw(st.integers(0, 10))):
        start, end = sorted((draw(instant), draw(instant)))
        pid = draw(st.sampled_from([process.pid for process in capture.processes]))
        tid, correlation = pid + draw(st.integers(0, 1)), 1000 + place
        name = draw(
            st.sampled_from((*TYPE_OF, "cudaStreamWaitEvent_v3020", "cudaMalloc_v3020", "cudaEventQuery_v3020"))
        )
        capture.calls.append(Call(start, end, pid, tid, name, correlation))
        if "Synchronize" in name and draw(st.booleans()):
            inner = Call(start, max(start, end - 1), pid, tid, "cuCtxSynchronize", correlation, driver=True)
            capture.calls.append(inner)
    for _ in range(draw(st.integers(0, 5))):
        start, end = sorted((draw(instant), draw(instant)))
        pid = draw(st.sampled_from([process.pid for process in capture.processes]))
        context, code = draw(st.integers(1, 2)), draw(st.integers(0, 5))
        capture.syncs.append(Sync(start, end, 0, context, 7, draw(st.integers(998, 1004)), pid, code))
    return capture


# The slow and obvious method.


def waits(capture: Capture, span: Span) -> dict[Key, list[Call]]:
    found: dict[Key, list[Call]] = defaultdict(list)
    for one in capture.calls:
        if one.name in TYPE_OF and span.has(one):
            found[one.pid, one.tid, TYPE_OF[one.name]].append(one)
    return found


def busy(calls: Sequence[Call], span: Span) -> int:
    return length(clipped(calls, span))


def of_process(groups: dict[Key, list[Call]], pid: int) -> list[Call]:
    return [one for key, calls in groups.items() if key[0] == pid for one in calls]


@generated
@given(st.data())
def test_rows_processes_and_totals_are_those_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(waiting_hosts().filter(lambda found: bool(found.calls)))
    path = written(capture)
    span = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else capture_span(capture)
    result, groups = exact("sync_cost_analysis", path, as_window(span)), waits(capture, span)
    window = span.end - span.start
    rows = {(row[0], row[1], row[2]): tuple(row[3:]) for row in result.rows}
    assert len(rows) == len(result.rows) == result.total_rows
    assert rows == {
        key: (
            len(calls),
            sum(map(span.part, calls)),
            busy(calls, span),
            pytest.approx(busy(calls, span) / window) if window else None,
        )
        for key, calls in groups.items()
    }
    order = [(-row[5], row[0], row[1], row[2]) for row in result.rows]  # type: ignore[operator]
    assert order == sorted(order)  # type: ignore[type-var]
    unions = {pid: busy(of_process(groups, pid), span) for pid, _, _ in groups}
    shown = {row[0]: tuple(row[1:5]) for row in result.tables["processes"].rows}
    assert shown == {
        pid: (
            len({key[1] for key in groups if key[0] == pid}),
            len(of_process(groups, pid)),
            sum(map(span.part, of_process(groups, pid))),
            union,
        )
        for pid, union in unions.items()
    }
    every = [one for calls in groups.values() for one in calls]
    processes = len({one.pid for one in capture.calls})
    share = pytest.approx(sum(unions.values()) / window / processes) if window else None
    assert result.totals == {
        "processes": processes,
        "threads": len({key[:2] for key in groups}),
        "calls": len(every),
        "total_ms": sum(map(span.part, every)),
        "busy_ms": sum(unions.values()),
        "busy_pct": share,
        "clipped": sum(map(span.cuts, every)),
    }


@generated
@given(st.data())
def test_records_are_of_the_type_of_their_call_and_of_their_code_where_it_is_not_known(data: st.DataObject) -> None:
    capture = data.draw(waiting_hosts().filter(lambda found: bool(found.calls and found.syncs)))
    path = written(capture)
    span = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else capture_span(capture)
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for sync in filter(span.has, capture.syncs):
        names = [one.name for one in capture.calls if (one.pid, one.correlation) == (sync.pid, sync.correlation)]
        bare = [name.split("_")[0].replace("cudaThread", "cudaDevice") for name in names if not name.startswith("cuC")]
        told = {OF_RECORDS[name.replace("cuS", "cudaS").replace("cuE", "cudaE")] for name in bare if kind(name)}
        told |= {"device" for name in names if name.startswith("cuC")}
        figures = found[sync.pid, min(told, default=CODES.get(sync.sync_type, "unknown"))]
        for place, more in enumerate((1, span.part(sync), not told)):
            figures[place] += more
    shown: dict[tuple[Any, Any], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in exact("sync_cost_analysis", path, as_window(span)).tables["records"].rows:
        for place, more in enumerate(row[3:]):
            shown[row[0], row[2]][place] += more  # type: ignore[operator]
    assert shown == found


def kind(name: str) -> bool:
    return "Synchronize" in name or "Query" in name or "WaitEvent" in name


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(waiting_hosts().filter(lambda c: bool(c.calls) and has_length(c)))
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("sync_cost_analysis", path, as_window(window)).totals for window in windows]
    for name in ("total_ms", "busy_ms"):
        assert totals[0][name] == totals[1][name] + totals[2][name]  # type: ignore[operator]


def test_every_call_that_blocks_the_host_by_its_class_has_a_type() -> None:
    sync = HOST_CLASSES.index("sync")
    names = [prefix + pattern for prefix in ("cuda", "cu") for pattern, _ in SYNC_TYPES.rows]
    blocking = {name for name in names if host_class(name) == sync}
    assert {kind for pattern, kind in SYNC_TYPES.rows if f"cuda{pattern}" in blocking} == {"stream", "event", "device"}
    calls = [call(place, place + 1, name) for place, name in enumerate(sorted(blocking))]
    assert sum(row["calls"] for row in rows_of(ask("sync_cost_analysis", written(Capture(calls=calls))))) == len(calls)


# Against the other skills, and figures of a real capture.


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_no_other_skill_says_otherwise_of_a_real_capture(capture: Path) -> None:
    if ask("sync_cost_analysis", capture)["status"] == "abstained":
        return
    totals = exact("sync_cost_analysis", capture).totals
    apis = [row for row in exact_rows("cuda_api_summary", capture) if host_class(row["api"]) == 0]
    assert totals["calls"] == sum(row["calls"] for row in apis)
    assert totals["total_ms"] == sum(row["total_ms"] for row in apis)
    scope = ask("pipeline_bubble_metrics", capture)
    if scope["status"] == "abstained":
        return
    for row in rows_of(scope):  # of the same window, and of the processes of the device
        trim = [scope["scope"]["start_s"], scope["scope"]["end_s"]]
        mine = ask("sync_cost_analysis", capture, device=row["device"], trim=trim)
        assert row["host_sync_ms"] == mine["totals"]["busy_ms"]


@needs_shared
def test_the_golden_figures_of_a_real_capture() -> None:
    # By queries of the export (sqlite3): RUNTIME rows named cudaStreamSynchronize_v3020, 4 of each of two processes,
    # 428,486,689 and 428,442,762 ns, none overlapping; 118 SYNCHRONIZATION rows of cudaStreamWaitEvent each.
    envelope = ask("sync_cost_analysis", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite")
    assert envelope["rows"] == [
        [111, 111, "stream", 4, 428.487, 428.487, 44.2],
        [112, 112, "stream", 4, 428.443, 428.443, 44.19],
    ]
    assert envelope["totals"]["busy_ms"] == 856.929
    assert envelope["totals"]["busy_pct"] == 44.2  # of the window times two processes
    assert [row[:4] for row in envelope["tables"]["records"]["rows"]][2:] == [
        [111, 0, "stream_wait", 118],
        [112, 1, "stream_wait", 118],
    ]
    assert len(dump_json(envelope)) < 6_000


@needs_shared
def test_a_record_of_an_older_nsys_has_the_type_of_its_call_though_its_code_says_otherwise() -> None:
    # The export has code 2, in CUPTI's words a stream waiting for an event, of cudaStreamSynchronize; 4 of the device.
    envelope = ask("sync_cost_analysis", SHARED / "captures" / "h200_cpu_bound_2025.1.sqlite")
    assert [row[2:4] for row in envelope["tables"]["records"]["rows"]] == [["device", 1], ["stream", 2]]


# Faults that others made, on the smallest inputs.


def test_threads_that_wait_at_once_never_exceed_the_window() -> None:
    calls = [call(0, 10, "cudaStreamSynchronize_v3020", tid=tid) for tid in (101, 102, 103)]
    envelope = ask("sync_cost_analysis", written(Capture(calls=calls)))
    assert [row["busy_pct"] for row in rows_of(envelope)] == [100.0] * 3
    assert (envelope["totals"]["total_ms"], envelope["totals"]["busy_ms"]) == (0.03, 0.01)
    assert envelope["totals"]["busy_pct"] == 100.0


def test_a_driver_call_within_a_runtime_call_counts_in_calls_and_total_and_once_in_busy() -> None:
    calls = [call(0, 10, "cudaDeviceSynchronize_v3020"), call(1, 9, "cuCtxSynchronize"), call(10, 20, "cudaFree")]
    [row] = rows_of(ask("sync_cost_analysis", written(Capture(calls=calls))))
    assert [row[name] for name in ("type", "calls", "total_ms", "busy_ms", "busy_pct")] == [
        "device",
        2,
        0.018,
        0.01,
        50,
    ]


def test_processes_are_added_up_against_the_window_of_each_of_them_waiting_or_not() -> None:
    calls = [call(0, 10, "cudaDeviceSynchronize"), call(0, 6, "cudaEventSynchronize", tid=102, pid=102)]
    calls += [call(0, 10, "cudaMalloc", tid=tid, pid=tid) for tid in (103, 104)]
    totals = ask("sync_cost_analysis", written(Capture(calls=calls)))["totals"]
    assert (totals["processes"], totals["threads"], totals["busy_ms"], totals["busy_pct"]) == (4, 2, 0.016, 40.0)


def test_the_share_has_the_same_denominator_whether_anything_waits_in_the_window_or_not() -> None:
    calls = [call(0, 10, "cudaDeviceSynchronize"), call(50, 60, "cudaMalloc", pid=102, tid=102)]
    path = written(Capture(calls=calls))
    for trim, share in ((["0", "0.00001"], 50.0), (["0.00005", "0.00006"], 0.0)):
        totals = ask("sync_cost_analysis", path, trim=trim)["totals"]
        assert (totals["processes"], totals["busy_pct"]) == (2, share)


def test_what_waits_outside_the_window_is_no_cost_in_it() -> None:
    path = written(Capture(calls=[call(0, 857, "cudaDeviceSynchronize"), call(900, 960, "cudaMalloc")]))
    syncs = ask("sync_cost_analysis", path, trim=["0.0009", "0.00096"])
    assert (syncs["status"], syncs["rows"], syncs["totals"]["busy_ms"]) == ("empty", [], 0.0)
    assert syncs["tables"]["processes"]["rows"] == []
    [cut] = rows_of(ask("sync_cost_analysis", path, trim=["0.0008", "0.0009"]))
    assert (cut["calls"], cut["total_ms"], cut["busy_pct"]) == (1, 0.057, 57.0)


def test_waiting_of_the_gpu_and_queries_are_no_cost_of_the_host() -> None:
    calls = [call(0, 10, name) for name in ("cudaStreamWaitEvent_v3020", "cudaEventQuery_v3020", "cudaStreamQuery")]
    calls += [call(0, 10, name) for name in ("cudaMemcpy_v3020", "cudaMalloc_v3020")]
    assert ask("sync_cost_analysis", written(Capture(calls=calls)))["status"] == "empty"


def test_codes_alone_tell_types_and_the_answer_says_that_they_did() -> None:
    syncs = [record(place, place + 1, code) for place, code in enumerate((0, 1, 2, 3, 4, 9))]
    capture = Capture([Kernel(0, 5 * US, 3, 1, 7, None, 101, "k")], calls=[call(0, 10, "cudaMalloc")], syncs=syncs)
    envelope = ask("sync_cost_analysis", written(capture))
    records = rows_of(envelope, "records")
    assert {row["type"]: row["by_code"] for row in records} == {
        **dict.fromkeys(("event", "stream_wait", "stream", "device"), 1),
        "unknown": 2,
    }
    assert {row["device"] for row in records} == {3}
    assert any("6 synchronisation records is told by their code" in note for note in envelope["notes"])


def test_the_device_of_a_context_without_work_or_on_several_devices_is_unknown() -> None:
    kernels = [Kernel(0, 5 * US, device, 1, 7, None, 101, "k") for device in (0, 1)]
    syncs = [record(0, 1, 3), record(0, 1, 3, context=2)]
    capture = Capture(kernels, calls=[call(0, 10, "cudaMalloc")], syncs=syncs)
    [row] = rows_of(ask("sync_cost_analysis", written(capture)), "records")
    assert (row["device"], row["records"]) == (None, 2)


# Scope, and what may be missing.


def test_a_chosen_device_narrows_to_the_processes_that_use_it() -> None:
    kernels = [Kernel(0, 10 * US, pid - 101, 1, 7, None, pid, "k") for pid in (101, 102)]
    calls = [call(0, 4, "cudaDeviceSynchronize"), call(0, 10, "cudaDeviceSynchronize", tid=102, pid=102)]
    capture = Capture(kernels, calls=calls, gpus=[Gpu(2, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 2)])
    path = written(capture)
    assert users_of(capture, 0) == {101}
    envelope = ask("sync_cost_analysis", path, device=0)
    assert ([row["process"] for row in rows_of(envelope)], envelope["totals"]["busy_pct"]) == ([101], 40.0)
    assert envelope["notes"][0] == "only of processes that use the device: 101"
    idle = ask("sync_cost_analysis", path, device=2)
    assert (idle["status"], idle["totals"]["processes"], idle["totals"]["busy_pct"]) == ("empty", 0, None)
    with pytest.raises(EvidenceError) as refused:
        ask("sync_cost_analysis", path, device=5)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_a_page_has_its_rows_and_the_totals_of_all() -> None:
    calls = [call(0, 10 - place, "cudaDeviceSynchronize", tid=101 + place) for place in range(3)]
    path = written(Capture(calls=calls))
    page, whole = ask("sync_cost_analysis", path, max_rows=1, offset=1), ask("sync_cost_analysis", path)
    assert (page["rows"], page["totals"], page["tables"]) == (whole["rows"][1:2], whole["totals"], whole["tables"])


def test_without_calls_it_abstains_and_says_what_to_record() -> None:
    envelope = ask("sync_cost_analysis", written(Capture(osrt_calls=[OsrtCall(0, 10, 101, 101, "poll")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["calls"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")
    assert all_skills()["sync_cost_analysis"].window == "capture"
