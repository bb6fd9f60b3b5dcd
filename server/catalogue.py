"""The tools, made from the registry of skills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ..contracts.envelope import envelope_schema
from ..tools.arguments import input_schema
from ..tools.capture_hints import KIND_NAMES
from ..tools.registry import Skill, all_skills

_ANNOTATIONS = types.ToolAnnotations(
    read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The skills by name and their tools, both in the fixed order of the registry."""

    skills: dict[str, Skill]
    tools: list[types.Tool]


def output_schema(skill: Skill) -> dict[str, Any]:
    """The schema of a skill's results; of any result for the skill that returns kept ones."""
    if skill.row is None:
        return envelope_schema(None, None, None, None)
    return envelope_schema(skill.name, skill.row, skill.totals, skill.tables)


def describe(skill: Skill) -> str:
    """The description of a tool: when to use it, and what a capture must hold for it."""
    needs = " and ".join(KIND_NAMES[kind] for kind in skill.needs)
    return f"{skill.when} Needs {needs}." if needs else skill.when


def tool_of(skill: Skill) -> types.Tool:
    """The tool of a skill."""
    return types.Tool(
        name=skill.name,
        title=skill.title,
        description=describe(skill),
        input_schema=input_schema(skill),
        output_schema=output_schema(skill),
        annotations=_ANNOTATIONS,
    )


def load_catalogue() -> Catalogue:
    """Import every skill and describe it."""
    skills = all_skills()
    return Catalogue(skills, [tool_of(skill) for skill in skills.values()])
