from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, CudaDevice, Domain, Gpu, GraphLaunch, Kernel, Range
from nsys_evidence.ingest.synthetic.truth import length
from tests.oracle import exact, exact_rows
from tests.strategies import (
    Span,
    all_work,
    call_of,
    captures,
    containing_ranges,
    ends,
    generated,
    has_length,
    shown_range,
    trims,
)
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window

US = 1_000
H100 = ("NVIDIA H100 80GB HBM3", "GH100", 3_352_320_000_000, 84_942_979_072, 132)
MATCH = {"contains": str.__contains__, "exact": str.__eq__, "startswith": str.startswith}


def launched(
    start: int, end: int, number: int, at: int, *, device: int = 0, pid: int = 101, tid: int = 101, name: str = "scale"
) -> tuple[Kernel, Call]:
    kernel = Kernel(start * US, end * US, device, 1, 7, number, pid, name)
    return kernel, Call(at * US, (at + 1) * US, pid, tid, "cudaLaunchKernel_v7000", number)


def capture_of(pairs: list[tuple[Kernel, Call]], ranges: list[Range], gpus: int = 1, **more: Any) -> Path:
    kernels, calls = [kernel for kernel, _ in pairs], [call for _, call in pairs]
    known = [Gpu(number, *H100, number) for number in range(gpus)]
    return written(Capture(kernels, calls=calls, ranges=ranges, gpus=known, **more))


def region(start: int, end: int, text: str = "step", pid: int = 101, tid: int = 101) -> Range:
    return Range(start * US, end * US, pid, tid, text)


def simple(**more: Any) -> Path:
    """One range of 10 µs on the host, and 20 µs of GPU work in a span of 25."""
    pairs = [launched(5, 15, 1, 1), launched(10, 20, 2, 3), launched(25, 30, 3, 8), launched(50, 60, 4, 40)]
    return capture_of(pairs, [region(0, 10)], **more)


# Against the slow and obvious method.


@generated
@given(st.data())
def test_every_figure_of_an_occurrence_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda found: bool(found.kernels and found.ranges)))
    path = written(capture)
    mode, name = data.draw(st.sampled_from([("contains", "e"), ("exact", "step 1"), ("startswith", "step")]))
    window = data.draw(trims(capture)) if has_length(capture) else None
    if window is None:
        return
    matches = [r for r in capture.ranges if MATCH[mode](shown_range(r), name) and window.begins(r)]
    params: dict[str, Any] = {"name": name, "match_mode": mode, "theoretical_flops": "997.25", "peak_tflops": 10**6}
    if not matches:
        assert exact("region_mfu", path, as_window(window), **params).rows == []
        return
    working = {work.pid for work in all_work(capture)}
    pid = min({r.pid for r in matches}, key=lambda pid: (pid not in working, pid))
    mine = [r for r in matches if r.pid == pid]
    mine.sort(key=lambda r: (ends(r)[0], -ends(r)[1], r.tid, shown_range(r)))
    number = data.draw(st.integers(1, len(mine)))
    gpus = data.draw(st.integers(1, 3))
    [row] = exact_rows("region_mfu", path, as_window(window), **params, occurrence_index=number, num_gpus=gpus)
    chosen = mine[number - 1]
    inside = [
        work
        for work in all_work(capture)
        if any(r is chosen for r in containing_ranges(capture, call_of(capture, work)))
    ]
    host = ends(chosen)[1] - ends(chosen)[0]
    span = max(ends(w)[1] for w in inside) - min(ends(w)[0] for w in inside) if inside else None
    share = Fraction("997.25") / gpus
    achieved = share / span if span else None
    on_host = share / host if host and inside else None
    assert (row["region"], row["process"], row["tid"]) == (shown_range(chosen), pid, chosen.tid)
    assert (row["occurrence"], row["occurrences"]) == (number, len(mine))
    assert (row["host_ms"], row["gpu_ms"], row["busy_ms"]) == (host, span, length(map(ends, inside)))
    assert row["kernels"] == sum(isinstance(work, Kernel) for work in inside)
    assert (row["achieved_tflops"], row["host_achieved_tflops"]) == (achieved, on_host)
    assert row["mfu_pct"] == (None if achieved is None else achieved / 10**9)
    assert row["host_mfu_pct"] == (None if on_host is None else on_host / 10**9)


