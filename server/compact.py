"""The compact surface: `list_skills`, `describe_skill` and `run_skill` instead of one tool for every skill."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..contracts.columns import Column, NoTotals, Row, columns_of
from ..contracts.envelope import envelope_schema
from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.units import Unit
from ..tools.arguments import COMMON_PROPERTIES, check_values, input_schema
from ..tools.registry import Skill
from .pages import describe

Skills = Mapping[str, Skill]
Json = dict[str, Any]

LIST_SKILLS, DESCRIBE_SKILL, RUN_SKILL = "list_skills", "describe_skill", "run_skill"
TOOLS_AS_THEY_ARE = ("get_evidence", "profile_info")
"""Skills that have a tool of their own on the compact surface, too."""

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_SKILL = {"type": "string", "description": "a name from list_skills"}
_LIST_COLUMNS = ["skill", "category", "when"]
_COLUMN_SCHEMA = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "unit": {"type": "string", "enum": [unit.value for unit in Unit]},
        "meaning": _TEXT,
        "of": {"type": "string", "description": "what a share is a share of"},
        "nullable": {"type": "boolean", "description": "whether it may be null: unknown"},
    },
    "required": ["name", "unit", "meaning"],
}
_COLUMNS_SCHEMA = {"type": "array", "items": _COLUMN_SCHEMA}

EXAMPLES = {"profile": "/data/run7.sqlite", "id": "ev-7k3m9qx2w4"}
"""Values that stand for a capture and for an evidence id in examples of calls."""


def _object(properties: Json, *required: str, closed: bool = True) -> Json:
    body: Json = {"type": "object", "properties": properties, "required": list(required)}
    return {**body, "additionalProperties": False} if closed else body


def list_input(skills: Skills) -> Json:
    """The input schema of `list_skills`."""
    offered = dict.fromkeys(skill.category for skill in skills.values())
    return _object({"category": {"type": "string", "enum": list(offered)}})


def list_output() -> Json:
    """The output schema of `list_skills`: one row a skill."""
    row = {"type": "array", "prefixItems": [_TEXT] * 3, "minItems": 3, "maxItems": 3}
    properties: Json = {
        "columns": {**_TEXTS, "const": _LIST_COLUMNS},
        "rows": {"type": "array", "items": row},
    }
    return _object(properties, *properties, closed=False)


def list_skills(skills: Skills, given: Mapping[str, object] | None) -> Json:
    """One row a skill, in the order of the registry, all of them or those of a category."""
    category = check_values(LIST_SKILLS, list_input(skills), given).get("category")
    found = [skill for skill in skills.values() if category in (None, skill.category)]
    return {"columns": _LIST_COLUMNS, "rows": [[s.name, s.category, describe(s)] for s in found]}


def describe_input() -> Json:
    """The input schema of `describe_skill`."""
    return _object({"skill": _SKILL}, "skill")


def describe_output() -> Json:
    """The output schema of `describe_skill`."""
    properties: Json = {
        "skill": _TEXT,
        "category": _TEXT,
        "title": _TEXT,
        "when": _TEXT,
        "input_schema": {"type": "object", "description": "JSON schema of run_skill's arguments"},
        "example": {"type": "object", "description": "a call of run_skill"},
        "columns": _COLUMNS_SCHEMA,
        "totals": _COLUMNS_SCHEMA,
        "tables": {"type": "object", "additionalProperties": _COLUMNS_SCHEMA},
        "notes": {"type": "string", "description": "how to read the result"},
        "next": _TEXTS,
    }
    return _object(properties, *properties, closed=False)


def describe_skill(skills: Skills, given: Mapping[str, object] | None) -> Json:
    """What a skill takes and what its results mean."""
    skill = _named(skills, DESCRIBE_SKILL, check_values(DESCRIBE_SKILL, describe_input(), given))
    return {
        "skill": skill.name,
        "category": skill.category,
        "title": skill.title,
        "when": describe(skill),
        "input_schema": input_schema(skill),
        "example": example_call(skill),
        "columns": _columns(skill.row),
        "totals": _columns(skill.totals),
        "tables": {name: _columns(model) for name, model in skill.tables.items()},
        "notes": inspect.cleandoc(skill.reading),
        "next": [name for name in skill.next if name in skills],
    }


LOOK_UPS = {LIST_SKILLS: list_skills, DESCRIBE_SKILL: describe_skill}
"""The tools that tell of skills and run none."""


def _columns(model: type[Row] | None) -> list[Json]:
    return [_column(column) for column in columns_of(model or NoTotals)]


def _column(column: Column) -> Json:
    shown: Json = {"name": column.name, "unit": column.unit.value, "meaning": column.meaning}
    if column.of:
        shown["of"] = column.of
    if column.nullable:
        shown["nullable"] = True
    return shown


def run_input() -> Json:
    """The input schema of `run_skill`. Arguments that only some skills take are in `describe_skill`."""
    arguments = {
        "type": "object",
        "description": "the skill's arguments: those of describe_skill",
        "properties": COMMON_PROPERTIES,
    }
    return _object({"skill": _SKILL, "arguments": arguments}, "skill")


def run_output() -> Json:
    """The output schema of `run_skill`: the result of any skill."""
    return envelope_schema(None, None, None, None)


def run_named(
    skills: Skills, given: Mapping[str, object] | None, run: Callable[[Skill, Mapping[str, object]], Json]
) -> Json:
    """Run the skill that `skill` names on `arguments`, an object or JSON text of one: exactly as its own tool does.

    Raises:
        EvidenceError: as the skill does; errors of arguments say what the skill takes, and show a call that works.
    """
    loose = _object({"skill": _SKILL, "arguments": {"type": "object"}}, "skill")  # the skill itself checks its own
    try:
        values = check_values(RUN_SKILL, loose, given)
    except EvidenceError as error:
        raise _with(error, example=example_call(_meant(skills, given))) from None
    skill = _named(skills, RUN_SKILL, values)
    arguments: Any = values.get("arguments", {})
    try:
        return run(skill, arguments)
    except EvidenceError as error:
        if error.code in (ErrorCode.INVALID_ARGUMENT, ErrorCode.UNKNOWN_ARGUMENT, ErrorCode.TRIM_AND_ITERATION):
            valid = list(input_schema(skill)["properties"])
            raise _with(error, valid=valid, example=example_call(skill, arguments.get("profile"))) from None
        raise


def _meant(skills: Skills, given: Mapping[str, object] | None) -> Skill:
    """The skill that a call which is wrong otherwise names, or else one that every server offers."""
    name = (given or {}).get("skill")
    return skills[name if isinstance(name, str) and name in skills else "profile_info"]


def _named(skills: Skills, tool: str, values: Mapping[str, object]) -> Skill:
    """The skill that the argument `skill` names."""
    name = str(values["skill"])
    if name in skills:
        return skills[name]
    near = difflib.get_close_matches(name[:80], skills, 3, cutoff=0.4)
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    raise EvidenceError(
        ErrorCode.INVALID_ARGUMENT,
        f"there is no skill {name[:80]!r}",
        f"{nearest}{LIST_SKILLS} names all that {tool} takes",
        argument="skill",
        nearest=near,
    )


def example_call(skill: Skill, profile: object = None) -> Json:
    """A call of `run_skill` with all that the skill requires."""
    known = {**EXAMPLES, **skill.example}
    if isinstance(profile, str) and profile:
        known["profile"] = profile
    wanted = [*input_schema(skill)["required"], *skill.example]
    return {"skill": skill.name, "arguments": {name: known[name] for name in dict.fromkeys(wanted)}}


def _with(error: EvidenceError, **facts: object) -> EvidenceError:
    return EvidenceError(error.code, error.message, error.hint, **{**error.facts, **facts})
