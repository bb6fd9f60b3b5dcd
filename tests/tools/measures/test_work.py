from __future__ import annotations

import pytest

from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Range, Set
from nsys_evidence.ingest.tables import TABLES
from nsys_evidence.tools.measures.work import WORK_TABLES
from tests.support import ask, written


def test_tables_of_gpu_work_are_those_with_a_device_and_a_launch() -> None:
    assert set(WORK_TABLES) == {name for name, schema in TABLES.items() if {"gpu", "call_start"} <= set(schema.names)}


@pytest.mark.parametrize("skill", ["gpu_idle_gaps", "nvtx_layer_breakdown", "code_attribution_candidates"])
def test_any_kind_of_gpu_work_is_enough_for_skills_about_work(skill: str) -> None:
    window = {"start_ns": 1, "end_ns": 1_000} if skill == "code_attribution_candidates" else {}
    for capture in (
        Capture([Kernel(10, 20, 0, 1, 7, 1, 101, "scale")]),
        Capture([], copies=[Copy(10, 20, 0, 1, 7, 1, 101, 64, 1)]),
        Capture([], sets=[Set(10, 20, 0, 1, 7, 1, 101, 64)]),
        Capture([], graph_launches=[GraphLaunch(10, 20, 0, 1, 7, 1, 101, 1)]),
    ):
        capture.ranges.append(Range(1, 1_000, 101, 101, "step"))
        capture.calls.append(Call(2, 4, 101, 101, "cudaLaunchKernel", 1))
        assert ask(skill, written(capture), **window)["status"] != "abstained"
    without = Capture(
        [], calls=[Call(2, 4, 101, 101, "cudaLaunchKernel", 1)], ranges=[Range(1, 1_000, 101, 101, "step")]
    )
    assert ask(skill, written(without), **window)["status"] == "abstained"