@generated
@given(captures().filter(lambda found: bool(found.kernels)))
def test_occurrences_of_a_kernel_are_its_launches_in_order(capture: Capture) -> None:
    path = written(capture)
    window = Span(min(ends(k)[0] for k in capture.kernels), max(ends(k)[1] for k in capture.kernels), True)
    pid = min(k.pid for k in capture.kernels)
    name = min(k.name for k in capture.kernels if k.pid == pid)
    pid = min(k.pid for k in capture.kernels if k.name == name)
    launches = sorted(ends(k) for k in capture.kernels if (k.name, k.pid) == (name, pid))
    found = []
    for number in range(1, len(launches) + 1):
        params = {"name": name, "match_mode": "exact", "theoretical_flops": 7, "peak_tflops": 10**6}
        [row] = exact_rows("region_mfu", path, as_window(window), source="kernel", occurrence_index=number, **params)
        assert (row["host_ms"], row["host_mfu_pct"], row["kernels"]) == (None, None, 1)
        assert (row["process"], row["occurrences"], row["busy_ms"]) == (pid, len(launches), row["gpu_ms"])
        assert row["achieved_tflops"] == (Fraction(7, row["gpu_ms"]) if row["gpu_ms"] else None)
        found.append(row["gpu_ms"])
    assert Counter(found) == Counter(end - start for start, end in launches)
    assert found == [end - start for start, end in launches]


# By hand.


def test_a_region_by_hand() -> None:
    # 5 to 30 µs: 12.3675e9 FLOP in 25 µs are 494.7 TFLOPS, half of 989.4. On the host 10 µs: 1236.75 TFLOPS, 125 %.
    envelope = ask("region_mfu", simple(), name="step", theoretical_flops="12.3675e9")
    [row] = rows_of(envelope)
    assert (row["host_ms"], row["gpu_ms"], row["busy_ms"], row["kernels"]) == (0.01, 0.025, 0.02, 3)
    assert (row["achieved_tflops"], row["mfu_pct"], row["peak_tflops"]) == (494.7, 50.0, 989.4)
    assert row["peak_source"] == "H100 SXM: H100 architecture whitepaper, bf16 dense tensor"
    assert (row["host_achieved_tflops"], row["host_mfu_pct"]) == (None, None)
    assert any("125.00 %" in note for note in envelope["notes"])


def test_gpus_share_the_flops() -> None:
    [one] = rows_of(ask("region_mfu", simple(), name="step", theoretical_flops="4e9"))
    [two] = rows_of(ask("region_mfu", simple(), name="step", theoretical_flops="8e9", num_gpus=2))
    assert (two["achieved_tflops"], two["mfu_pct"]) == (one["achieved_tflops"], one["mfu_pct"]) == (160.0, 16.17)


def test_work_on_more_devices_than_num_gpus_is_pointed_out() -> None:
    pairs = [launched(5, 15, 1, 1), launched(5, 15, 2, 3, device=1)]
    path = capture_of(pairs, [region(0, 10)], gpus=2)
    assert any("ran on 2 devices" in n for n in ask("region_mfu", path, name="step", theoretical_flops=1e9)["notes"])
    both = ask("region_mfu", path, name="step", theoretical_flops=1e9, num_gpus=2)
    assert not any("devices" in note for note in both["notes"])
    assert rows_of(both)[0]["busy_ms"] == 0.01


