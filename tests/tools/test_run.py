"""What running any skill keeps to: selection of devices, paging, safe arguments, clean texts, fenced ids."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.profile import Profile
from nsys_evidence.ingest.synthetic import (
    Call,
    Capture,
    CudaDevice,
    Gpu,
    Kernel,
    Layout,
    Range,
    demo_capture,
    write_sqlite,
)
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.workspace import Workspace
from tests.support import MemoryLedger, ask, rows_of, written

PERIOD = 1_000


def kernel(start: int, device: int = 0, pid: int = 42, **more: Any) -> Kernel:
    return Kernel(start, start + 100, device, 1, 7, start, pid, "k()", **more)


def refused(name: str, capture: Path | str | None, **arguments: object) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        ask(name, capture, **arguments)
    return caught.value


def test_a_listed_device_that_did_nothing_is_empty_and_idle_throughout() -> None:
    gpus = [Gpu(number, "NVIDIA H100", "GH100", 10**12, 10**11, 132, cu_device=number) for number in (0, 1)]
    path = written(Capture(kernels=[kernel(1_000_000), kernel(2_000_000)], gpus=gpus))
    assert ask("top_kernels", path, device=1)["status"] == "empty"
    [row] = rows_of(ask("pipeline_bubble_metrics", path, device=1))
    assert (row["device"], row["idle_ms"], row["idle_pct"]) == (1, row["span_ms"], 100)
    assert {row["device"] for row in rows_of(ask("pipeline_bubble_metrics", path))} == {0}
    assert refused("top_kernels", path, device=2).code is ErrorCode.DEVICE_NOT_FOUND


def test_a_gpu_is_found_by_every_device_id_that_means_it_and_no_two_rows_are_called_alike() -> None:
    maps = [CudaDevice(0, 0, 1), CudaDevice(1, 1, 1), CudaDevice(1, 0, 2)]
    kernels = [kernel(1_000, 0, 1), kernel(2_000, 1, 1), kernel(3_000, 0, 2)]
    path = written(Capture(kernels=kernels, cuda_devices=maps))
    rows = rows_of(ask("pipeline_bubble_metrics", path))
    keys = [(row["device"], row["process"]) for row in rows]
    assert keys == [(0, 1), (0, 2)]
    assert [row["kernels"] for row in rows_of(ask("profile_info", path), "devices")] == [1, 2]
    assert ask("top_kernels", path, device=1)["totals"]["instances"] == 2
    assert ask("top_kernels", path, device=0)["totals"]["instances"] == 3


def test_a_further_table_that_is_cut_promises_no_next_page() -> None:
    path = written(demo_capture()[0])
    cut = ask("nvtx_kernel_map", path, detail="instances", max_rows=3)["tables"]["instances"]["truncation"]
    assert cut["shown_rows"] == 3
    assert cut["next_offset"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"offset": 10**19},
        {"offset": 1e300},
        {"iteration": 2**63},
        {"trim": ["0", "1e5000"]},
        {"trim": ["0", "1" * 5000]},
        {"trim": "[" * 100_000},
        {"marker": "iteration"},
    ],
)
def test_arguments_beyond_reason_are_invalid_and_nothing_worse(arguments: dict[str, object]) -> None:
    assert refused("kernel_instances", written(Capture(kernels=[kernel(1)])), **arguments).code is (
        ErrorCode.INVALID_ARGUMENT
    )


def test_texts_of_the_capture_are_clean_and_short_wherever_they_come_out() -> None:
    evil = "evil\u202e\x1b[31m" + "x" * 5_000
    ranges = [Range(n * PERIOD, n * PERIOD + 500, 42, 42, f"{evil} {n}") for n in range(1, 5)]
    calls = [Call(n * PERIOD + 10, n * PERIOD + 20, 42, 42, "cudaLaunchKernel", n * PERIOD + 30) for n in range(1, 5)]
    path = written(Capture(kernels=[kernel(n * PERIOD + 30) for n in range(1, 5)], ranges=ranges, calls=calls))
    envelope = ask("top_kernels", path, iteration=1)
    assert len(envelope["scope"]["by"]) <= 200
    error = refused("top_kernels", path, iteration=1, marker="no such range").to_json()
    for text in (envelope["scope"]["by"], error):
        assert "\u202e" not in text
        assert "\\u001b" not in text
        assert "\x1b" not in text
    assert len(error) < 5_000


def test_a_server_with_roots_speaks_of_no_profile_that_it_did_not_open_from_below_one(tmp_path: Path) -> None:
    ledger, cache = MemoryLedger(), tmp_path / "cache"
    outside = write_sqlite(Capture(kernels=[kernel(1)]), tmp_path / "outside.sqlite")
    (tmp_path / "in").mkdir()
    inside = write_sqlite(Capture(kernels=[kernel(2), kernel(500)]), tmp_path / "in" / "inside.sqlite")
    anywhere = Workspace(Library(cache=cache), ledger)
    secret = ask("top_kernels", outside, within=anywhere)
    fenced = Workspace(Library(cache=cache, roots=[tmp_path / "in"]), ledger)
    opened = ask("top_kernels", inside, within=fenced)
    assert ask("top_kernels", opened["profile"]["id"], within=fenced)["evidence"] == opened["evidence"]
    assert [row["name"] for row in rows_of(ask("list_profiles", within=fenced))] == ["inside.sqlite"]
    for code, name, arguments in (
        (ErrorCode.PROFILE_NOT_FOUND, "top_kernels", {"profile": secret["profile"]["id"]}),
        (ErrorCode.EVIDENCE_NOT_FOUND, "get_evidence", {"id": secret["evidence"]}),
        (ErrorCode.PATH_NOT_ALLOWED, "top_kernels", {"profile": str(outside)}),
    ):
        with pytest.raises(EvidenceError) as caught:
            ask(name, within=fenced, **arguments)
        assert caught.value.code is code
    assert ask("get_evidence", within=fenced, id=opened["evidence"])["totals"] == opened["totals"]


def test_a_profile_that_leaves_the_cache_under_a_call_is_a_coded_error_and_comes_back(tmp_path: Path) -> None:
    path = write_sqlite(Capture(kernels=[kernel(1)]), tmp_path / "capture.sqlite")
    workspace = Workspace(Library(cache=tmp_path / "cache"), MemoryLedger())
    profile = workspace.library.open(str(path))
    shutil.rmtree(profile.directory)
    with pytest.raises(EvidenceError) as caught:
        profile.cursor()
    assert caught.value.code is ErrorCode.PROFILE_NOT_FOUND
    assert ask("top_kernels", path, within=workspace)["totals"]["instances"] == 1


def test_work_that_names_no_device_is_not_taken_for_device_0() -> None:
    layout = Layout(drop_columns={"CUPTI_ACTIVITY_KIND_KERNEL": frozenset({"deviceId"})})
    path = written(Capture(kernels=[kernel(1, device=3)]), layout)
    assert ask("top_kernels", path)["status"] == "abstained"
    assert any("lacks deviceId" in note for note in ask("profile_info", path)["notes"])


def test_start_end_ranges_are_named_where_push_pop_ranges_are_missing() -> None:
    call = Call(900, 950, 42, 42, "cudaLaunchKernel", 1_000)
    capture = Capture(kernels=[kernel(1_000)], calls=[call], ranges=[Range(1, 2_000, 42, 42, "r", style="startend")])
    abstained = ask("nvtx_kernel_map", written(capture))
    assert abstained["status"] == "abstained"
    assert "start/end" in abstained["reason"]


@pytest.mark.parametrize("name", ["gpu=0", "start=5", "name=bob", "c*", "c[12]", "what?", "it's", "plain"])
def test_the_name_of_the_cache_directory_changes_no_byte_of_a_result(tmp_path: Path, name: str) -> None:
    path = write_sqlite(demo_capture()[0], tmp_path / "demo.sqlite")
    for directory in ("other", "c1", name):  # others that a pattern would find too
        workspace = Workspace(Library(cache=tmp_path / directory / "cache"), MemoryLedger())
        for skill in ("top_kernels", "pipeline_bubble_metrics", "gpu_idle_gaps"):
            assert ask(skill, path, within=workspace) == ask(skill, path)


def test_a_window_with_no_launch_in_a_capture_whose_kernels_share_calls_counts_zero_launches() -> None:
    nodes = [Kernel(n, n + 5, 0, 1, 7, 1, 42, "node()", graph_node=n) for n in (100, 200)]
    alone = Kernel(10_000, 20_000, 0, 1, 7, 99, 42, "alone()")
    path = written(Capture(kernels=[*nodes, alone], calls=[Call(10, 20, 42, 42, "cudaGraphLaunch", 1)]))
    totals = ask("kernel_launch_overhead", path, trim=["0.000009", "0.00002"])["totals"]
    assert (totals["launches"], totals["api_ms"], totals["kernels"]) == (0, 0, 0)


@pytest.mark.parametrize("times", [(-(2**63) + 1, 2**63 - 1), (5, 2**63 - 1), (2**62, 2**62 + 5)])
def test_times_that_no_clock_has_are_set_aside_and_every_skill_still_answers(times: tuple[int, int]) -> None:
    path = written(Capture(kernels=[kernel(1_000), Kernel(*times, 0, 1, 7, 9, 42, "beyond()")]))
    for name in ("top_kernels", "gpu_idle_gaps", "overlap_breakdown", "pipeline_bubble_metrics"):
        assert ask(name, path)["status"] in ("ok", "partial", "empty")
    assert ask("top_kernels", path)["totals"]["instances"] == 1
    assert ask("profile_info", path)["totals"]["quarantined"] == 1


def test_numbers_that_no_kernel_has_are_unknown_and_large_ones_add_up() -> None:
    large = Kernel(1_000, 1_100, 0, 1, 7, 1, 42, "k()", static_shared=2**31 - 2, dynamic_shared=2**31 - 2)
    absurd = Kernel(2_000, 2_100, 0, 1, 7, 2, 42, "k()", registers=10**18)
    rows = rows_of(ask("kernel_instances", written(Capture(kernels=[large, absurd])), order="start"))
    assert rows[0]["shared_bytes"] == 2**32 - 4
    assert rows[1]["registers"] is None


def test_a_file_name_of_255_bytes_is_opened_or_refused_with_a_code(tmp_path: Path) -> None:
    path = write_sqlite(Capture(kernels=[kernel(1)]), tmp_path / "short.sqlite").rename(tmp_path / ("n" * 255))
    assert refused("top_kernels", path).code in (ErrorCode.PATH_NOT_ALLOWED, ErrorCode.PROFILE_NOT_FOUND)


@pytest.mark.parametrize(("maps", "basis"), [([], "per process and device"), ([CudaDevice(0, 0, 42)], "physical GPU")])
def test_results_about_busy_and_idle_time_say_what_they_are_of(maps: list[CudaDevice], basis: str) -> None:
    path = written(Capture(kernels=[kernel(1_000)], cuda_devices=maps))
    for name in ("gpu_idle_gaps", "overlap_breakdown", "pipeline_bubble_metrics"):
        assert any(basis in note for note in ask(name, path)["notes"]), name


def test_a_profile_that_is_evicted_under_a_call_is_ingested_again_and_the_answer_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(cache=tmp_path / "cache")
    workspace = Workspace(library, MemoryLedger())
    path = written(Capture(kernels=[kernel(1_000), kernel(3_000)]))
    skill, given = all_skills()["top_kernels"], {"profile": str(path)}
    expected = run_skill(skill, given, workspace)
    opening, evictions = library.open, iter([library.cache.clear])

    def open_and_lose(*arguments: Any) -> Profile:
        profile = opening(*arguments)
        next(evictions, lambda: None)()  # as another process may, between the look and the query
        return profile

    monkeypatch.setattr(library, "open", open_and_lose)
    assert run_skill(skill, given, workspace) == expected
    assert next(evictions, None) is None
