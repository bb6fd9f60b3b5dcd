"""The tools, made from the registry of skills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ..contracts.envelope import envelope_schema
from ..tools.arguments import input_schema
from ..tools.registry import Skill
from . import compact
from .pages import describe
from .surface import Surface

_ANNOTATIONS = types.ToolAnnotations(
    read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a server offers: its skills by name, in a fixed order, and its tools."""

    skills: dict[str, Skill]
    tools: list[types.Tool]

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return [tool.name for tool in self.tools]


def output_schema(skill: Skill) -> dict[str, Any]:
    """The schema of a skill's results; of any result for the skill that returns kept ones."""
    if skill.row is None:
        return envelope_schema(None, None, None, None)
    return envelope_schema(skill.name, skill.row, skill.totals, skill.tables)


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


def _compact_tools(skills: dict[str, Skill]) -> list[types.Tool]:
    """The tools of the compact surface."""
    return [
        types.Tool(
            name=compact.LIST_SKILLS,
            title="List skills",
            description="To see which skills there are and when to use each: one row a skill, of all or of a category.",
            input_schema=compact.list_input(skills),
            output_schema=compact.list_output(),
            annotations=_ANNOTATIONS,
        ),
        types.Tool(
            name=compact.DESCRIBE_SKILL,
            title="Describe skill",
            description="To see what a skill takes, and its columns with units, before it is run for the first time.",
            input_schema=compact.describe_input(),
            output_schema=compact.describe_output(),
            annotations=_ANNOTATIONS,
        ),
        types.Tool(
            name=compact.RUN_SKILL,
            title="Run skill",
            description="To run a skill of list_skills; its result is that of a tool of its own, evidence id and all.",
            input_schema=compact.run_input(),
            output_schema=compact.run_output(),
            annotations=_ANNOTATIONS,
        ),
        *(tool_of(skills[name]) for name in compact.TOOLS_AS_THEY_ARE),
    ]


def load_catalogue(*, surface: Surface | None = None) -> Catalogue:
    """Import every skill, and describe what a server with this surface offers."""
    surface = surface or Surface()
    skills = surface.skills()
    if surface.compact:
        return Catalogue(skills, _compact_tools(skills))
    return Catalogue(skills, [tool_of(skill) for skill in skills.values()])