@pytest.mark.parametrize("flops", ["2.5e11", "1e30"])
def test_an_mfu_above_100_is_no_answer_and_its_figure_is_named(flops: str) -> None:
    envelope = ask("region_mfu", simple(), name="step", theoretical_flops=flops)
    assert (envelope["status"], envelope["rows"], envelope["totals"]) == ("abstained", [], None)
    assert " % of the peak" in envelope["reason"]
    assert ("1010.71 %" in envelope["reason"]) == (flops == "2.5e11")


@pytest.mark.parametrize("flops", [0, -1, "0", "nan", "inf", "1e31", "many"])
def test_flops_that_cannot_be_are_refused(flops: object) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("region_mfu", simple(), name="step", theoretical_flops=flops)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT


def test_flops_are_exact_beyond_what_a_double_holds() -> None:
    pairs = [launched(0, 10**7, 1, 1)]
    path = capture_of(pairs, [region(0, 10)])
    [row] = exact_rows("region_mfu", path, name="step", theoretical_flops="9007199254740993")
    assert row["achieved_tflops"] == Fraction(9007199254740993, 10**10)


def test_an_unknown_gpu_has_a_rate_and_no_mfu() -> None:
    pairs = [launched(5, 15, 1, 1)]
    path = written(Capture([pairs[0][0]], calls=[pairs[0][1]], ranges=[region(0, 10)]))
    envelope = ask("region_mfu", path, name="step", theoretical_flops="1e9")
    [row] = rows_of(envelope)
    assert (envelope["status"], row["achieved_tflops"]) == ("partial", 100.0)
    assert (row["mfu_pct"], row["host_mfu_pct"], row["peak_tflops"]) == (None, None, None)
    assert any("peak_tflops" in note for note in envelope["notes"])


def test_occurrences_are_counted_inside_one_process_and_a_device_chooses_it() -> None:
    pairs = [launched(5, 15, 1, 1), launched(5, 25, 1, 1, device=1, pid=202, tid=202)]
    maps = [CudaDevice(number, number, pid) for number in (0, 1) for pid in (101, 202)]
    path = capture_of(pairs, [region(0, 10), region(0, 10, pid=202, tid=202)], gpus=2, cuda_devices=maps)
    first = ask("region_mfu", path, name="step", theoretical_flops="1e9")
    [row] = rows_of(first)
    assert (row["process"], row["occurrences"], row["gpu_ms"]) == (101, 1, 0.01)
    assert any("2 processes match" in note for note in first["notes"])
    [other] = rows_of(ask("region_mfu", path, name="step", theoretical_flops="1e9", device=1))
    assert (other["process"], other["gpu_ms"]) == (202, 0.02)


def test_an_occurrence_that_is_not_there_is_refused_with_the_range_there_is() -> None:
    path = capture_of([launched(5, 15, 1, 1)], [region(0, 10, "step 1"), region(20, 30, "step 2")])
    assert (
        rows_of(ask("region_mfu", path, name="step", theoretical_flops=1, occurrence_index=2))[0]["region"] == "step 2"
    )
    with pytest.raises(EvidenceError) as refused:
        ask("region_mfu", path, name="step", theoretical_flops=1, occurrence_index=3)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert "from 1 to 2" in refused.value.hint


def test_a_name_of_a_domain_is_matched_as_it_is_shown() -> None:
    ranges = [Range(0, 10 * US, 101, 101, "step", domain=1)]
    path = capture_of([launched(5, 15, 1, 1)], ranges, domains=[Domain(101, 1, "Lib")])
    [row] = rows_of(ask("region_mfu", path, name="Lib:step", match_mode="exact", theoretical_flops="1e9"))
    assert (row["region"], row["kernels"]) == ("Lib:step", 1)
    assert ask("region_mfu", path, name="step", match_mode="exact", theoretical_flops=1)["status"] == "empty"


def test_a_name_that_nothing_has_is_empty_and_names_what_there_is() -> None:
    for source, there in (("nvtx", "'step'"), ("kernel", "'scale'")):
        envelope = ask("region_mfu", simple(), name="no such", theoretical_flops=1, source=source)
        assert (envelope["status"], envelope["rows"]) == ("empty", [])
        assert there in envelope["notes"][0]


