from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from tests.strategies import ms, pct
from tests.support import ask, rows_of


def estimate(**times: Any) -> dict[str, dict[str, Any]]:
    return {row["change"]: row for row in rows_of(ask("speedup_estimator", **times))}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_every_ceiling_is_what_is_left_of_the_iteration(data: st.DataObject) -> None:
    idle, exposed, hidden, compute = (data.draw(st.integers(0, 10**6)) for _ in range(4))  # µs
    whole = idle + exposed + hidden + compute + data.draw(st.integers(1, 10**6))
    overlap = data.draw(st.integers(0, 100))
    nccl = exposed + hidden
    left = Fraction(nccl * (100 - overlap), 100)
    if idle + left > whole:
        return
    rows = estimate(
        iteration_ms=whole / 1000,
        compute_ms=compute / 1000,
        nccl_ms=nccl / 1000,
        idle_ms=idle / 1000,
        overlap_pct=overlap,
    )
    for change, saved in (("remove_idle", Fraction(idle)), ("hide_comm", left), ("all_together", idle + left)):
        after = whole - saved
        assert rows[change]["saved_ms"] == ms(saved * 1000)
        assert rows[change]["after_ms"] == ms(after * 1000)
        assert rows[change]["saved_pct"] == pct(saved, whole)
        expected = None if not after else float(round(Fraction(whole) / after, 4))
        assert rows[change]["speedup"] == expected


def test_ceilings_by_hand() -> None:
    # 100 ms: idle 20; of 30 ms of communication 60 % exposed, 18. 100/80, 100/82, 100/62.
    times = {"iteration_ms": 100, "compute_ms": 60, "nccl_ms": 30, "idle_ms": 20, "overlap_pct": 40}
    envelope = ask("speedup_estimator", **times)
    rows = {row["change"]: row for row in rows_of(envelope)}
    assert {name: (row["saved_ms"], row["speedup"]) for name, row in rows.items()} == {
        "remove_idle": (20.0, 1.25),
        "hide_comm": (18.0, 1.2195),
        "halve_tp": (None, None),
        "all_together": (38.0, 1.6129),
    }
    assert (envelope["totals"]["exposed_comm_ms"], envelope["totals"]["other_ms"]) == (18.0, 2.0)


@pytest.mark.parametrize(("degree", "saved"), [(2, 30.0), (4, 20.0), (8, 17.143), (16, 16.0)])
def test_half_the_tensor_parallelism_saves_a_part_of_what_hiding_does(degree: int, saved: float) -> None:
    # 30·n/(2(n - 1)): with two GPUs all of it, towards half of it with many.
    rows = estimate(iteration_ms=100, nccl_ms=30, tp_degree=degree, model_params_b=1)
    assert rows["halve_tp"]["saved_ms"] == saved
    assert rows["halve_tp"]["saved_ms"] <= rows["hide_comm"]["saved_ms"] == rows["all_together"]["saved_ms"]
    for assumption in ("16 bytes", "ring all-reduce", "replica", "per batch"):
        assert assumption in rows["halve_tp"]["assumes"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"tp_degree": 1, "model_params_b": 1}, "cannot be halved"),
        ({"tp_degree": 3, "model_params_b": 1}, "cannot be halved"),
        ({"tp_degree": 4}, "give model_params_b"),
        ({"tp_degree": 4, "model_params_b": 8.001}, "does not fit"),
        ({"tp_degree": 4, "model_params_b": 4.001, "gpu_memory_gb": 40}, "does not fit"),
    ],
)
def test_where_it_cannot_be_halved_nothing_is_claimed_and_the_reason_stands_there(more: Any, why: str) -> None:
    row = estimate(iteration_ms=100, nccl_ms=30, **more)["halve_tp"]
    assert (row["applies"], row["saved_ms"], row["saved_pct"], row["after_ms"], row["speedup"]) == (
        False,
        None,
        None,
        None,
        None,
    )
    assert why in row["assumes"]


