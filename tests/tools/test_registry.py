"""The registry is complete and consistent: what it says of a skill holds for every skill."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nsys_evidence.contracts.columns import NoTotals, columns_of
from nsys_evidence.tools.capture_hints import CAPTURE_HINTS, KIND_NAMES
from nsys_evidence.tools.registry import CATEGORIES, Skill, all_skills

ROOT = Path(__file__).resolve().parents[2]
every_skill = pytest.mark.parametrize("skill", all_skills().values(), ids=all_skills())


def test_skills_are_listed_by_category_then_name() -> None:
    skills = list(all_skills().values())
    assert skills == sorted(skills, key=lambda skill: (CATEGORIES.index(skill.category), skill.name))


@every_skill
def test_a_skill_leads_on_only_to_skills_that_exist(skill: Skill) -> None:
    assert set(skill.next) <= set(all_skills()) - {skill.name}


@every_skill
def test_what_a_skill_needs_is_a_kind_of_event_with_a_hint_how_to_record_it(skill: Skill) -> None:
    assert set(skill.needs) <= set(CAPTURE_HINTS) & set(KIND_NAMES)


@every_skill
def test_every_column_says_what_it_means(skill: Skill) -> None:
    models = [model for model in (skill.row, skill.totals, *skill.tables.values()) if model not in (None, NoTotals)]
    for model in models:
        assert model is not None
        assert all(column.meaning for column in columns_of(model)), model.__name__


@every_skill
def test_every_skill_says_when_to_use_it_in_one_line_and_how_to_read_it(skill: Skill) -> None:
    assert skill.when.endswith(".")
    assert "\n" not in skill.when
    assert skill.reading
    assert all(field.description for field in skill.params.model_fields.values())


def test_every_folder_of_code_is_installed() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders = ("contracts", "ingest", "tools", "server", "agent_evals")
    found = {
        "nsys_evidence." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in folders
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert found == listed
