from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, Kernel, demo_capture
from nsys_evidence.ingest.synthetic.truth import is_comm, length
from tests.oracle import exact, exact_rows
from tests.strategies import Span, all_work, ends, generated, middle, trims
from tests.support import SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, slow_parts
from tests.tools.slow_iterations import slow_choice, with_steps

US = 1_000


def slow_rows(capture: Capture, windows: list[tuple[int, int]], within: Span) -> list[dict[str, object]]:
    """Every iteration that starts in the window, looked at whole and on its own."""
    walls = [end - start for start, end in windows if within.contains(start)]
    rows: list[dict[str, object]] = []
    for number, (start, end) in enumerate(windows):
        if not within.contains(start):
            continue
        span = Span(start, end)
        parts = slow_parts(capture, span).values()
        recorded = bool(capture.kernels)
        rows.append(
            {
                "iteration": number,
                "start_s": start,
                "wall_ms": end - start,
                "busy_ms": sum(part.span - part.idle for part in parts),
                "compute_ms": sum(part.compute for part in parts) if recorded else None,
                "comm_ms": sum(part.comm for part in parts) if recorded else None,
                "idle_ms": sum(part.idle for part in parts),
                "kernels": sum(span.has(k) for k in capture.kernels) if recorded else None,
                "vs_median_pct": (end - start - middle(walls)) / middle(walls) if middle(walls) else None,
            }
        )
    return rows


@generated
@given(st.data())
def test_every_figure_of_every_iteration_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_steps().filter(lambda found: slow_choice(found) is not None))
    chosen = slow_choice(capture)
    assert chosen is not None
    path, window = written(capture), data.draw(trims(capture))
    expected = slow_rows(capture, chosen[3], window)
    assert exact_rows("iteration_timing", path, as_window(window)) == expected
    totals = exact("iteration_timing", path, as_window(window)).totals
    walls = sorted(int(str(row["wall_ms"])) for row in expected)
    assert (totals["count"], totals["marker"], totals["source"]) == (len(walls), chosen[0], "nvtx")
    assert totals["median_ms"] == (middle(walls) if walls else None)
    slowest = [row["iteration"] for row in expected if row["wall_ms"] == walls[-1]]
    assert totals["slowest"] == (slowest[0] if walls else None)
    if len(walls) > 1 and sum(walls):
        assert float(totals["cv"]) == pytest.approx(stdev(walls) / (sum(walls) / len(walls)), abs=1e-6)  # type: ignore[arg-type]
    else:
        assert totals["cv"] is None


def test_the_95th_percentile_interpolates_between_the_two_longest() -> None:
    kernels = [
        Kernel((100 * n + 10 * part) * US, (100 * n + 10 * part + 5) * US, 0, 1, 7, None, 101, f"k{part}")
        for n in range(5)
        for part in range(4)
    ]
    kernels[-1] = Kernel(kernels[-1].start, 475 * US, 0, 1, 7, None, 101, "k3")
    totals = exact("iteration_timing", written(Capture(kernels))).totals  # 100, 100, 100, 100 and 75 µs
    assert totals["p95_ms"] == 100 * US
    assert totals["median_ms"] == 100 * US
    assert totals["cv"] is not None


@needs_shared
def test_the_steps_of_the_cpu_capture_are_those_that_its_program_runs() -> None:
    """cpu_nvtx_osrt.train.py runs 20 steps, each in a range `step N`; walls and median by hand from the event table:

    SELECT "end" - start FROM NVTX_EVENTS LEFT JOIN StringIds … WHERE text LIKE 'step %' AND globalTid = that thread
    """
    envelope = ask("iteration_timing", SHARED / "captures" / "cpu_nvtx_osrt-2023.4.4.sqlite")
    rows, totals = rows_of(envelope), envelope["totals"]
    assert (totals["count"], totals["marker"], totals["source"], totals["slowest"]) == (20, "step", "nvtx", 0)
    assert (rows[0]["wall_ms"], rows[1]["wall_ms"], totals["median_ms"]) == (2.429, 2.253, 2.206)
    assert [row["busy_ms"] for row in rows] == [None] * 20  # no GPU in this capture: unknown, not zero
    assert [row["kernels"] for row in rows] == [None] * 20


@needs_shared
def test_operators_of_a_library_are_no_steps_the_kernels_of_24_layers_are_found_instead() -> None:
    """The model has 24 encoder blocks (FSDP::pre_forward (encoder.block.N), each of 62 kernels on the busiest stream.

    `aten::copy_` holds most GPU time of all ranges, 592 times: an operator, not a step.
    """
    envelope = ask("iteration_timing", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite")
    assert envelope["totals"]["count"] == 24
    assert envelope["totals"]["source"] == "kernel sequence"
    assert "62 kernels" in envelope["totals"]["marker"]
    asked = ask("iteration_timing", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite", marker="aten::copy_")
    assert (asked["totals"]["count"], asked["totals"]["source"]) == (592, "nvtx")


def test_the_planted_steps_of_the_demo_capture_have_the_planted_slowest() -> None:
    capture, truth = demo_capture()
    envelope = ask("iteration_timing", written(capture))
    assert envelope["totals"]["count"] == truth.iterations
    for row in rows_of(envelope):
        assert row["busy_ms"] + row["idle_ms"] == pytest.approx(2 * row["wall_ms"], abs=0.0021)


def test_a_marker_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("iteration_timing", written(demo_capture()[0]), marker="nothing")
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert "iteration" in refused.value.facts["markers"]


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("iteration_timing", written(demo_capture()[0]), device=9)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_busy_time_of_one_device_is_that_device_alone() -> None:
    capture = demo_capture()[0]
    path = written(capture)
    both, first, second = (
        rows_of(ask("iteration_timing", path, **scope)) for scope in ({}, {"device": 0}, {"device": 1})
    )
    for whole, one, other in zip(both, first, second, strict=True):
        assert whole["busy_ms"] == pytest.approx(one["busy_ms"] + other["busy_ms"], abs=0.0011)
    device_1 = [work for work in all_work(capture) if work.device == 1]
    start = round(both[2]["start_s"] * 10**9)
    end = start + round(both[2]["wall_ms"] * 10**6)
    parts = [(max(a, start), min(b, end)) for a, b in map(ends, device_1) if a < end and b > start]
    assert second[2]["busy_ms"] == pytest.approx(length(parts) / 10**6, abs=0.0011)
    comm = [w for w in device_1 if isinstance(w, Kernel) and is_comm(w)]
    parts = [(max(a, start), min(b, end)) for a, b in map(ends, comm) if a < end and b > start]
    assert Fraction(str(second[2]["comm_ms"])) == pytest.approx(length(parts) / 10**6, abs=0.0011)


@needs_shared
def test_without_steps_it_abstains_and_says_how_to_mark_them(tmp_path: Path) -> None:
    envelope = ask("iteration_timing", SHARED / "captures" / "h100x8_one_active_2024.6.sqlite")
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["iterations"])
    assert "range_push" in envelope["capture_hint"]
