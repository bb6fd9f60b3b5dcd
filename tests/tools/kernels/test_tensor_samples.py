"""Sampled tensor activity: what `tensor_core_usage` shows beside what kernel names say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Capture, CudaDevice, GpuMetric, Kernel
from nsys_evidence.tools.kernels.tensor_samples import pipes_of
from nsys_evidence.tools.thresholds.kernels import TENSOR_METRICS
from tests.oracle import exact
from tests.strategies import captures, generated, gpu_span, has_length, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window

MS = 1_000_000
TENSOR, SHARED_PIPE = "Tensor Active [Throughput %]", "Tensor Active / FP16 Active [Throughput %]"
OTHERS = ("SM Issue [Throughput %]", "Tensor Active [Cycles]")


def kernel(start: int, end: int, device: int = 0) -> Kernel:
    return Kernel(start * MS, end * MS, device, 1, 7, None, 101, "nvjet_gemm")


def sampled(*samples: tuple[int, int, int], mapped: tuple[int, ...] = ()) -> Capture:
    """Samples as (ms, GPU, value) beside a kernel of 100 ms; GPUs that are mapped are devices of their number."""
    return Capture(
        [kernel(100, 200, device) for device in mapped or (0,)],
        cuda_devices=[CudaDevice(gpu, gpu, 101) for gpu in mapped],
        gpu_metrics=[GpuMetric(at * MS, gpu, TENSOR, value) for at, gpu, value in samples],
    )


def answer(capture: Capture, **arguments: Any) -> tuple[list[dict[str, Any]] | None, str]:
    envelope = ask("tensor_core_usage", written(capture), **arguments)
    return (rows_of(envelope, "sampled") if "sampled" in envelope["tables"] else None), " ".join(envelope["notes"])


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda found: bool(found.kernels)))
    first, last = gpu_span(capture).start, gpu_span(capture).end
    metrics = st.sampled_from((TENSOR, SHARED_PIPE, *OTHERS))
    times = st.one_of(st.integers(first, last), st.sampled_from((first, last, first - 1, last + 1)))
    capture.gpu_metrics[:] = data.draw(
        st.lists(st.builds(GpuMetric, times, st.integers(0, 2), metrics, st.integers(0, 100)), max_size=25)
    )
    trimmed = has_length(capture) and data.draw(st.booleans())
    window = data.draw(trims(capture)) if trimmed else gpu_span(capture)
    used = {work.device for work in (*capture.kernels, *capture.copies, *capture.sets)}
    expected = []
    for gpu in range(3):
        for metric in (SHARED_PIPE, TENSOR):
            mine = [s for s in capture.gpu_metrics if (s.gpu, s.metric) == (gpu, metric)]
            values = [s.value for s in mine if s.start is not None and window.contains(s.start)]
            device = gpu if capture.cuda_devices and gpu in used else None
            mean = Fraction(sum(v for v in values if v is not None), len(values)) / 100 if values else None
            if mine:
                pipes = "tensor" if metric == TENSOR else "tensor or FP16"
                top = Fraction(max(v for v in values if v is not None), 100) if values else None
                expected.append((device, None, gpu, metric, pipes, len(values), mean, top))
    expected.sort(key=lambda row: (row[0] is None, row[0], row[2], row[3]))
    result = exact("tensor_core_usage", written(capture), as_window(window))
    found = [tuple(row) for row in result.tables["sampled"].rows] if "sampled" in result.tables else []
    assert found == expected
    assert not expected or result.tables["sampled"].total_rows == len(expected)


def test_figures_by_hand_with_both_ends_of_the_gpu_window_and_nothing_beyond() -> None:
    samples = [(99, 0, 100), (100, 0, 10), (150, 0, 25), (200, 0, 90), (201, 0, 100), (150, 1, 0)]
    rows, notes = answer(sampled(*samples, mapped=(0, 1)))
    assert rows == [
        {
            **{"device": 0, "process": None, "gpu": 0, "metric": TENSOR, "pipes": "tensor"},
            **{"samples": 3, "mean_pct": 41.67, "max_pct": 90.0},
        },
        {
            **{"device": 1, "process": None, "gpu": 1, "metric": TENSOR, "pipes": "tensor"},
            **{"samples": 1, "mean_pct": 0.0, "max_pct": 0.0},
        },
    ]
    assert "sampled" not in notes


def test_a_trim_is_half_open_and_may_hold_no_sample() -> None:
    capture = sampled((100, 0, 10), (150, 0, 25), (200, 0, 90), mapped=(0,))
    rows, _ = answer(capture, trim=[0.1, 0.15])
    assert rows is not None
    assert [(row["samples"], row["mean_pct"], row["max_pct"]) for row in rows] == [(1, 10.0, 10.0)]
    rows, _ = answer(capture, trim=[0.11, 0.12])
    assert rows is not None
    assert [(row["samples"], row["mean_pct"], row["max_pct"]) for row in rows] == [(0, None, None)]


def test_without_samples_the_table_is_absent_and_the_coverage_says_how_to_record_it() -> None:
    assert answer(sampled())[0] is None
    path = written(Capture([kernel(100, 200)], gpu_metrics=[GpuMetric(150 * MS, 0, OTHERS[0], 5)]))
    assert "sampled" not in ask("tensor_core_usage", path)["tables"]
    [row] = [row for row in rows_of(ask("profile_info", path), "coverage") if row["kind"] == "gpu_metrics"]
    assert (row["status"], row["rows"]) == ("not recorded", 0)
    assert "--gpu-metrics-devices=all" in row["capture_hint"]
    [row] = [
        row
        for row in rows_of(ask("profile_info", written(sampled((150, 0, 5)))), "coverage")
        if row["kind"] == "gpu_metrics"
    ]
    assert (row["status"], row["rows"], row["capture_hint"]) == ("recorded", 1, None)


def test_a_gpu_that_the_capture_maps_to_no_device_is_shown_by_its_number_and_never_as_a_device() -> None:
    capture = sampled((150, 0, 40), (150, 3, 60))
    rows, notes = answer(capture)
    assert rows is not None
    assert [(row["device"], row["gpu"], row["mean_pct"]) for row in rows] == [(None, 0, 40.0), (None, 3, 60.0)]
    assert "GPUs 0, 3, of which the capture does not say the device" in notes
    rows, notes = answer(capture, device=0)
    assert rows is None
    assert "GPUs 0, 3, of which the capture does not say the device: left out" in notes


def test_a_device_narrows_the_samples_and_one_that_was_not_sampled_is_named() -> None:
    rows, _ = answer(sampled((150, 0, 40), (150, 1, 60), mapped=(0, 1)), device=1)
    assert rows is not None
    assert [(row["device"], row["mean_pct"]) for row in rows] == [(1, 60.0)]
    rows, notes = answer(sampled((150, 1, 60), mapped=(0, 1)))
    assert rows is not None
    assert [row["device"] for row in rows] == [1]
    assert "not sampled on devices 0" in notes


def test_what_is_no_percentage_is_counted_and_left_out() -> None:
    rows, notes = answer(sampled((150, 0, 40), (151, 0, 101), (152, 0, -1), mapped=(0,)))
    assert rows is not None
    assert [(row["samples"], row["max_pct"]) for row in rows] == [(1, 40.0)]
    assert "2 samples of tensor activity that are no percentage" in notes


@pytest.mark.parametrize(
    ("metric", "pipes"),
    [
        (TENSOR, "tensor"),
        ("Tensor Active", "tensor"),
        (SHARED_PIPE, "tensor or FP16"),
        ("Tensor Active / FP16 Active", "tensor or FP16"),
        ("Tensor Active [Cycles]", None),
        ("SM Issue [Throughput %]", None),
        ("", None),
    ],
)
def test_the_name_of_a_metric_says_whose_activity_it_is(metric: str, pipes: str | None) -> None:
    assert pipes_of(metric) == pipes


def test_the_table_is_in_the_order_in_which_it_is_read() -> None:
    patterns = [pattern for pattern, _ in TENSOR_METRICS.rows]
    assert not any(earlier in later for place, later in enumerate(patterns) for earlier in patterns[:place])


@needs_shared
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_real_captures_without_gpu_metrics_have_no_such_table(path: Any) -> None:
    assert ask("tensor_core_usage", path)["tables"] == {}