def test_a_model_that_just_fits_does() -> None:
    # 8·10^9 parameters of 16 bytes on 2 GPUs are 64 GB, 80 % of 80.
    assert estimate(iteration_ms=100, nccl_ms=30, tp_degree=4, model_params_b=8)["halve_tp"]["applies"]


def test_where_nothing_would_be_left_there_is_no_speedup() -> None:
    rows = estimate(iteration_ms=100, nccl_ms=60, idle_ms=40)
    assert (rows["all_together"]["after_ms"], rows["all_together"]["speedup"]) == (0.0, None)
    assert rows["remove_idle"]["speedup"] == 1.6667


def test_times_rounded_apart_may_exceed_the_whole_by_their_rounding() -> None:
    rows = estimate(iteration_ms=10, nccl_ms=5.001, idle_ms=5.001)
    assert (rows["all_together"]["saved_pct"], rows["all_together"]["after_ms"]) == (100.0, 0.0)


@pytest.mark.parametrize(
    "times",
    [
        {"iteration_ms": 10, "idle_ms": 11},
        {"iteration_ms": 10, "nccl_ms": 11},
        {"iteration_ms": 10, "nccl_ms": 6, "idle_ms": 6},
        {"iteration_ms": 0},
        {"iteration_ms": -1},
        {"iteration_ms": float("nan")},
        {"iteration_ms": 1e13},
        {"iteration_ms": 10, "idle_ms": -1},
        {"iteration_ms": 10, "overlap_pct": 101},
        {"iteration_ms": 10, "overlap_pct": -1},
        {"iteration_ms": 10, "tp_degree": 0},
        {"iteration_ms": 10, "model_params_b": -7},
        {"compute_ms": 10},
    ],
)
def test_times_that_cannot_be_are_refused(times: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("speedup_estimator", **times)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert refused.value.hint


def test_parts_that_exceed_the_whole_are_pointed_out() -> None:
    envelope = ask("speedup_estimator", iteration_ms=100, compute_ms=90, idle_ms=20)
    assert envelope["totals"]["other_ms"] is None
    assert any("by 10 ms" in note for note in envelope["notes"])
    assert ask("speedup_estimator", iteration_ms=100, compute_ms=80, idle_ms=20)["notes"] == []


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        (
            {"iteration_ms": 1234567.891, "idle_ms": 1234567.899},
            "1234567.899 ms do not fit into an iteration of 1234567.891",
        ),
        (
            {"iteration_ms": 123456.78, "idle_ms": 123456.79},
            "123456.79 ms do not fit into an iteration of 123456.78 ms",
        ),
        ({"iteration_ms": 0.000001, "idle_ms": 20}, "of 20 ms do not fit into an iteration of 0.000001 ms"),
    ],
)
def test_times_in_words_keep_all_their_digits(times: dict[str, Any], shown: str) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("speedup_estimator", **times)
    assert shown in refused.value.message


def test_sizes_in_words_keep_all_their_digits() -> None:
    # 12345.678·10^9 parameters of 16 bytes on 3 GPUs are 65843.616 GB; 80 % of 987654.3 are 790123.44.
    row = estimate(iteration_ms=9, tp_degree=6, model_params_b=12345.678, gpu_memory_gb=987654.3)["halve_tp"]
    assert "are 65843.616 GB of 790123.44 GB" in row["assumes"]
    third = estimate(iteration_ms=9, tp_degree=6, model_params_b=1)["halve_tp"]
    assert "are 5.333333 GB of 64 GB" in third["assumes"]


def test_pages_keep_their_totals() -> None:
    page = ask("speedup_estimator", iteration_ms=100, idle_ms=20, max_rows=1, offset=1)
    assert ([row["change"] for row in rows_of(page)], page["totals"]["idle_ms"]) == (["hide_comm"], 20.0)
