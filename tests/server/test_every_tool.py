"""mcp's own client runs every tool in both protocol eras, and gets what the skills say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from mcp_types import CallToolResult, TextContent

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.ledger import FileLedger
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.workspace import Workspace
from tests.server.questions import example_arguments
from tests.server.wire import Place, connected
from tests.support import workspace

ERAS = ["auto", "legacy"]


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_answers_over_stdio_as_its_skill_does(demo: Path, place: Place, era: str) -> None:
    skills = all_skills()
    evidence = run_skill(skills["top_kernels"], {"profile": str(demo)}, workspace())["evidence"]
    async with connected(place, era) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == list(skills)
        await client.call_tool("top_kernels", {"profile": str(demo)})
        for tool in listed:
            arguments = example_arguments(skills[tool.name], str(demo), evidence)
            result = await client.call_tool(tool.name, arguments)
            text = text_of(result)
            assert not result.is_error, text
            assert json.loads(text) == result.structured_content
            assert tool.output_schema is not None
            Draft202012Validator(tool.output_schema).validate(result.structured_content)
            if skills[tool.name].profile:
                assert text == dump_json(run_skill(skills[tool.name], arguments, workspace()))


@pytest.mark.parametrize("era", ERAS)
async def test_tools_go_over_the_wire_character_for_character(place: Place, era: str) -> None:
    async with connected(place, era) as client:
        listed = await client.list_tools()
        assert [t.model_dump() for t in listed.tools] == [t.model_dump() for t in load_catalogue().tools]
        assert listed.next_cursor is None
        if era == "auto":
            assert (listed.ttl_ms, listed.cache_scope) == (3_600_000, "public")


async def test_a_result_can_be_had_again_by_its_evidence_id_from_another_process(demo: Path, own_place: Place) -> None:
    kept: dict[str, str] = {}
    async with connected(own_place) as client:
        for name, skill in all_skills().items():
            if skill.profile:
                text = text_of(await client.call_tool(name, example_arguments(skill, str(demo), "")))
                kept[json.loads(text)["evidence"]] = text
        assert len(kept) == sum(skill.profile for skill in all_skills().values())
        for evidence, text in kept.items():
            first, second = [await client.call_tool("get_evidence", {"id": evidence}) for _ in range(2)]
            assert text_of(first) == text_of(second)
            elsewhere = Workspace(workspace().library, FileLedger(own_place.directory / "state" / "evidence"))
            again = run_skill(all_skills()["get_evidence"], {"id": evidence}, elsewhere)
            assert dump_json(again) == text_of(first)
            if "names" not in json.loads(text)["tables"]:
                again["tables"].pop("names", None)  # full names of labels, which only get_evidence adds
            assert dump_json(again) == text
