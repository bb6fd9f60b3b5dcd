"""What clients see is kept: the schema of every tool, and its result on the demo capture, byte for byte.

After a change that is meant: `python -m tests.test_golden`, then read the difference and name it in the changelog.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.server.catalogue import tool_of
from nsys_evidence.tools.registry import all_skills
from tests.support import ask, scratch

HERE = Path(__file__).parent
SCHEMAS, RESULTS = HERE / "snapshots", HERE / "golden"


@cache
def demo() -> Path:
    (scratch() / "golden").mkdir()
    return write_sqlite(demo_capture()[0], scratch() / "golden" / "nsys-evidence-demo.sqlite")


def schema_of(name: str) -> str:
    tool = tool_of(all_skills()[name]).model_dump(by_alias=True, exclude_none=True)
    return json.dumps(tool, indent=1, ensure_ascii=False) + "\n"


def result_of(name: str) -> str:
    skill = all_skills()[name]
    given: dict[str, Any] = dict(skill.example)
    if skill.row is None:
        given["id"] = ask("top_kernels", demo())["evidence"]
    if name == "list_profiles":  # what else is in the session's cache is not part of the promise
        return ""
    return json.dumps(ask(name, demo() if skill.profile else None, **given), indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", all_skills())
def test_the_tool_and_its_schemas_are_those_of_the_snapshot(name: str) -> None:
    assert (SCHEMAS / f"{name}.json").read_text(encoding="utf-8") == schema_of(name)


@pytest.mark.parametrize("name", [name for name in all_skills() if name != "list_profiles"])
def test_the_result_on_the_demo_capture_is_the_golden_one(name: str) -> None:
    assert (RESULTS / f"{name}.json").read_text(encoding="utf-8") == result_of(name)


def test_there_is_no_snapshot_of_a_tool_that_is_gone() -> None:
    names = set(all_skills())
    assert {path.stem for path in SCHEMAS.glob("*.json")} == names
    assert {path.stem for path in RESULTS.glob("*.json")} == names - {"list_profiles"}


if __name__ == "__main__":
    for stale in [*SCHEMAS.glob("*.json"), *RESULTS.glob("*.json")]:
        stale.unlink()
    for skill_name in all_skills():
        (SCHEMAS / f"{skill_name}.json").write_text(schema_of(skill_name), encoding="utf-8")
        if text := result_of(skill_name):
            (RESULTS / f"{skill_name}.json").write_text(text, encoding="utf-8")
