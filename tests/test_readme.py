"""What the README shows of the demo capture is what anybody gets."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from nsys_evidence.contracts.evidence import parse_address, resolve_address
from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.tools.registry import all_skills
from tests.support import ask, rows_of, scratch

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@cache
def results() -> dict[str, dict[str, Any]]:
    """The results that the README shows or cites, by evidence id."""
    (scratch() / "readme").mkdir()
    demo = write_sqlite(demo_capture()[0], scratch() / "readme" / "nsys-evidence-demo.sqlite")
    asked = [
        ask("top_kernels", demo),
        ask("gpu_idle_gaps", demo),
        ask("gpu_idle_gaps", demo, max_rows=3, device=0),
        ask("gpu_idle_gaps", demo, max_rows=2),
        ask("profile_health_manifest", demo),
        ask("critical_path", demo),
        ask("iteration_timing", demo),
        ask("iteration_detail", demo, iteration=5),
        ask("host_sync_parent_ranges", demo),
        ask("root_cause_matcher", demo),
    ]
    return {result["evidence"]: result for result in asked}


def of(skill: str, number: int = 0) -> dict[str, Any]:
    return [result for result in results().values() if result["skill"] == skill][number]


def test_every_evidence_id_and_profile_id_in_the_readme_is_that_of_the_call_it_stands_with() -> None:
    top, gaps, on_device_0 = of("top_kernels"), of("gpu_idle_gaps"), of("gpu_idle_gaps", 1)
    assert set(re.findall(r"ev-[0-9a-z]{10}\b", README)) == set(results())
    assert set(re.findall(r"p-[0-9a-f]{20}\b", README)) == {top["profile"]["id"]}
    first = rows_of(top)[0]
    assert f"answered: {first['instances']}  [{top['evidence']}:0.instances]" in README
    assert f"answered: {first['total_ms']}  [{top['evidence']}:0.total_ms]" in README
    assert f"answered: {gaps['totals']['idle_ms']}  [{gaps['evidence']}:totals.idle_ms]" in README
    for row in rows_of(on_device_0):
        assert str(row["start_ns"]) in README
        assert str(row["gap_us"]) in README


WORDS = {"no_cuda_call": "no CUDA call", "2": "twice", "cpu": "host"}
"""How the answer puts what a cell holds, where it does not repeat it."""


def test_every_cell_that_the_triage_cites_holds_what_its_answer_says() -> None:
    answer = " ".join(
        README[README.index("The answer:") : README.index("## Reading a result")].replace(">", "").split()
    )
    said = re.findall(r"([^\[\]]*)\[([^\]]*ev-[^\]]*)\]", answer)
    assert len(said) == 9
    for sentence, cells in said:
        for cell in cells.split(", "):
            address = parse_address(cell)
            value = str(resolve_address(address, results()[address.evidence]))
            assert value in sentence or WORDS.get(value, value) in sentence, (cell, value, sentence)


def test_the_results_that_the_triage_shows_are_those_of_its_calls() -> None:
    shown = README[README.index("## A triage") : README.index("The answer:")]
    for skill in ("iteration_detail", "gpu_idle_gaps", "host_sync_parent_ranges"):
        envelope = of(skill)
        assert f'{{"evidence": "{envelope["evidence"]}"' in shown
    for number in re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", shown):
        assert any(number in str(result) for result in results().values()), number


def test_the_readme_names_every_skill() -> None:
    assert set(re.findall(r"^\| `([a-z0-9_]+)` \|", README, re.MULTILINE)) == set(all_skills())
