"""GPU metrics: the samples of tensor activity are kept, and nothing else of them but their time."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.manifest import Coverage
from nsys_evidence.ingest.synthetic import Capture, CudaDevice, Gpu, GpuMetric, Kernel, Layout, Process
from tests.ingest.profiles import Built, build, build_file
from tests.parquet_export import write_parquetdir
from tests.support import written

PID = 42
TENSOR, OLD, BUSY = "Tensor Active [Throughput %]", "Tensor Active / FP16 Active", "SM Issue [Throughput %]"
Row = tuple[int, int | None, int, str, int]


def kernel(device: int, pid: int = PID) -> Kernel:
    return Kernel(100, 200, device, 1, 7, None, pid, "gemm")


def kept(built: Built) -> list[Row]:
    texts = built.strings()
    return [
        (row["start"], row["gpu"], row["gpu_id"], str(texts[row["metric"]]), row["value"])
        for row in built.rows("tensor_samples")
    ]


def believable(sample: GpuMetric) -> bool:
    return sample.start is not None and sample.start != 0 and sample.value is not None


SAMPLES = st.builds(
    GpuMetric,
    st.one_of(st.none(), st.integers(0, 300), st.just(2**61)),
    st.sampled_from((0, 1, 5)),
    st.sampled_from((TENSOR, OLD, BUSY)),
    st.one_of(st.none(), st.integers(-1, 101)),
)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(SAMPLES, max_size=30), st.booleans())
def test_samples_of_tensor_metrics_are_kept_in_every_form_and_order(samples: list[GpuMetric], mapped: bool) -> None:
    capture = Capture(
        [kernel(0), kernel(1)],
        processes=[Process(PID)],
        gpu_metrics=samples,
        # What the process calls device 0 is GPU 5, and device 1 is GPU 0.
        cuda_devices=[CudaDevice(5, 0, PID), CudaDevice(0, 1, PID)] if mapped else [],
    )
    device_of = {5: 0, 0: 1} if mapped else {}
    of_tensors = [sample for sample in samples if sample.metric != BUSY]
    expected = [
        (sample.start, device_of.get(sample.gpu), sample.gpu, sample.metric, sample.value)
        for sample in of_tensors
        if believable(sample)
    ]
    built = build(capture)
    assert sorted(kept(built), key=str) == sorted(expected, key=str)
    starts = [row[0] for row in kept(built)]
    assert starts == sorted(starts)
    aside = len(of_tensors) - len(expected)
    assert built.manifest.quarantined == ({"gpu_metrics": aside} if aside else {})
    recorded = built.manifest.coverage["gpu_metrics"] is Coverage.RECORDED
    assert (recorded, built.manifest.rows["tensor_samples"]) == (bool(expected), len(expected))
    # All samples are events of the capture, those of other metrics too.
    times = [100, 200, *(sample.start for sample in samples if sample.start is not None)]
    assert built.manifest.capture == (min(times), max(times))
    assert built.manifest.gpu == (100, 200)

    shuffled = written(capture, Layout(shuffle=3))
    parquet = write_parquetdir(shuffled, shuffled.parent / "parquet", seed=len(samples))
    for other in (build_file(shuffled), build_file(parquet)):
        assert kept(other) == kept(built)
        assert other.manifest.profile_id == built.manifest.profile_id
        assert other.manifest.quarantined == built.manifest.quarantined


def test_a_number_names_a_metric_within_its_gpu_only() -> None:
    # On GPU 0 the tensor metric has the number 1, which on GPU 1 is another metric's.
    samples = [
        GpuMetric(1, 0, BUSY, 7),
        GpuMetric(1, 0, TENSOR, 8),
        GpuMetric(1, 1, BUSY, 9),
        GpuMetric(1, 1, TENSOR, 10),
    ]
    path = written(Capture([kernel(0)], processes=[Process(PID)], gpu_metrics=samples))
    with closing(sqlite3.connect(path)) as database:
        numbers = database.execute("SELECT typeId & 255, metricId, metricName FROM TARGET_INFO_GPU_METRICS").fetchall()
    assert sorted(numbers) == [(0, 0, BUSY), (0, 1, TENSOR), (1, 1, BUSY), (1, 2, TENSOR)]
    assert kept(build_file(path)) == [(1, None, 0, TENSOR, 8), (1, None, 1, TENSOR, 10)]


def test_a_device_is_found_through_any_process_that_used_it_and_not_guessed_from_equal_numbers() -> None:
    capture = Capture(
        [kernel(0), kernel(0, 43)],
        processes=[Process(PID), Process(43)],
        gpus=[Gpu(number, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 1 - number) for number in (0, 1)],
        cuda_devices=[CudaDevice(1, 0, 43)],
        gpu_metrics=[GpuMetric(1, number, TENSOR, number) for number in (0, 1)],
    )
    built = build(capture)
    of_43 = next(device.gpu for device in built.manifest.devices if device.pids == (43,))
    assert [(gpu, number) for _, gpu, number, _, _ in kept(built)] == [(None, 0), (of_43, 1)]


@pytest.mark.parametrize(
    "layout",
    [
        Layout(drop_tables=frozenset({"GPU_METRICS"})),
        Layout(drop_tables=frozenset({"TARGET_INFO_GPU_METRICS"})),
        Layout(drop_columns={"GPU_METRICS": frozenset({"typeId"})}),
        Layout(drop_columns={"GPU_METRICS": frozenset({"value"})}),
        Layout(drop_columns={"TARGET_INFO_GPU_METRICS": frozenset({"typeId"})}),
        Layout(drop_columns={"TARGET_INFO_GPU_METRICS": frozenset({"metricName"})}),
    ],
)
def test_samples_that_cannot_be_told_apart_count_as_not_recorded(layout: Layout) -> None:
    built = build_file(written(Capture([kernel(0)], gpu_metrics=[GpuMetric(150, 0, TENSOR, 5)]), layout))
    assert built.manifest.coverage["gpu_metrics"] is Coverage.NOT_RECORDED
    assert (kept(built), built.manifest.quarantined) == ([], {})


def test_the_version_of_a_table_makes_no_difference() -> None:
    capture = Capture([kernel(0)], gpu_metrics=[GpuMetric(150, 0, TENSOR, 5)])
    renamed = Layout(suffix={"GPU_METRICS": "_V2", "TARGET_INFO_GPU_METRICS": "_V3"})
    assert kept(build(capture, renamed)) == kept(build(capture)) == [(150, None, 0, TENSOR, 5)]
