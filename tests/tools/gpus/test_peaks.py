from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nsys_evidence.ingest.manifest import Device
from nsys_evidence.tools.gpus.match import find_gpu
from nsys_evidence.tools.gpus.peaks import DOCUMENTS, GPUS, PRECISIONS
from tests.support import CAPTURES, needs_shared, workspace


def device(
    name: str | None, chip: str | None = None, memory: int | None = None, bandwidth: int | None = None
) -> Device:
    return Device(0, 0, None, (), "physical GPU", (0,), name, chip, memory, bandwidth)


def product(*described: object) -> str | None:
    gpu = find_gpu(device(*described))  # type: ignore[arg-type]
    return gpu and gpu.product


BF16 = {  # TFLOPS, dense, read off NVIDIA's documents once more, apart from the table
    "A100 SXM 80 GB": 312,
    "A10": 125,
    "RTX A6000": 154.8,
    "L4": 121,
    "L40": 181.05,
    "L40S": 362.05,
    "GeForce RTX 3090": 71,
    "GeForce RTX 4090": 165.2,
    "H100 PCIe": 756,
    "H100 SXM": 989.4,
    "H100 NVL": 835.5,
    "H200 SXM": 989.5,
    "GH200 96 GB": 990,
    "B200": 2250,
    "GB200": 2500,
}


def test_dense_bfloat16_peaks_are_those_of_the_datasheets() -> None:
    table = {gpu.product: gpu.bf16 for gpu in GPUS}
    assert {name: table[name] for name in BF16} == {name: round(peak * 1000) for name, peak in BF16.items()}
    assert all(table[name] is None for name in table if name.startswith(("V100", "T4")))


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.product)
def test_rates_of_a_gpu_stand_to_each_other_as_tensor_cores_do(gpu: object) -> None:
    """A slip in a figure breaks these: half the bits, twice the rate, within the rounding of datasheets."""
    rates = {precision: gpu.peak(precision) for precision in PRECISIONS}  # type: ignore[attr-defined]

    def twice(fast: str, slow: str) -> None:
        if rates[fast] and rates[slow]:
            assert rates[fast] / rates[slow] == pytest.approx(2, rel=0.025), (fast, slow)  # type: ignore[operator]

    assert rates["bf16"] in (None, rates["fp16"])
    twice("fp16", "tf32")
    twice("fp8", "fp16")
    if not gpu.product.startswith("GeForce"):  # type: ignore[attr-defined]
        twice("int8", "fp16")
        assert rates["fp8"] in (None, rates["int8"])
    if rates["fp64"] and rates["fp32"]:
        assert rates["fp32"] / rates["fp64"] == pytest.approx(1, abs=0.02) or rates["fp32"] > rates["fp64"] * 1.9
    assert set(gpu.halved) <= set(gpu.tensor)  # type: ignore[attr-defined]
    assert "fp32" not in gpu.tensor  # type: ignore[attr-defined]


def test_every_row_names_its_document_and_no_two_rows_are_one_product() -> None:
    assert {gpu.reference.partition(" (")[0] for gpu in GPUS} == set(DOCUMENTS)
    assert all(title.startswith("NVIDIA ") and ": " in title for title in DOCUMENTS.values())
    assert len({gpu.product for gpu in GPUS}) == len(GPUS)


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (("NVIDIA H100 80GB HBM3", "GH100", 84_942_979_072, 3_352_320_000_000), "H100 SXM"),
        (("NVIDIA H200", "GH100", 150_121_545_728, 4_916_736_000_000), "H200 SXM"),
        (("Tesla V100-PCIE-32GB",), "V100 PCIe 32 GB"),
        (("Tesla T4", "TU104", 15_642_329_088, 320_064_000_000), "T4"),
        (("NVIDIA A100 80GB PCIe",), "A100 PCIe 80 GB"),
        (("A100-SXM4-40GB",), "A100 SXM 40 GB"),
        (("NVIDIA L40S",), "L40S"),
        (("NVIDIA L40",), "L40"),
    ],
)
def test_a_gpu_is_known_by_the_name_that_captures_give_it(described: tuple[object, ...], expected: str) -> None:
    assert product(*described) == expected


@pytest.mark.parametrize(
    "name",
    [
        None,
        "Quadro RTX 6000",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A10G",
        "Tesla V100S-PCIE-32GB",
        "NVIDIA H200 NVL",
        "NVIDIA H100",
        "nvidia t4 and more",
    ],
)
def test_another_product_or_a_name_of_several_is_unknown(name: str | None) -> None:
    assert product(name) is None


def test_a_name_of_several_products_is_told_by_its_memory() -> None:
    assert product("NVIDIA H100", "GH100", 84_942_979_072, 3_352_320_000_000) == "H100 SXM"
    assert product("NVIDIA H100", "GH100", 85_000_000_000, 2_039_000_000_000) == "H100 PCIe"
    assert product("NVIDIA H100", "GH100", 100_485_000_000, 3_938_000_000_000) == "H100 NVL"
    assert product("NVIDIA H100", "GH100", 84_942_979_072) is None
    assert product("NVIDIA H100", "GH100", 84_942_979_072, 2_700_000_000_000) is None


def test_a_chip_or_a_memory_size_that_contradicts_the_name_makes_it_unknown() -> None:
    known = device("NVIDIA H100 80GB HBM3", "GH100", 84_942_979_072)
    assert find_gpu(known) is not None
    assert find_gpu(replace(known, chip="GA100")) is None
    assert find_gpu(replace(known, memory_bytes=10_000_000_000)) is None


@needs_shared
@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        ("h100x8_one_active_2024.6", "H100 SXM"),
        ("h200_cpu_bound_2025.1", "H200 SXM"),
        ("cpu_samples_2023.4", "V100 PCIe 32 GB"),
        ("rtx3090x8_no_kernels_2023.4", "GeForce RTX 3090"),
        ("t4_no_kernels_osrt_2023.4", "T4"),
        ("old_schema_2021", None),
        ("h100x2_nccl_2026.2", None),
    ],
)
def test_gpus_of_real_captures_are_found_or_unknown(capture: str, expected: str | None) -> None:
    [path] = [path for path in CAPTURES if path.stem == capture]
    found = {find_gpu(gpu) for gpu in workspace().library.open(str(Path(path))).devices}
    assert {gpu and gpu.product for gpu in found} == {expected}
