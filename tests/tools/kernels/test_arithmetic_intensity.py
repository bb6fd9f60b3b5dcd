from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, Copy, Gpu, GraphLaunch, Kernel
from tests.oracle import exact_rows
from tests.strategies import generated, has_length, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, slow_parts, with_graphs, work_span

MS = 1_000_000
H100 = ("NVIDIA H100 80GB HBM3", "GH100", 3_352_320_000_000, 84_942_979_072, 132)


def kernel(start: int, end: int, device: int = 0) -> Kernel:
    return Kernel(start * MS, end * MS, device, 1, 7, None, 101, "scale")


def on_h100(*kernels: Kernel, **more: Any) -> Path:
    return written(Capture(list(kernels), gpus=[Gpu(0, *H100, 0)], **more))


@generated
@given(st.data())
def test_achieved_is_flops_over_the_time_that_kernels_run(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    flops, moved = data.draw(st.integers(1, 10**9)), data.draw(st.integers(1, 10**9))
    given_here = {"theoretical_flops": str(flops), "bytes_moved": moved, "peak_tflops": "1e6", "hbm_bw_gbps": "12.5"}
    parts = slow_parts(capture, window)
    running = [of.compute + of.comm - of.overlap for of in parts.values()]
    rates = [Fraction(flops, time) if time else None for time in running]
    possible = [rate is None or rate <= 10**9 for rate in rates]
    assert all(possible)  # the peak is that high
    rows = exact_rows("arithmetic_intensity", path, as_window(window), **given_here)
    assert [(row["device"], row["process"]) for row in rows] == list(parts)
    assert [row["kernel_busy_ms"] for row in rows] == running
    assert [row["achieved_tflops"] for row in rows] == rates
    assert [row["mfu_pct"] for row in rows] == [None if rate is None else rate / 10**9 for rate in rates]
    for row in rows:
        assert row["intensity_flop_per_byte"] == Fraction(flops, moved)
        assert row["ridge_flop_per_byte"] == Fraction(10**9) / Fraction("12.5")
        assert row["bound"] == ("compute" if Fraction(flops, moved) >= row["ridge_flop_per_byte"] else "memory")


def test_figures_of_an_h100_by_hand() -> None:
    # Kernels run 4 ms of 10. 1.978e12 FLOP in 4 ms are 494.5 TFLOPS, of 989.4 that is 49.98 %. The ridge is
    # 989,400 / 3,350 = 295.34 FLOP a byte; 1.978e12 / 1e10 = 197.8 is below it.
    capture = on_h100(kernel(0, 2), kernel(1, 3), kernel(9, 10))
    [row] = rows_of(ask("arithmetic_intensity", capture, theoretical_flops=1.978e12, bytes_moved=1e10))
    assert (row["kernel_busy_ms"], row["achieved_tflops"], row["mfu_pct"]) == (4.0, 494.5, 49.98)
    assert (row["intensity_flop_per_byte"], row["ridge_flop_per_byte"], row["bound"]) == (197.8, 295.3433, "memory")
    assert (row["peak_tflops"], row["hbm_gb_per_s"]) == (989.4, 3350.0)
    assert row["peak_source"] == "H100 SXM: H100 architecture whitepaper, bf16 dense tensor"


def test_at_the_ridge_compute_is_the_bound() -> None:
    capture = on_h100(kernel(0, 10))
    at = {"theoretical_flops": 200, "peak_tflops": 0.2, "hbm_bw_gbps": 100}
    assert rows_of(ask("arithmetic_intensity", capture, bytes_moved=100, **at))[0]["bound"] == "compute"
    assert rows_of(ask("arithmetic_intensity", capture, bytes_moved=101, **at))[0]["bound"] == "memory"


def test_the_peak_is_that_of_the_precision_asked_for() -> None:
    capture = on_h100(kernel(0, 10))
    peaks = {}
    for precision in ("fp32", "tf32", "bf16", "fp8"):
        [row] = rows_of(ask("arithmetic_intensity", capture, theoretical_flops=1e10, precision=precision))
        assert f"{precision} dense" in row["peak_source"]
        peaks[precision] = row["peak_tflops"]
    assert peaks == {"fp32": 66.9, "tf32": 494.7, "bf16": 989.4, "fp8": 1978.9}


def test_numbers_and_text_are_exact_and_equal_ones_are_the_same_call() -> None:
    capture = on_h100(kernel(0, 100_000))
    [row] = exact_rows("arithmetic_intensity", capture, theoretical_flops="12345678901234567890.5", peak_tflops=1e6)
    assert row["achieved_tflops"] == Fraction("12345678901234567890.5") / 10**11
    same = [ask("arithmetic_intensity", capture, theoretical_flops=flops) for flops in (10**12, 1e12, "1e12", "1E+12")]
    assert len({envelope["evidence"] for envelope in same}) == 1


@pytest.mark.parametrize("flops", [0, -1, 0.5, "0", "-5", "nan", "inf", "1e31", "ten", "", "0x10", "1_000", "9" * 41])
def test_flops_that_cannot_be_are_refused(flops: object) -> None:
    for name in ("theoretical_flops", "bytes_moved"):
        given_here = {"theoretical_flops": 10, name: flops}
        with pytest.raises(EvidenceError) as refused:
            ask("arithmetic_intensity", on_h100(kernel(0, 10)), **given_here)
        assert refused.value.code is ErrorCode.INVALID_ARGUMENT
        assert refused.value.message.startswith(name)


@pytest.mark.parametrize("name", ["peak_tflops", "hbm_bw_gbps"])
def test_a_peak_of_zero_is_refused(name: str) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("arithmetic_intensity", on_h100(kernel(0, 10)), theoretical_flops=10, **{name: 0})
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT


def test_more_than_the_peak_is_no_answer_and_its_figure_is_named() -> None:
    envelope = ask("arithmetic_intensity", on_h100(kernel(0, 1)), theoretical_flops="1e12")
    assert (envelope["status"], envelope["rows"]) == ("abstained", [])
    assert "101.07 %" in envelope["reason"]
    just = ask("arithmetic_intensity", on_h100(kernel(0, 1)), theoretical_flops="989.4e9")
    assert rows_of(just)[0]["mfu_pct"] == 100.0


def test_of_two_devices_the_impossible_figure_is_withheld_and_the_other_stands() -> None:
    gpus = [Gpu(number, *H100, number) for number in (0, 1)]
    capture = written(Capture([kernel(0, 10), kernel(0, 1, device=1)], gpus=gpus))
    envelope = ask("arithmetic_intensity", capture, theoretical_flops="2e12")
    good, withheld = rows_of(envelope)
    assert (good["mfu_pct"], withheld["mfu_pct"], withheld["achieved_tflops"]) == (20.21, None, None)
    assert envelope["status"] == "partial"
    assert any("device 1: 202.14 %" in note for note in envelope["notes"])


def test_an_unknown_gpu_has_no_peak_and_the_skill_says_what_to_give() -> None:
    path = written(Capture([kernel(0, 10)], gpus=[Gpu(0, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 0)]))
    envelope = ask("arithmetic_intensity", path, theoretical_flops="1e10")
    assert envelope["status"] == "abstained"
    assert "NVIDIA Test" in envelope["reason"]
    assert "peak_tflops" in envelope["capture_hint"]
    [row] = rows_of(ask("arithmetic_intensity", path, theoretical_flops="1e10", peak_tflops=100, bytes_moved=1))
    assert (row["mfu_pct"], row["peak_source"]) == (1.0, "given as peak_tflops")
    assert (row["ridge_flop_per_byte"], row["bound"], row["hbm_gb_per_s"]) == (None, None, None)


def test_a_precision_that_the_gpu_lacks_is_not_made_up() -> None:
    v100 = Gpu(0, "Tesla V100-SXM2-32GB", "GV100", 898_048_000_000, 34_089_730_048, 80, 0)
    path = written(Capture([kernel(0, 10)], gpus=[v100]))
    refused = ask("arithmetic_intensity", path, theoretical_flops="1e10")
    assert refused["status"] == "abstained"
    assert "no bf16 peak" in refused["reason"]
    assert "fp16" in refused["reason"]
    assert (
        rows_of(ask("arithmetic_intensity", path, theoretical_flops="1e10", precision="fp16"))[0]["peak_tflops"] == 125
    )


def test_a_device_without_kernels_in_the_window_has_a_row_and_no_rate() -> None:
    path = on_h100(kernel(0, 10), copies=[Copy(20 * MS, 30 * MS, 0, 1, 7, None, 101, 4096, 1)])
    envelope = ask("arithmetic_intensity", path, theoretical_flops="1e10", trim=["0.020", "0.030"])
    [row] = rows_of(envelope)
    assert (row["kernel_busy_ms"], row["achieved_tflops"], row["mfu_pct"]) == (0.0, None, None)
    assert envelope["status"] == "empty"


def test_whole_graphs_count_as_running_and_make_the_answer_partial() -> None:
    path = on_h100(kernel(0, 10), graph_launches=[GraphLaunch(10 * MS, 20 * MS, 0, 1, 9, None, 101, 1)])
    envelope = ask("arithmetic_intensity", path, theoretical_flops="1e10")
    assert (envelope["status"], rows_of(envelope)[0]["kernel_busy_ms"]) == ("partial", 20.0)


def test_what_is_missing_or_absent_is_said() -> None:
    empty = ask("arithmetic_intensity", written(Capture()), theoretical_flops=1)
    assert (empty["status"], empty["missing"]) == ("abstained", ["kernels"])
    assert empty["capture_hint"].startswith("nsys profile")
    with pytest.raises(EvidenceError) as refused:
        ask("arithmetic_intensity", on_h100(kernel(0, 10)), theoretical_flops=1, device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


@needs_shared
def test_the_h200_capture_by_hand() -> None:
    # Its 18 kernels do not overlap: SELECT sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL gives 10,167,602 ns.
    # 1e12 FLOP / 10,167,602 ns = 98.352 TFLOPS; / 989.5 = 9.94 %; ridge 989,500 / 4,800 = 206.15 FLOP a byte.
    [path] = [path for path in CAPTURES if path.stem == "h200_cpu_bound_2025.1"]
    [row] = rows_of(ask("arithmetic_intensity", path, theoretical_flops="1e12", bytes_moved="1e9"))
    figures = {name: row[name] for name in ("kernel_busy_ms", "achieved_tflops", "mfu_pct", "ridge_flop_per_byte")}
    assert figures == {
        "kernel_busy_ms": 10.168,
        "achieved_tflops": 98.352,
        "mfu_pct": 9.94,
        "ridge_flop_per_byte": 206.1458,
    }
    assert row["bound"] == "compute"


def test_gpus_of_one_name_on_both_devices_each_get_their_row() -> None:
    gpus = [Gpu(number, *H100, number) for number in (0, 1)]
    capture = Capture([kernel(0, 10), kernel(0, 20, device=1)], gpus=gpus)
    rows = rows_of(ask("arithmetic_intensity", written(capture), theoretical_flops="1e12"))
    assert [row["achieved_tflops"] for row in rows] == [100.0, 50.0]
    [second] = rows_of(ask("arithmetic_intensity", written(replace(capture)), theoretical_flops="1e12", device=1))
    assert second["achieved_tflops"] == 50.0