def test_what_other_threads_launch_meanwhile_is_not_counted_but_told() -> None:
    pairs = [launched(5, 15, 1, 1), launched(5, 40, 2, 3, tid=102)]
    envelope = ask("region_mfu", capture_of(pairs, [region(0, 10)]), name="step", theoretical_flops="1e9")
    assert rows_of(envelope)[0]["gpu_ms"] == 0.01
    assert any("1 kernels that other threads" in note for note in envelope["notes"])


def test_a_region_is_whole_where_it_crosses_the_window_and_not_there_where_it_starts_before() -> None:
    path = simple()
    late = ask("region_mfu", path, name="step", theoretical_flops="1e9", trim=["0", "0.000012"])
    assert rows_of(late)[0]["gpu_ms"] == 0.025
    assert any("beyond the window" in note for note in late["notes"])
    assert ask("region_mfu", path, name="step", theoretical_flops="1e9", trim=["0.000001", "0.00003"])["rows"] == []


def test_a_region_without_gpu_work_has_no_rate() -> None:
    path = capture_of([launched(50, 60, 1, 40)], [region(0, 10)])
    envelope = ask("region_mfu", path, name="step", theoretical_flops="1e9")
    [row] = rows_of(envelope)
    assert (row["gpu_ms"], row["busy_ms"], row["achieved_tflops"], row["host_achieved_tflops"]) == (
        None,
        0.0,
        None,
        None,
    )
    assert envelope["status"] == "partial"


def test_whole_graphs_in_the_region_count_and_make_the_answer_partial() -> None:
    graph = GraphLaunch(15 * US, 35 * US, 0, 1, 9, 9, 101, 1)
    pair = launched(5, 15, 1, 1)
    launch = Call(3 * US, 4 * US, 101, 101, "cudaGraphLaunch_v10000", 9)
    path = written(
        Capture(
            [pair[0]], calls=[pair[1], launch], ranges=[region(0, 10)], graph_launches=[graph], gpus=[Gpu(0, *H100, 0)]
        )
    )
    envelope = ask("region_mfu", path, name="step", theoretical_flops="1e9")
    assert (envelope["status"], rows_of(envelope)[0]["gpu_ms"], rows_of(envelope)[0]["kernels"]) == ("partial", 0.03, 1)


def test_what_is_missing_or_absent_is_said() -> None:
    no_ranges = ask("region_mfu", capture_of([launched(5, 15, 1, 1)], []), name="step", theoretical_flops=1)
    assert (no_ranges["status"], no_ranges["missing"]) == ("abstained", ["nvtx"])
    empty = ask("region_mfu", written(Capture()), name="step", theoretical_flops=1)
    assert (empty["status"], empty["missing"]) == ("abstained", ["kernels"])
    assert empty["capture_hint"].startswith("nsys profile")
    with pytest.raises(EvidenceError) as refused:
        ask("region_mfu", simple(), name="step", theoretical_flops=1, device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


@needs_shared
def test_the_nccl_capture_by_hand() -> None:
    # The first flash_attn range of process 144 (op_id = 990813) launches one kernel of 156,032 ns: range, call and
    # kernel joined by thread, time and correlation id in an independent query. 1e11 / 156,032 = 640.894 TFLOPS, of
    # 989.4 that is 64.78 %.
    [path] = [path for path in CAPTURES if path.stem == "h100x2_nccl_2026.2"]
    [row] = exact_rows(
        "region_mfu",
        path,
        name="flash_attn::_flash_attn_forward",
        match_mode="startswith",
        theoretical_flops="1e11",
        peak_tflops="989.4",
    )
    assert (row["process"], row["occurrences"], row["kernels"], row["gpu_ms"]) == (144, GOLDEN_RANGES, 1, GOLDEN_NS)
    assert row["mfu_pct"] == Fraction(10**11, GOLDEN_NS) / Fraction("989400")


GOLDEN_RANGES, GOLDEN_NS = 33, 156_032
