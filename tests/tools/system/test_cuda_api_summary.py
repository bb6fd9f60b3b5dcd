from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, Gpu, Kernel, OsrtCall
from tests.oracle import Report, assert_names_agree, exact, exact_rows, with_reports
from tests.strategies import Timed, generated, has_length, trims
from tests.support import ask, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import Name, by_name, capture_span, check, host_captures, users_of

US = 1_000


def call(start: int, end: int, name: str = "cudaMalloc_v3020", pid: int = 101) -> Call:
    return Call(start * US, end * US, pid, pid, name)


def events(capture: Capture) -> list[tuple[Name, Timed]]:
    return [((one.name.removesuffix("_v7000").removesuffix("_v3020"),), one) for one in capture.calls]


# Against nsys stats.


@with_reports("cuda_api_sum")
def test_every_api_agrees_with_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    assert_names_agree(exact_rows("cuda_api_summary", capture), ["api"], "calls", report)
    totals = exact("cuda_api_summary", capture).totals
    assert totals == {
        "apis": len(report),
        "calls": sum(int(line["Num Calls"]) for line in report),
        "total_ms": sum(int(line["Total Time (ns)"]) for line in report),
        "clipped": 0,
    }


# Against sums in plain Python.


@generated
@given(st.data())
def test_rows_and_totals_agree_with_sums_in_plain_python(data: st.DataObject) -> None:
    capture = data.draw(host_captures().filter(lambda c: bool(c.calls)))
    path, whole = written(capture), capture_span(capture)
    check(ask("cuda_api_summary", path), by_name(events(capture), whole), whole, "apis", "calls")
    if has_length(capture):
        span = data.draw(trims(capture))
        envelope = ask("cuda_api_summary", path, trim=span.trim)
        check(envelope, by_name(events(capture), span), span, "apis", "calls")
    device = data.draw(st.sampled_from(sorted({kernel.device for kernel in capture.kernels} or {None})))
    if device is not None:
        users = users_of(capture, device)
        mine = [(name, one) for name, one in events(capture) if one.pid in users]  # type: ignore[attr-defined]
        check(ask("cuda_api_summary", path, device=device), by_name(mine, whole), whole, "apis", "calls")


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(host_captures().filter(lambda c: bool(c.calls) and has_length(c)))
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("cuda_api_summary", path, as_window(window)).totals["total_ms"] for window in windows]
    assert totals[0] == totals[1] + totals[2]  # type: ignore[operator]


def test_a_call_cut_by_the_window_counts_in_part_and_its_statistics_are_whole() -> None:
    path = written(Capture(calls=[call(0, 10), call(8, 14), call(100, 101)]))
    envelope = ask("cuda_api_summary", path, trim=["0", "0.000009"])
    [row] = rows_of(envelope)
    assert (row["calls"], row["total_ms"], row["max_us"], row["avg_us"]) == (2, 0.01, 10.0, 8.0)
    assert envelope["totals"]["clipped"] == 2


# Order, pages, threads and processes.


def test_equal_totals_stand_in_the_order_of_their_names_whatever_the_page() -> None:
    names = ["cudaFree", "cuInit", "cudaMalloc", "cuCtxCreate"]
    path = written(Capture(calls=[call(place, place + 1, name) for place, name in enumerate(names)]))
    ordered = sorted(names)
    assert [row["api"] for row in rows_of(ask("cuda_api_summary", path))] == ordered
    pages = [ask("cuda_api_summary", path, max_rows=1, offset=place) for place in range(4)]
    assert [page["rows"][0][0] for page in pages] == ordered
    assert all(page["totals"] == pages[0]["totals"] for page in pages)


def test_a_page_beyond_the_end_has_no_rows_and_the_same_totals() -> None:
    path = written(Capture(calls=[call(0, 1)]))
    envelope = ask("cuda_api_summary", path, offset=5)
    assert (envelope["rows"], envelope["totals"]["calls"], envelope["status"]) == ([], 1, "ok")


def test_calls_at_once_on_several_threads_add_up_beyond_the_window() -> None:
    calls = [Call(0, 10 * US, 101, tid, "cudaStreamSynchronize_v3020") for tid in (101, 102, 103)]
    envelope = ask("cuda_api_summary", written(Capture(calls=calls)))
    assert (envelope["scope"]["span_ms"], envelope["totals"]["total_ms"]) == (0.01, 0.03)


def test_a_chosen_device_narrows_to_the_processes_that_use_it_and_says_which() -> None:
    capture = Capture(
        kernels=[Kernel(0, 10 * US, 0, 1, 7, None, 101, "k"), Kernel(0, 10 * US, 1, 1, 7, None, 102, "k")],
        calls=[call(0, 1), call(0, 2, "cudaFree", pid=102), call(0, 4, "cuInit", pid=103)],
        gpus=[Gpu(2, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 2)],
    )
    path = written(capture)
    assert [row["api"] for row in rows_of(ask("cuda_api_summary", path))] == ["cuInit", "cudaFree", "cudaMalloc"]
    second = ask("cuda_api_summary", path, device=1)
    assert [row["api"] for row in rows_of(second)] == ["cudaFree"]
    assert second["notes"] == ["only of processes that use the device: 102"]
    idle = ask("cuda_api_summary", path, device=2)
    assert (idle["status"], idle["rows"], idle["notes"]) == ("empty", [], ["no process uses the device"])


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("cuda_api_summary", written(Capture(calls=[call(0, 1)])), device=0)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


# What may be missing.


def test_a_window_without_calls_is_empty() -> None:
    path = written(Capture(calls=[call(0, 1), call(100, 101)]))
    envelope = ask("cuda_api_summary", path, trim=["0.000050", "0.000060"])
    assert (envelope["status"], envelope["rows"], envelope["totals"]["calls"]) == ("empty", [], 0)


def test_a_capture_without_calls_abstains_and_says_what_to_record() -> None:
    envelope = ask("cuda_api_summary", written(Capture(osrt_calls=[OsrtCall(0, 10, 101, 101, "poll")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["calls"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")


def test_versions_of_one_call_are_one_row_and_five_digits_are_kept() -> None:
    calls = [call(0, 1), call(2, 4, "cudaMalloc"), call(5, 6, "cudaLaunchKernelExC_v11060")]
    rows = rows_of(ask("cuda_api_summary", written(Capture(calls=calls))))
    assert [(row["api"], row["calls"]) for row in rows] == [("cudaMalloc", 2), ("cudaLaunchKernelExC_v11060", 1)]
