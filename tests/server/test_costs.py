"""What the server costs an agent: bytes of the tool list, of a result that nothing was asked of, and of a triage."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import mcp_types as types
import pytest

from nsys_evidence.contracts.envelope import DEFAULT_BYTES, MAX_BYTES
from nsys_evidence.contracts.errors import EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.surface import Surface
from nsys_evidence.tools.arguments import input_schema
from nsys_evidence.tools.registry import Skill, all_skills
from tests.server.questions import example_arguments
from tests.support import CAPTURES, ask, needs_shared

LIST_BYTES = 36_000
"""Name, description and input schema of every tool, which clients put into the model's context: some 9,000 tokens."""

TOOL_BYTES = 800
"""The same for one tool, on average: what the list has room for with 45 tools."""

COMPACT_BYTES = 3_000
RESULT_BYTES = dict.fromkeys(all_skills(), DEFAULT_BYTES)
RESULT_BYTES["profile_health_manifest"] = 8_000
RESULT_BYTES["get_evidence"] = MAX_BYTES  # a result as it was given, and the full names behind its labels
TRIAGE = ("profile_health_manifest", "top_kernels", "gpu_idle_gaps", "overlap_breakdown")
TRIAGE_BYTES = 20_000


def listed_bytes(tools: list[types.Tool]) -> int:
    shown = [{"name": t.name, "description": t.description, "inputSchema": t.input_schema} for t in tools]
    return len(dump_json(shown).encode())


def test_all_tools_together_cost_few_bytes_of_context() -> None:
    tools = load_catalogue().tools
    assert listed_bytes(tools) <= LIST_BYTES
    assert listed_bytes(tools) <= TOOL_BYTES * len(tools)


def test_the_compact_surface_costs_a_fraction_of_it() -> None:
    assert listed_bytes(load_catalogue(surface=Surface(compact=True)).tools) <= COMPACT_BYTES


def real() -> Path:
    [path] = [path for path in CAPTURES if path.stem == "h100x2_nccl_2026.2"]
    return path


@cache
def result_bytes(name: str) -> int:
    """Bytes of a skill's result, asked with nothing but what it requires; of its error where that fails."""
    skill = all_skills()[name]
    example = example_arguments(skill, str(real()), ask("top_kernels", real())["evidence"])
    required = ("profile", *input_schema(skill)["required"])
    answer = ""
    for given in ({key: value for key, value in example.items() if key in required}, example):
        try:
            return len(dump_json(ask(name, **given)).encode())
        except EvidenceError as error:  # values that mean something in the demo may mean nothing here
            assert skill.example, name
            answer = error.to_json()
    return len(answer.encode())


@needs_shared
@pytest.mark.parametrize("skill", [s for s in all_skills().values() if s.name != "list_profiles"], ids=lambda s: s.name)
def test_a_default_result_is_small(skill: Skill) -> None:
    assert result_bytes(skill.name) <= RESULT_BYTES[skill.name]


@needs_shared
def test_a_triage_is_small() -> None:
    there = [name for name in TRIAGE if name in all_skills()]
    assert there[-3:] == list(TRIAGE[1:])
    assert sum(result_bytes(name) for name in there) <= TRIAGE_BYTES
