"""What tests of custom skills share: the text of a skill, and skills made of SQL, several in one child process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from nsys_evidence.contracts.envelope import envelope_schema
from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.tools.custom.markdown import parse_skill
from nsys_evidence.tools.custom.skills import make_skills
from nsys_evidence.tools.registry import Skill
from nsys_evidence.tools.run import Envelope, run_skill
from tests.support import workspace


def text_of(sql: str, parameters: str = "", name: str = "mine", category: str = "custom") -> str:
    """The Markdown of a skill with this SQL; the SQL begins on line 13, or 16 with parameters."""
    section = f"## Parameters\n{parameters}\n\n" if parameters else ""
    return (
        f"# {name}\n\n## Description\nTo see what a test sees.\n\nOne row a row.\n\n## Category\n{category}\n\n"
        f"{section}## SQL\n```sql\n{sql}\n```\n"
    )


def tried(*sqls: str, parameters: str = "") -> list[Skill | EvidenceError]:
    """The skill of each SQL, or its error; all are checked in one process."""
    return make_skills([parse_skill(text_of(sql, parameters)) for sql in sqls])


def made(sql: str, parameters: str = "") -> Skill:
    """The skill of SQL that is right."""
    [skill] = tried(sql, parameters=parameters)
    assert isinstance(skill, Skill), skill
    return skill


def refused(sql: str, parameters: str = "") -> EvidenceError:
    """The error of SQL that is wrong: SKILL_INVALID, with its line."""
    [error] = tried(sql, parameters=parameters)
    assert isinstance(error, EvidenceError), error
    assert error.code is ErrorCode.SKILL_INVALID
    assert error.hint
    return error


def asked(skill: Skill, capture: Path, **arguments: object) -> Envelope:
    """The envelope of a custom skill, checked against its output schema."""
    envelope = run_skill(skill, {"profile": str(capture), **arguments}, workspace())
    schema: dict[str, Any] = envelope_schema(skill.name, skill.row, skill.totals, skill.tables)
    Draft202012Validator(schema).validate(json.loads(dump_json(envelope)))
    return envelope
