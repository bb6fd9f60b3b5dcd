from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from nsys_evidence.ingest.synthetic import (
    Call,
    Capture,
    CudaDevice,
    Gpu,
    GraphLaunch,
    Kernel,
    Layout,
    Mark,
    Process,
    Range,
    capture_window,
    demo_capture,
    gpu_window,
)
from tests import strategies as plain
from tests.strategies import captures, generated
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written


def kernel(start: int | None, end: int | None, device: int = 0, pid: int = 101) -> Kernel:
    return Kernel(start, end, device, 1, 7, None, pid, "void k()")


@generated
@given(captures())
def test_windows_and_counts_are_those_of_the_capture(capture: Capture) -> None:
    envelope = ask("profile_info", written(capture))
    expected = [("capture", *capture_window(capture)), ("gpu", *gpu_window(capture))]
    for row, (name, start, end) in zip(rows_of(envelope), expected, strict=True):
        assert row["window"] == name
        assert [round(float(row[edge]) * 10**9 / 2**10) for edge in ("start_s", "end_s")] == [
            pytest.approx(edge / 2**10, abs=1) for edge in (start, end)
        ]
        assert row["span_ms"] == plain.ms(end - start)
    totals = envelope["totals"]
    assert totals["kernels"] == len(capture.kernels)
    assert totals["copies"] == len(capture.copies)
    assert totals["sets"] == len(capture.sets)
    assert totals["api_calls"] == len(capture.calls)
    assert totals["nvtx_ranges"] == len(capture.ranges)
    assert totals["devices"] == len({plain.device_key(capture, work) for work in plain.all_work(capture)})
    assert totals["quarantined"] == 0
    for device in rows_of(envelope, "devices"):
        key = (device["device"], device["process"])
        mine = [work for work in plain.all_work(capture) if plain.device_key(capture, work) == key]
        assert device["pids"] == ", ".join(map(str, sorted({work.pid for work in mine})))
        assert device["kernels"] == sum(isinstance(work, Kernel) for work in mine)
        assert device["kernels"] + device["copies"] + device["sets"] == len(mine)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_real_capture_has_a_capture_window_that_holds_its_gpu_window(capture: Path) -> None:
    envelope = ask("profile_info", capture)
    windows = {row["window"]: row for row in rows_of(envelope)}
    if gpu := windows.get("gpu"):
        assert windows["capture"]["start_s"] <= gpu["start_s"] <= gpu["end_s"] <= windows["capture"]["end_s"]
    recorded = {row["kind"]: row for row in rows_of(envelope, "coverage")}
    assert (recorded["kernels"]["status"] == "recorded") == (envelope["totals"]["kernels"] > 0)
    for row in recorded.values():
        assert (row["status"] == "recorded") == (row["rows"] > 0)


