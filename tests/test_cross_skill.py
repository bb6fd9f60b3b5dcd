"""A figure that several skills report is the same in all of them, in any window, on any device, for every capture."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from tests.support import CAPTURES, ask, rows_of, scratch

SAME = {
    "idle time": (
        ("gpu_idle_gaps", "idle_ms"),
        ("pipeline_bubble_metrics", "idle_ms"),
        ("overlap_breakdown", "idle_ms"),
        ("critical_path", "host_ms"),
        ("root_cause_matcher", "idle_ms"),
    ),
    "the span of the devices": (
        ("pipeline_bubble_metrics", "span_ms"),
        ("overlap_breakdown", "span_ms"),
        ("critical_path", "span_ms"),
    ),
    "compute": (("overlap_breakdown", "compute_ms"), ("critical_path", "compute_ms")),
    "communication": (("overlap_breakdown", "comm_ms"), ("nccl_breakdown", "busy_ms")),
    "exposed communication": (
        ("overlap_breakdown", "exposed_comm_ms"),
        ("critical_path", "exposed_comm_ms"),
        ("nccl_breakdown", "exposed_ms"),
        ("root_cause_matcher", "exposed_comm_ms"),
    ),
    "copies alone": (("overlap_breakdown", "copy_only_ms"), ("critical_path", "copy_only_ms")),
    "kernel time": (
        ("top_kernels", "total_ms"),
        ("nvtx_kernel_map", "kernel_ms"),
        ("nvtx_layer_breakdown", "kernel_ms"),
    ),
    "kernel executions": (
        ("top_kernels", "instances"),
        ("nvtx_kernel_map", "kernels"),
        ("kernel_launch_pattern", "kernels"),
        ("kernel_instances", "instances"),
    ),
    "kernel names": (("top_kernels", "kernels"), ("kernel_instances", "kernels")),
    "launches": (("kernel_launch_overhead", "launches"), ("cpu_gpu_pipeline", "launches")),
    "kernels without a launch": (("kernel_launch_overhead", "unmatched"), ("cpu_gpu_pipeline", "unmatched")),
    "collectives": (
        ("nccl_breakdown", "count"),
        ("nccl_anomaly", "collectives"),
        ("nccl_compile_context_breakdown", "count"),
    ),
    "time of collectives": (("nccl_breakdown", "total_ms"), ("nccl_compile_context_breakdown", "total_ms")),
    "copies": (("memory_transfers", "copies"), ("memory_bandwidth", "ops")),
    "bytes copied": (("memory_transfers", "copied_mb"), ("memory_bandwidth", "total_mb")),
}
"""Figures of totals by what they are."""

SCOPES = ("whole", "a trim", "a device", "an iteration")


@cache
def demo() -> Path:
    (scratch() / "cross").mkdir()
    return write_sqlite(demo_capture()[0], scratch() / "cross" / "demo.sqlite")


def captures() -> list[str]:
    return ["demo", *(path.stem for path in CAPTURES)]


def path_of(capture: str) -> Path:
    return demo() if capture == "demo" else next(path for path in CAPTURES if path.stem == capture)


def scope_of(capture: Path, kind: str) -> dict[str, Any] | None:
    """The arguments of a scope; None where the capture has none such."""
    whole = ask("profile_info", capture)
    if kind == "a trim":
        rows = {row["window"]: row for row in rows_of(whole)}
        window = rows.get("gpu") or rows["capture"]
        start, span = window["start_s"], window["span_ms"] / 1000
        return {"trim": [start + 0.31 * span, start + 0.64 * span]}
    if kind == "a device":
        devices = rows_of(whole, "devices")
        return {"device": devices[-1]["device"]} if devices else None
    if kind == "an iteration":
        return {"iteration": 1} if ask("iteration_timing", capture)["status"] != "abstained" else None
    return {}


@pytest.mark.parametrize("kind", SCOPES)
@pytest.mark.parametrize("capture", captures())
def test_what_several_skills_report_is_the_same_in_all_of_them(capture: str, kind: str) -> None:
    path = path_of(capture)
    scope = scope_of(path, kind)
    if scope is None:
        assert kind in ("a device", "an iteration")
        return
    for what, places in SAME.items():
        found = {}
        for skill, key in places:
            envelope = ask(skill, path, **scope)
            if envelope["status"] != "abstained" and envelope["totals"][key] is not None:
                found[f"{skill}.{key}"] = envelope["totals"][key]
        assert len(set(found.values())) <= 1, (what, found)


def test_on_the_demo_capture_every_skill_of_every_group_answers() -> None:
    for what, places in SAME.items():
        assert None not in [ask(skill, demo())["totals"][key] for skill, key in places], what


@pytest.mark.parametrize("capture", captures())
def test_the_parts_of_each_device_are_the_same_in_all_skills(capture: str) -> None:
    path = path_of(capture)
    answers = {name: ask(name, path) for name in ("overlap_breakdown", "critical_path", "pipeline_bubble_metrics")}
    if any(answer["status"] == "abstained" for answer in answers.values()):
        assert answers["overlap_breakdown"]["status"] == answers["critical_path"]["status"] == "abstained"
        return
    overlap, path_rows, bubbles = (rows_of(answer) for answer in answers.values())
    for one, other, third in zip(overlap, path_rows, bubbles, strict=True):
        for key in ("device", "process", "compute_ms", "exposed_comm_ms", "copy_only_ms"):
            assert one[key] == other[key]
        assert one["idle_ms"] == other["host_ms"] == third["idle_ms"]
        assert (one["compute_ms"], one["comm_ms"]) == (third["compute_ms"], third["comm_ms"])


@pytest.mark.parametrize("capture", captures())
def test_an_iteration_is_the_same_whichever_skill_looks_at_it(capture: str) -> None:
    path = path_of(capture)
    timing = ask("iteration_timing", path)
    if timing["status"] == "abstained":
        assert "iterations" in timing["missing"] or "events" in timing["missing"]
        return
    for row in rows_of(timing)[:3]:
        scope: dict[str, Any] = {"iteration": row["iteration"]}
        bubbles = ask("pipeline_bubble_metrics", path, **scope)
        if bubbles["status"] == "abstained":
            assert row["busy_ms"] is None
            continue
        assert (bubbles["totals"]["busy_ms"], bubbles["totals"]["idle_ms"]) == (row["busy_ms"], row["idle_ms"])
        overlap = ask("overlap_breakdown", path, **scope)["totals"]
        assert (overlap["compute_ms"], overlap["comm_ms"]) == (row["compute_ms"], row["comm_ms"])
        assert ask("top_kernels", path, **scope)["totals"]["instances"] == row["kernels"]
