"""Section 1.7: one way to say "cannot answer", and nothing that could not be looked at is called healthy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.errors import ErrorCode
from nsys_evidence.ingest.synthetic import Capture
from nsys_evidence.tools import registry
from nsys_evidence.tools.capture_hints import CAPTURE_HINTS
from tests.pitfalls.asking import ABOUT_PROFILES, WINDOWED, answer, answers, small_capture
from tests.support import ask, rows_of, written

ONE_KIND: dict[str, tuple[str, ...]] = {
    "kernels": ("kernels",),
    "copies": ("copies",),
    "sets": ("sets",),
    "calls": ("calls",),
    "graphs": ("graph_launches",),
    "nvtx": ("ranges",),
    "osrt": ("osrt_calls",),
    "sched": ("running",),
    "samples": ("samples",),
}
"""Captures that recorded one kind of event, and the parts of the small capture that they hold."""


@cache
def capture_of(kind: str) -> Path:
    full = small_capture()
    parts: dict[str, Any] = {name: getattr(full, name) for name in ONE_KIND[kind]}
    return written(Capture(**parts, processes=full.processes, gpus=full.gpus))


@pytest.mark.parametrize("kind", ONE_KIND)
def test_a_capture_of_one_kind_of_event_is_answered_from_it_or_abstained_on(kind: str) -> None:
    found = answers(capture_of(kind))
    answered = set()
    for name, envelope in found.items():
        assert not isinstance(envelope, ErrorCode), name
        skill = ABOUT_PROFILES[name]
        lacking = [need for need in skill.needs if need != kind]
        if lacking:
            assert envelope["status"] == "abstained", name
            assert set(lacking) <= set(envelope["missing"]), name
        if envelope["status"] == "abstained":
            assert envelope["missing"], name
            assert (envelope["rows"], envelope["totals"], envelope["tables"]) == ([], None, {}), name
            assert envelope["capture_hint"], name
        else:
            answered.add(name)
    assert answered - {"doctor", "profile_info", "schema_inspect", "profile_health_manifest"}, kind


def test_every_kind_that_a_skill_can_miss_has_a_hint_that_records_it() -> None:
    for name, skill in WINDOWED.items():
        for need in skill.needs:
            assert CAPTURE_HINTS[need].startswith("nsys profile"), name


@pytest.mark.parametrize("kind", ["nvtx", "osrt", "calls"])
def test_idle_time_is_not_told_from_host_events_alone(kind: str) -> None:
    for name in ("gpu_idle_gaps", "pipeline_bubble_metrics", "overlap_breakdown", "critical_path", "top_kernels"):
        found = ask(name, capture_of(kind))
        assert found["status"] == "abstained", name
        assert "kernels" in found["missing"], name


def test_host_calls_without_kernels_are_said_to_be_there() -> None:
    coverage = {row["kind"]: row["status"] for row in rows_of(ask("profile_info", capture_of("calls")), "coverage")}
    assert coverage["calls"] == "recorded"
    assert coverage["kernels"] == "not recorded"


def test_a_process_without_kernels_is_no_idle_device() -> None:
    full = small_capture()
    first = full.processes[0].pid
    path = written(replace(full, kernels=[k for k in full.kernels if k.pid == first], copies=[], sets=[]))
    rows = rows_of(ask("pipeline_bubble_metrics", path))
    assert {row["device"] for row in rows} == {0}


FAILING = [name for name, skill in WINDOWED.items() if skill.category != "analysis"]


def test_a_part_that_fails_is_listed_by_every_skill_that_is_made_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts fail at once: each is listed as failed, and nothing reads like a clean bill."""

    def broken(_: Any) -> Any:
        raise ValueError("a defect")

    path = written(small_capture())
    for name in FAILING:
        monkeypatch.setitem(registry._SKILLS, name, replace(WINDOWED[name], run=broken))
    causes = ask("root_cause_matcher", path)
    assert causes["status"] == "partial"
    assert causes["rows"] == [] or {row["pattern"] for row in rows_of(causes)} == {"profiler_overhead"}
    assert causes["totals"]["findings"] == len(causes["rows"])
    listed = rows_of(causes, "not_checked")
    assert {row["status"] for row in listed if row["pattern"] != "profiler_overhead"} == {"failed"}
    manifest = ask("profile_health_manifest", path)
    assert manifest["status"] == "partial"
    assert manifest["totals"]["unanswered"] > 0
    assert manifest["totals"]["bottleneck"] is None


def test_an_abstention_has_no_cell_that_could_be_cited_as_a_figure() -> None:
    for name in ("iteration_timing", "nvtx_kernel_map", "iteration_detail"):
        found = answer(ABOUT_PROFILES[name], capture_of("copies"))
        assert not isinstance(found, ErrorCode)
        assert (found["status"], found["rows"], found["totals"]) == ("abstained", [], None)
