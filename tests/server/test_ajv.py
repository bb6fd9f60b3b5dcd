"""What JavaScript clients do before a model sees anything: ajv reads every schema, and checks every result with it.

Needs node, and ajv in `tests/ajv` (`npm install --no-package-lock` there): skipped, saying so, where they are not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.errors import EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Capture, demo_capture, write_sqlite
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.compact import describe_skill, list_skills
from nsys_evidence.server.surface import Surface
from nsys_evidence.tools.registry import Skill, all_skills
from tests.server.questions import example_arguments
from tests.support import CAPTURES, ask

HERE = Path(__file__).parents[1] / "ajv"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    NODE is None or not (HERE / "node_modules" / "ajv").is_dir(),
    reason="NO CHECK WITH ajv: node is missing, or ajv in tests/ajv (npm install --no-package-lock there)",
)

Dump = list[dict[str, Any]]


def asked(skill: Skill, captures: list[str]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Arguments and results of a skill about every capture; in one of them nothing was recorded."""
    evidence = ask("top_kernels", captures[0])["evidence"]
    for capture in captures:
        given = example_arguments(skill, capture, evidence)
        for more in ({}, {"max_rows": 1, "offset": 1} if skill.row else {}):
            try:
                result = ask(skill.name, **{**given, **more})
            except EvidenceError:  # an example may ask for what another capture does not have: no result, no check
                continue
            yield {**given, **more}, json.loads(dump_json(result))


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    """Every tool of both surfaces with its schemas, arguments that it takes and results that it gave."""
    directory = tmp_path_factory.mktemp("ajv")
    demo = write_sqlite(demo_capture()[0], directory / "demo.sqlite")
    nothing = write_sqlite(Capture(), directory / "nothing.sqlite")
    real = [path for path in CAPTURES if path.stem in ("h100x2_nccl_2026.2", "cpu_nvtx_osrt-2023.4.4")]
    captures = [str(path) for path in (demo, nothing, *real)]
    skills = all_skills()
    calls = {name: list(asked(skill, captures)) for name, skill in skills.items()}
    calls["list_skills"] = [(given, list_skills(skills, given)) for given in ({}, {"category": "kernels"})]
    calls["describe_skill"] = [({"skill": name}, describe_skill(skills, {"skill": name})) for name in skills]
    calls["run_skill"] = [({"skill": name, "arguments": g}, r) for name in skills for g, r in calls[name]]
    assert all(calls.values())
    tools = {t.name: t for t in [*load_catalogue().tools, *load_catalogue(surface=Surface(compact=True)).tools]}
    return [
        {
            "name": tool.name,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "arguments": [given for given, _ in calls[tool.name]],
            "results": [result for _, result in calls[tool.name]],
        }
        for tool in tools.values()
    ]


def check(tools: Dump, directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "dump.json").write_text(dump_json({"tools": tools}), encoding="utf-8")
    command = [NODE or "node", str(HERE / "check.mjs"), str(directory / "dump.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_every_schema_compiles_and_every_result_fits_it_in_both_dialects(dump: Dump, tmp_path: Path) -> None:
    done = check(dump, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    values = sum(len(tool["arguments"]) + len(tool["results"]) for tool in dump)
    assert done.stdout == f"ajv: {len(dump)} tools, {len(dump) * 4} schemas, {values * 2} values\n"
    statuses = {result["status"] for tool in dump for result in tool["results"] if "status" in result}
    assert {"ok", "abstained"} <= statuses


def spoiled(dump: Dump, name: str) -> tuple[Dump, dict[str, Any]]:
    """A copy of the dump of one tool with its first result, to be made wrong."""
    [tool] = [tool for tool in dump if tool["name"] == name]
    tool = deepcopy({**tool, "results": tool["results"][:1], "arguments": tool["arguments"][:1]})
    return [tool], tool


def test_a_wrong_result_is_found(dump: Dump, tmp_path: Path) -> None:
    tools, tool = spoiled(dump, "top_kernels")
    assert check(tools, tmp_path).returncode == 0
    tool["results"][0]["status"] = "fine"
    tool["results"][0]["rows"][0][1] = "many"
    done = check(tools, tmp_path)
    assert done.returncode == 1
    assert "draft-07: top_kernels: result 0: /status" in done.stdout
    assert "2020-12: top_kernels: result 0: /" in done.stdout


def test_a_cell_of_the_wrong_type_and_a_row_of_the_wrong_length_are_found(dump: Dump, tmp_path: Path) -> None:
    tools, tool = spoiled(dump, "top_kernels")
    tool["results"][0]["rows"][0][1] = "many"
    assert "2020-12: top_kernels: result 0: /rows/0/1 must be integer" in check(tools, tmp_path).stdout
    tools, tool = spoiled(dump, "top_kernels")
    tool["results"][0]["rows"][0].pop()
    said = check(tools, tmp_path).stdout
    assert "draft-07: top_kernels: result 0: /rows/0 must NOT have fewer than" in said
    assert "2020-12: top_kernels: result 0: /rows/0 must NOT have fewer than" in said


def test_a_schema_that_a_client_would_choke_on_is_found(dump: Dump, tmp_path: Path) -> None:
    tools, tool = spoiled(dump, "top_kernels")
    tool["inputSchema"]["properties"]["device"]["type"] = "int"
    said = check(tools, tmp_path).stdout
    assert "draft-07: top_kernels: arguments schema: " in said
    assert "2020-12: top_kernels: arguments schema: " in said
