"""The tools as clients see them: a fixed order, plain schemas, few bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from jsonschema import Draft202012Validator

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.instructions import COMPACT_INSTRUCTIONS, INSTRUCTIONS
from nsys_evidence.server.surface import Surface
from nsys_evidence.tools.registry import CATEGORIES, all_skills

TOOLS = load_catalogue().tools
COMPACT = load_catalogue(surface=Surface(compact=True)).tools
OF_SKILLS = [tool for tool in COMPACT if tool.name not in all_skills()]
by_tool = pytest.mark.parametrize("tool", [*TOOLS, *OF_SKILLS], ids=lambda tool: tool.name)

MAX_INPUT_BYTES = 1_800
"""Name, description and input schema of one tool; clients put them all into the model's context."""

MAX_INSTRUCTION_LINES = 18


def schemas_in(schema: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its place."""
    yield where, schema
    for key in ("properties", "$defs"):
        for name, part in schema.get(key, {}).items():
            yield from schemas_in(part, f"{where}/{name}")
    for key in ("anyOf", "prefixItems", "oneOf", "allOf"):
        for number, part in enumerate(schema.get(key, [])):
            yield from schemas_in(part, f"{where}/{key}{number}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas_in(schema[key], f"{where}/{key}")


def both(tool: types.Tool) -> list[dict[str, Any]]:
    assert tool.output_schema is not None
    return [tool.input_schema, tool.output_schema]


def test_tools_stand_in_the_order_of_the_registry_by_category_then_name() -> None:
    names = [tool.name for tool in TOOLS]
    skills = all_skills()
    assert names == list(skills)
    assert names == sorted(names, key=lambda name: (CATEGORIES.index(skills[name].category), name))


def test_two_lists_are_the_same_to_the_byte() -> None:
    dumps = [[tool.model_dump_json(by_alias=True) for tool in load_catalogue().tools] for _ in range(2)]
    assert dumps[0] == dumps[1]


@by_tool
def test_a_name_is_short_and_plain_and_every_tool_says_what_it_is_for(tool: types.Tool) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,39}", tool.name)
    assert tool.title
    assert tool.description
    assert len(tool.description) < 300
    assert tool.description.endswith((".", "?"))


@by_tool
def test_tools_only_read(tool: types.Tool) -> None:
    assert tool.annotations is not None
    hints = tool.annotations
    assert (hints.read_only_hint, hints.idempotent_hint) == (True, True)
    assert (hints.destructive_hint, hints.open_world_hint) == (False, False)


@by_tool
def test_schemas_are_valid_plain_objects_without_references_or_unions_at_the_root(tool: types.Tool) -> None:
    for schema in both(tool):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "not", "if"} & set(schema)
        assert not re.search(r'"\$(ref|defs|dynamicRef)"', json.dumps(schema))


@by_tool
def test_every_property_is_typed_and_no_type_is_a_list(tool: types.Tool) -> None:
    for schema in both(tool):
        for where, part in schemas_in(schema):
            assert {"type", "anyOf", "enum", "const"} & set(part), where
            assert not isinstance(part.get("type"), list), where
            assert part.get("items") is not False, where


@by_tool
def test_inputs_are_flat_and_refuse_what_they_do_not_know(tool: types.Tool) -> None:
    schema = tool.input_schema
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    for name, body in schema["properties"].items():
        assert len(name) < 64
        assert body.get("type") != "object" or (tool.name, name) == ("run_skill", "arguments")
        assert {"type": "null"} not in body.get("anyOf", [])
        assert "title" not in body


@by_tool
def test_a_tool_costs_few_bytes_of_context(tool: types.Tool) -> None:
    shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    assert len(dump_json(shown).encode()) <= MAX_INPUT_BYTES


@pytest.mark.parametrize("instructions", [INSTRUCTIONS, COMPACT_INSTRUCTIONS], ids=["full", "compact"])
def test_scope_is_explained_once_for_all_tools(instructions: str) -> None:
    assert len(instructions.splitlines()) <= MAX_INSTRUCTION_LINES
    for word in ("profile", "device", "trim", "iteration", "marker", "max_rows", "offset", "truncation", "totals"):
        assert word in instructions
    for status in ("ok", "partial", "empty", "abstained"):
        assert status in instructions
    for address in ("ev-…:ROW.COLUMN", "ev-…:totals.KEY", "ev-…:TABLE.ROW.COLUMN"):
        assert address in instructions


def test_the_instructions_name_only_tools_that_exist() -> None:
    every_name = {tool.name for tool in [*TOOLS, *COMPACT]}
    for instructions, tools in ((INSTRUCTIONS, TOOLS), (COMPACT_INSTRUCTIONS, COMPACT)):
        named = set(re.findall(r"[a-z]+_[a-z_]+", instructions)) & every_name
        missing = named - {tool.name for tool in tools}
        called_skills = {"list_profiles", "profile_health_manifest"}
        assert missing == (called_skills if tools is COMPACT else set())
        assert named > missing
