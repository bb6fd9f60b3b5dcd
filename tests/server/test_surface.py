"""What a server offers: toolsets, and the compact surface, whose answers are those of the tools to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS

from nsys_evidence.contracts.columns import columns_of
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.server.app import build_server
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.cli import cli
from nsys_evidence.server.compact import example_call
from nsys_evidence.server.instructions import COMPACT_INSTRUCTIONS
from nsys_evidence.server.limits import Limits
from nsys_evidence.server.surface import ALWAYS, Surface, parse_toolsets
from nsys_evidence.tools import run
from nsys_evidence.tools.arguments import input_schema
from nsys_evidence.tools.registry import CATEGORIES, Skill, all_skills
from nsys_evidence.tools.workspace import Workspace
from tests.server.over_http import client_over, serving
from tests.server.questions import example_arguments
from tests.server.test_app import error_of, text_of
from tests.server.wire import Place, connected
from tests.support import ask, workspace

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
COMPACT = Surface(compact=True)
FIVE = ["list_skills", "describe_skill", "run_skill", "get_evidence", "profile_info"]
every_skill = pytest.mark.parametrize("skill", all_skills().values(), ids=all_skills())


@asynccontextmanager
async def served(surface: Surface, era: str = "auto", limits: Limits | None = None) -> AsyncIterator[Client]:
    async with Client(build_server(workspace, limits, surface=surface), mode=era) as client:
        yield client


async def names_of(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


def expected(*categories: str) -> list[str]:
    return [name for name, skill in all_skills().items() if skill.category in categories or name in ALWAYS]


# Toolsets.


@ERAS
async def test_toolsets_leave_their_categories_and_what_every_answer_needs(place: Place, era: str) -> None:
    async with connected(place, era, "--toolsets", "nvtx, memory") as client:
        assert await names_of(client) == expected("memory", "nvtx")


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_toolset_is_a_category_with_the_tools_of_the_full_list_in_its_order(category: str) -> None:
    full = {tool.name: tool for tool in load_catalogue().tools}
    offered = load_catalogue(surface=Surface(parse_toolsets(category))).tools
    assert [tool.name for tool in offered] == expected(category)
    assert offered == [full[tool.name] for tool in offered]


def test_all_toolsets_together_are_the_full_list() -> None:
    assert (
        load_catalogue(surface=Surface(parse_toolsets(",".join(reversed(CATEGORIES))))).tools == load_catalogue().tools
    )


@pytest.mark.parametrize("given", ["", "kernel", "kernels,", "kernels;memory", "Kernels", "top_kernels", "all"])
def test_an_unknown_toolset_is_wrong_usage_that_names_the_valid_ones(given: str) -> None:
    result = CliRunner().invoke(cli, ["serve", "--toolsets", given])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert ", ".join(CATEGORIES) in " ".join(result.stderr.replace("│", " ").split())


def test_the_help_and_the_page_for_agents_name_custom_skills_as_a_toolset() -> None:
    assert parse_toolsets("custom, nvtx") == ("nvtx", "custom")
    page = " ".join((Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8").split())
    assert f"{', '.join(CATEGORIES[:-1])} and {CATEGORIES[-1]}; and `custom`, when there are custom skills." in page


def test_the_help_names_every_toolset_and_what_is_always_there() -> None:
    said = " ".join(CliRunner().invoke(cli, ["serve", "--help"]).stdout.split())
    assert f"{', '.join(CATEGORIES)}; and custom" in said
    assert all(name in said for name in (*ALWAYS, *FIVE))


@ERAS
async def test_a_tool_of_another_toolset_is_unknown_and_the_error_says_which_toolsets_there_are(era: str) -> None:
    async with served(Surface(("memory", "nvtx")), era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("top_kernels", {"profile": "x"})
    assert caught.value.code == INVALID_PARAMS
    assert "memory, nvtx" in caught.value.message


# The compact surface.


@ERAS
async def test_the_compact_surface_is_five_tools_over_stdio_and_over_http(place: Place, era: str) -> None:
    async with connected(place, era, "--surface", "compact") as client:
        over_stdio = (await client.list_tools()).tools
        assert client.instructions == COMPACT_INSTRUCTIONS
    async with serving(workspace(), surface=COMPACT) as requests, client_over(requests, era) as client:
        over_http = (await client.list_tools()).tools
    assert [tool.name for tool in over_stdio] == FIVE
    assert over_http == over_stdio == load_catalogue(surface=COMPACT).tools


async def test_skills_with_a_tool_of_their_own_have_the_same_one_on_both_surfaces() -> None:
    full = {tool.name: tool for tool in load_catalogue().tools}
    assert [full[tool.name] for tool in load_catalogue(surface=COMPACT).tools[3:]] == load_catalogue(
        surface=COMPACT
    ).tools[3:]


async def test_the_list_does_not_vary_whatever_was_called(demo: Path) -> None:
    server = build_server(workspace, surface=COMPACT)
    async with Client(server) as first, Client(server, mode="legacy") as second:
        before = (await first.list_tools()).model_dump_json()
        await first.call_tool("run_skill", {"skill": "top_kernels", "arguments": {"profile": str(demo)}})
        await second.call_tool("run_skill", {"skill": "none"})
        assert (await second.list_tools()).tools == (await first.list_tools()).tools
        assert (await first.list_tools()).model_dump_json() == before


@ERAS
async def test_run_skill_answers_as_the_skill_s_own_tool_to_the_byte(demo: Path, era: str) -> None:
    evidence = ask("top_kernels", demo)["evidence"]
    async with served(Surface(), era) as full, served(COMPACT, era) as compact:
        for name, skill in all_skills().items():
            given = example_arguments(skill, str(demo), evidence)
            own = await full.call_tool(name, given)
            for arguments in (given, json.dumps(given)):
                result = await compact.call_tool("run_skill", {"skill": name, "arguments": arguments})
                assert not result.is_error, text_of(result)
                assert text_of(result) == text_of(own)
                assert result.structured_content == own.structured_content


@ERAS
async def test_every_result_of_the_compact_surface_is_of_its_schema(demo: Path, era: str) -> None:
    async with served(COMPACT, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

        async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
            schema = tools[name].output_schema
            assert schema is not None
            Draft202012Validator(schema).validate(result.structured_content)
            assert json.loads(text_of(result)) == result.structured_content
            found: dict[str, Any] = result.structured_content
            return found

        listed = await call("list_skills", {})
        assert [row[0] for row in listed["rows"]] == list(all_skills())
        parts = [
            (await call("list_skills", {"category": c}))["rows"] for c in dict.fromkeys(r[1] for r in listed["rows"])
        ]
        assert [row for part in parts for row in part] == listed["rows"]
        assert await call("list_skills", {"category": None}) == listed
        for name in all_skills():
            await call("describe_skill", {"skill": name})
        await call("run_skill", {"skill": "overlap_breakdown", "arguments": {"profile": str(demo), "device": 1}})
        await call("run_skill", {"skill": "list_profiles"})


@every_skill
def test_describe_skill_has_the_schema_and_every_column_with_its_unit(skill: Skill) -> None:
    from nsys_evidence.server.compact import describe_skill

    told = describe_skill(all_skills(), {"skill": skill.name})
    assert told["input_schema"] == input_schema(skill)
    for shown, model in [(told["columns"], skill.row), (told["totals"], skill.totals)]:
        columns = columns_of(model) if model else ()
        assert [(c["name"], c["unit"], c["meaning"], c.get("of"), c.get("nullable", False)) for c in shown] == [
            (c.name, c.unit.value, c.meaning, c.of, c.nullable) for c in columns
        ]
    assert set(told["tables"]) == set(skill.tables)
    assert told["notes"]
    assert set(told["next"]) <= set(all_skills())
    assert len(dump_json(told).encode()) <= 10_000


async def test_with_toolsets_only_their_skills_are_behind_the_compact_surface(demo: Path) -> None:
    async with served(Surface(("memory",), compact=True)) as client:
        assert await names_of(client) == FIVE
        rows = (await client.call_tool("list_skills", {})).structured_content["rows"]
        assert [row[0] for row in rows] == expected("memory")
        error = error_of(
            await client.call_tool("run_skill", {"skill": "top_kernels", "arguments": {"profile": str(demo)}})
        )
        assert error["code"] == "INVALID_ARGUMENT"
        error = error_of(await client.call_tool("list_skills", {"category": "kernels"}))
        assert error["code"] == "INVALID_ARGUMENT"
        assert "memory" in error["hint"]


# Errors that heal.


@ERAS
@pytest.mark.parametrize("tool", ["run_skill", "describe_skill"])
async def test_an_unknown_skill_is_an_invalid_argument_that_names_the_nearest(tool: str, era: str) -> None:
    async with served(COMPACT, era) as client:
        error = error_of(await client.call_tool(tool, {"skill": "top_kernel"}))
        assert (error["code"], error["argument"]) == ("INVALID_ARGUMENT", "skill")
        assert error["nearest"][0] == "top_kernels"
        assert "top_kernels" in error["hint"]
        error = error_of(await client.call_tool(tool, {"skill": "§\x1b[31m" + "x" * 5000}))
        assert "\x1b" not in json.dumps(error)
        assert len(json.dumps(error)) < 600


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no arguments": ({}, "INVALID_ARGUMENT"),
    "null arguments": ({"arguments": None}, "INVALID_ARGUMENT"),
    "no profile": ({"arguments": {"device": 0}}, "INVALID_ARGUMENT"),
    "an unknown argument": ({"arguments": {"profile": "p-1", "limit": 3}}, "UNKNOWN_ARGUMENT"),
    "a wrong value": ({"arguments": {"profile": "p-1", "device": "all"}}, "INVALID_ARGUMENT"),
    "two windows": ({"arguments": {"profile": "p-1", "trim": [0, 1], "iteration": 0}}, "TRIM_AND_ITERATION"),
    "text of two windows": ({"arguments": '{"profile": "p-1", "trim": [0, 1], "iteration": 0}'}, "TRIM_AND_ITERATION"),
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
@ERAS
async def test_an_error_of_arguments_names_the_valid_ones_and_shows_a_call_that_works(
    demo: Path, given: tuple[dict[str, Any], str], era: str
) -> None:
    call, code = given
    async with served(COMPACT, era) as client:
        error = error_of(await client.call_tool("run_skill", {"skill": "kernel_instances", **call}))
        assert error["code"] == code
        assert error["valid"] == list(input_schema(all_skills()["kernel_instances"])["properties"])
        example = error["example"]
        assert example["skill"] == "kernel_instances"
        example["arguments"]["profile"] = str(demo)
        assert not (await client.call_tool("run_skill", example)).is_error


async def test_arguments_that_are_no_object_or_stand_in_the_wrong_place_are_refused_with_an_example(demo: Path) -> None:
    path = str(demo)
    async with served(COMPACT) as client:
        for call, code in [
            ({"skill": "top_kernels", "profile": path}, "UNKNOWN_ARGUMENT"),
            ({"skill": "top_kernels", "arguments": "the profile"}, "INVALID_ARGUMENT"),
            ({"skill": "top_kernels", "arguments": "null"}, "INVALID_ARGUMENT"),
            ({"skill": "top_kernels", "arguments": "[" * 100_000}, "INVALID_ARGUMENT"),
            ({"skill": "top_kernels", "arguments": f'["{path}"]'}, "INVALID_ARGUMENT"),
            ({"skill": 3}, "INVALID_ARGUMENT"),
            ({}, "INVALID_ARGUMENT"),
        ]:
            error = error_of(await client.call_tool("run_skill", call))
            assert error["code"] == code, call
            assert set(error["example"]) == {"skill", "arguments"}
            if call.get("skill") == "top_kernels":
                assert error["example"]["skill"] == "top_kernels"


async def test_the_example_keeps_the_profile_that_was_given_and_other_errors_stay_as_they_are(demo: Path) -> None:
    async with served(COMPACT) as client:
        wrong = {"skill": "top_kernels", "arguments": {"profile": str(demo), "limit": 3}}
        example = error_of(await client.call_tool("run_skill", wrong))["example"]
        assert example == {"skill": "top_kernels", "arguments": {"profile": str(demo)}}
        no_device = {"profile": str(demo), "device": 7}
        error = error_of(await client.call_tool("run_skill", {"skill": "top_kernels", "arguments": no_device}))
        own = error_of(await client.call_tool("profile_info", no_device | {"device": None, "profile": "p-0"}))
        assert (error["code"], "example" in error) == ("DEVICE_NOT_FOUND", False)
        assert "example" not in own


@every_skill
def test_an_example_of_a_call_has_all_that_the_skill_requires(skill: Skill) -> None:
    arguments = example_call(skill)["arguments"]
    schema = input_schema(skill)
    assert set(schema["required"]) <= set(arguments)
    Draft202012Validator(schema).validate(arguments)


@ERAS
async def test_a_skill_called_as_a_tool_is_a_protocol_error_that_says_how_to_run_it(era: str) -> None:
    async with served(COMPACT, era) as client:
        for name in ("top_kernels", "list_profiles"):
            with pytest.raises(MCPError, match=f"run_skill with skill={name}") as caught:
                await client.call_tool(name, {})
            assert caught.value.code == INVALID_PARAMS
    async with served(Surface(), era) as client:
        with pytest.raises(MCPError, match="Unknown tool: run_skill"):
            await client.call_tool("run_skill", {"skill": "top_kernels"})


async def test_a_call_through_run_skill_has_its_deadline_and_a_failure_is_that_of_the_skill(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(_skill: object, _given: object, _workspace: Workspace, interrupt: Interrupt) -> dict[str, Any]:
        while True:
            interrupt.check()

    def broken(*_: object) -> dict[str, Any]:
        raise ValueError("secret")

    call = {"skill": "top_kernels", "arguments": {"profile": "x"}}
    async with served(COMPACT, limits=Limits(deadline_s=0.2)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(run, "run_skill", slow)
            assert error_of(await client.call_tool("run_skill", call))["code"] == "TIMEOUT"
        with monkeypatch.context() as patch:
            patch.setattr(run, "run_skill", broken)
            error = error_of(await client.call_tool("run_skill", call))
    assert error["code"] == "INTERNAL"
    assert error["message"].startswith("top_kernels ")
    assert re.search(r"top_kernels failed: ValueError", caplog.text)
    assert "secret" not in caplog.text
