"""The tools, made from the registry of skills."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types

from ..contracts.envelope import envelope_schema
from ..contracts.wire import clean_text
from ..tools.arguments import input_schema
from ..tools.capture_hints import KIND_NAMES
from ..tools.registry import Skill, all_skills

logger = logging.getLogger(__name__)

_ANNOTATIONS = types.ToolAnnotations(
    read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The skills by name and their tools, both in the order of the registry, then custom ones in the order of names."""

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


def load_catalogue(skills_directory: Path | None = None) -> Catalogue:
    """Import every skill, and the custom ones of a directory, and describe them."""
    skills = {**all_skills(), **_custom_skills(skills_directory)}
    return Catalogue(skills, [tool_of(skill) for skill in skills.values()])


def _custom_skills(directory: Path | None) -> Mapping[str, Skill]:
    """The custom skills of a directory; files that are no skill are named in the log and left out."""
    if directory is None:
        return {}
    from ..tools.custom.folder import load_skills

    found = load_skills(directory)
    for name, error in found.refused.items():
        logger.warning("%s is left out: %s: %s", clean_text(name, 80), error.code.value, error.message)
    return found.skills
