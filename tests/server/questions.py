"""An example call of every tool, so that tests can go through all of them."""

from __future__ import annotations

from typing import Any

from nsys_evidence.tools.arguments import input_schema
from nsys_evidence.tools.registry import Skill


def example_arguments(skill: Skill, capture: str, evidence: str) -> dict[str, Any]:
    """Arguments with which a tool answers about the demo capture; `evidence` is the id of a kept result."""
    known = {"profile": capture, "id": evidence, **skill.example}
    given = {name: known[name] for name in input_schema(skill)["required"]}
    return {**given, **({"profile": capture} if skill.profile else {}), **skill.example}
