"""Section 1.6: communication by anchored names, bytes in stated units, and no share of a peak that nobody can reach."""

from __future__ import annotations

from typing import Any

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, Copy, Gpu, Kernel
from nsys_evidence.tools.registry import all_skills
from tests.pitfalls.asking import MS
from tests.support import ask, rows_of, written

PID = 42


def kernel(start: int, end: int, name: str, stream: int = 7) -> Kernel:
    return Kernel(start * MS, end * MS, 0, 1, stream, None, PID, name)


def copy(start: int, end: int, kind: int, size: int = 1 << 20) -> Copy:
    return Copy(start * MS, end * MS, 0, 1, 13, None, PID, size, kind)


def test_what_is_communication_is_the_same_in_every_skill() -> None:
    names = [
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclDevKernel_Generic(ncclDevKernelArgs)",
        "void pack_for_nccl_bucket_kernel<float>(float *)",
        "my_nccl_like(int)",
    ]
    path = written(Capture(kernels=[kernel(100 + 10 * n, 110 + 10 * n, name) for n, name in enumerate(names)]))
    [parts] = rows_of(ask("overlap_breakdown", path))
    assert (parts["compute_ms"], parts["exposed_comm_ms"]) == (20, 30)
    found = ask("nccl_breakdown", path)
    assert found["totals"]["total_ms"] == 30
    collectives = {row["collective"] for row in rows_of(found)}
    assert {"ReduceScatter", "AllReduce"} <= collectives
    assert "Reduce" not in collectives
    assert len(collectives) == 3  # the one that the name does not tell stays in sight
    assert any("name" in note for note in found["notes"])


def test_one_stray_kernel_on_a_stream_of_collectives_is_no_finding() -> None:
    names = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"] * 50
    kernels = [kernel(100 + 10 * n, 109 + 10 * n, name, 20) for n, name in enumerate(names)]
    stray = Kernel(99 * MS, 99 * MS + 1_000, 0, 1, 20, None, PID, "stray()")
    found = ask("root_cause_matcher", written(Capture(kernels=[*kernels, stray])))
    assert not any("stream" in row["pattern"] for row in rows_of(found))


def test_unified_and_peer_copies_are_no_copies_from_host_to_device() -> None:
    """Kinds 1 host to device, 10 peer, 11 to 13 unified memory."""
    path = written(
        Capture(copies=[copy(100 + 10 * n, 105 + 10 * n, kind) for n, kind in enumerate((1, 10, 11, 12, 13))])
    )
    rows = rows_of(ask("memory_transfers", path))
    assert len({row["operation"] for row in rows}) == len(rows) == 5
    assert ask("h2d_distribution", path)["totals"]["total_mb"] == 1.049


def test_megabytes_are_of_a_million_bytes_and_slow_links_are_not_nought() -> None:
    path = written(Capture(copies=[copy(100, 1100, 1, 3_000_000)]))
    [row] = rows_of(ask("memory_transfers", path))
    assert row["total_mb"] == 3
    [link] = rows_of(ask("memory_bandwidth", path))
    assert link["sustained_gb_per_s"] == 0.003


def test_a_kernel_of_which_nothing_is_known_is_not_without_tensor_cores() -> None:
    path = written(
        Capture(kernels=[kernel(100, 110, "mystery_gemm_kernel(float *)"), kernel(110, 120, "copy_it(int)")])
    )
    found = ask("tensor_core_usage", path)
    assert {row["status"] for row in rows_of(found)} == {"unknown"}
    assert found["totals"]["unused_ms"] == 0


IMPOSSIBLE = {
    "arithmetic_intensity": {"theoretical_flops": 10**22, "bytes_moved": 10**9},
    "region_mfu": {"theoretical_flops": 10**22, "name": "k()", "source": "kernel"},
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("flops", [0, -1, "nan", "inf"])
def test_flops_that_cannot_be_are_refused_by_every_skill_that_takes_them(name: str, flops: object) -> None:
    path = written(Capture(kernels=[kernel(100, 110, "k()")], gpus=[H100]))
    given = {**all_skills()[name].example, "theoretical_flops": flops}
    with pytest.raises(EvidenceError) as caught:
        ask(name, path, **given)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENT


H100 = Gpu(0, "NVIDIA H100 80GB HBM3", "GH100", 3_352_320_000_000, 84_942_979_072, 132, 0)


def test_a_share_of_the_peak_above_all_of_it_stands_in_no_cell() -> None:
    path = written(Capture(kernels=[kernel(100, 110, "k()")], gpus=[H100]))
    for name, given in IMPOSSIBLE.items():
        asked: dict[str, Any] = {**all_skills()[name].example, **given}
        found = ask(name, path, **asked)
        shares = [row[key] for row in rows_of(found) for key in row if "mfu" in key]
        assert all(share is None for share in shares), name
        assert found["status"] != "ok", name