@needs_shared
def test_the_facts_of_a_known_capture_are_these() -> None:
    envelope = ask("profile_info", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite")
    assert envelope["rows"][1] == ["gpu", 155.357525002, 156.326972607, 969.448]
    totals = envelope["totals"]
    assert {name: totals[name] for name in ("kernels", "copies", "sets", "nvtx_ranges", "devices", "processes")} == {
        "kernels": 3442,
        "copies": 904,
        "sets": 22,
        "nvtx_ranges": 16_782,
        "devices": 2,
        "processes": 2,
    }
    assert (totals["nsys_version"], totals["schema_version"], totals["form"]) == ("2026.2.1.210", "3.25.0", "sqlite")


@needs_shared
def test_gpus_that_are_listed_but_idle_are_counted_and_get_no_row() -> None:
    envelope = ask("profile_info", SHARED / "captures" / "h100x8_one_active_2024.6.sqlite")
    assert (envelope["totals"]["listed_gpus"], envelope["totals"]["devices"]) == (8, 1)
    assert [row["name"] for row in rows_of(envelope, "devices")] == ["NVIDIA H100 80GB HBM3"]


def test_rows_that_cannot_be_true_are_counted_before_any_number() -> None:
    capture = Capture(kernels=[kernel(100, 200), kernel(300, 250), kernel(None, 400), kernel(0, 0)])
    envelope = ask("profile_info", written(capture))
    assert (envelope["totals"]["kernels"], envelope["totals"]["quarantined"]) == (1, 3)
    [coverage] = [row for row in rows_of(envelope, "coverage") if row["kind"] == "kernels"]
    assert (coverage["status"], coverage["rows"], coverage["quarantined"]) == ("recorded", 1, 3)
    assert any("3 kernels rows" in note for note in envelope["notes"])


def test_ranges_without_an_end_and_marks_are_counted_apart_from_ranges() -> None:
    ranges = [
        Range(100, 200, 101, 101, "closed"),
        Range(150, None, 101, 101, "never closed"),
        Range(100, 300, 101, 101, "crossing", style="startend"),
    ]
    envelope = ask("profile_info", written(Capture(ranges=ranges, marks=[Mark(120, 101, 101, "here")])))
    counted = ("nvtx_ranges", "start_end_ranges", "unclosed_ranges", "marks")
    assert [envelope["totals"][name] for name in counted] == [2, 1, 1, 1]


def test_what_was_not_recorded_comes_with_flags_also_where_its_table_is_there_without_rows() -> None:
    capture = Capture(calls=[Call(100, 200, 101, 101, "cudaMalloc_v3020")])
    absent = {row["kind"]: row for row in rows_of(ask("profile_info", written(capture)), "coverage")}
    empty = {
        row["kind"]: row
        for row in rows_of(ask("profile_info", written(capture, Layout(empty_tables=True))), "coverage")
    }
    assert absent == empty
    assert absent["kernels"]["status"] == "not recorded"
    assert absent["kernels"]["capture_hint"].startswith("nsys profile --trace=cuda")
    assert "--trace=cuda,nvtx" in absent["nvtx"]["capture_hint"]
    assert absent["calls"] == {
        "kind": "calls",
        "status": "recorded",
        "rows": 1,
        "quarantined": 0,
        "capture_hint": None,
    }


def test_without_gpu_work_there_is_one_window_and_no_device() -> None:
    envelope = ask("profile_info", written(Capture(calls=[Call(100, 200, 101, 101, "cudaMalloc_v3020")])))
    assert [row["window"] for row in rows_of(envelope)] == ["capture"]
    assert (envelope["status"], envelope["tables"]["devices"]["rows"]) == ("ok", [])


def test_a_device_id_of_two_processes_is_two_devices_until_the_capture_maps_them() -> None:
    kernels = [kernel(100, 200), kernel(100, 300, pid=102)]
    apart = rows_of(ask("profile_info", written(Capture(kernels=kernels))), "devices")
    assert [(row["process"], row["basis"]) for row in apart] == [
        (101, "process and device"),
        (102, "process and device"),
    ]
    mapped = Capture(
        kernels=kernels,
        gpus=[Gpu(0, "NVIDIA Test", "GT000", 1, 1, 1, 0)],
        cuda_devices=[CudaDevice(0, 0, 101), CudaDevice(0, 0, 102)],
    )
    [row] = rows_of(ask("profile_info", written(mapped)), "devices")
    assert (row["process"], row["pids"], row["basis"]) == (None, "101, 102", "physical GPU")
    assert (row["name"], row["kernels"]) == ("NVIDIA Test", 2)


def test_warnings_of_the_capture_become_notes() -> None:
    capture = Capture(kernels=[kernel(100, 200)], graph_launches=[GraphLaunch(150, 400, 0, 1, 7, 5, 101, 1)])
    envelope = ask("profile_info", written(capture))
    assert envelope["totals"]["graphs"] == 1
    assert any("--cuda-graph-trace=node" in note for note in envelope["notes"])


def test_no_secret_of_the_capture_and_no_path_is_in_the_answer(tmp_path: Path) -> None:
    demo, _ = demo_capture()
    secret = Capture(
        kernels=demo.kernels[:3],
        processes=[Process(4101, command=("--token", "hunter2"))],
        environment={"API_TOKEN": "hunter2"},
        host="secret-host",
        user="secret-user",
    )
    path = written(secret)
    text = json.dumps(ask("profile_info", path)) + json.dumps(ask("schema_inspect", path))
    for leak in ("hunter2", "API_TOKEN", "secret-host", "secret-user", str(path.parent), str(tmp_path)):
        assert leak not in text
