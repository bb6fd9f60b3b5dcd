"""Custom skills over MCP and on the command line: tools beside the built-in ones, files added, saved and removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from mcp import Client
from mcp_types import TextContent

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.server.app import build_server
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.cli import cli
from nsys_evidence.server.surface import Surface
from nsys_evidence.tools.registry import all_skills
from tests.server.wire import Place, connected
from tests.support import workspace
from tests.tools.custom.making import text_of

SQL = "SELECT gpu, count(*) AS kernels\nFROM kernels GROUP BY gpu"
WRONG = "SELECT gpu\nFROM 'kernels.parquet'"


def command(place: Place, *arguments: object) -> Result:
    environment: dict[str, str] = place.environment
    return CliRunner(env=environment).invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.md"
    path.write_text(text_of(SQL))
    return path


def put(place: Place, name: str, sql: str) -> None:
    place.skills.mkdir(parents=True, exist_ok=True)
    (place.skills / f"{name}.md").write_text(text_of(sql, name=name))


async def test_they_are_tools_after_the_built_in_ones_and_the_list_never_varies(
    demo: Path, own_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for name, sql in (("zoo", SQL), ("ant", SQL), ("bad", WRONG)):
        put(own_place, name, sql)
    server = build_server(workspace, surface=Surface(skills_directory=own_place.skills))
    async with Client(server) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [*all_skills(), "ant", "zoo"]
        put(own_place, "late", SQL)
        (own_place.skills / "ant.md").unlink()
        assert [tool.name for tool in (await client.list_tools()).tools] == [tool.name for tool in listed]
        result = await client.call_tool("ant", {"profile": str(demo)})
        [text] = result.content
        assert isinstance(text, TextContent)
        assert not result.is_error, text.text
        assert json.loads(text.text) == result.structured_content
        schema = listed[-2].output_schema
        assert schema is not None
        Draft202012Validator(schema).validate(result.structured_content)
        kept = await client.call_tool("get_evidence", {"id": result.structured_content["evidence"]})  # type: ignore[index]
        assert kept.structured_content == result.structured_content
        failed = await client.call_tool("ant", {"profile": str(demo), "device": 0})
        assert failed.is_error
    assert "bad.md is left out: SKILL_INVALID: line 14: " in caplog.text


async def test_a_server_of_its_own_reads_the_directory_of_the_option_or_the_variable(
    demo: Path, own_place: Place, tmp_path: Path
) -> None:
    put(own_place, "ant", SQL)
    async with connected(own_place) as client:
        assert (await client.list_tools()).tools[-1].name == "ant"
        result = await client.call_tool("ant", {"profile": str(demo)})
        assert result.structured_content is not None
    shown = command(own_place, "skill", "run", "ant", demo, "--format", "json")
    assert shown.stdout == dump_json(result.structured_content) + "\n"
    async with connected(own_place, "auto", "--skills-dir", str(tmp_path)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(all_skills())


def test_a_catalogue_with_custom_skills_is_the_same_each_time(own_place: Place) -> None:
    put(own_place, "ant", "SELECT $start_ns AS a, $end_ns AS b, list_contains($gpus, 0) AS c, 'x' AS d, 0.5 AS e")
    offered = Surface(skills_directory=own_place.skills)
    dumps = [[tool.model_dump_json() for tool in load_catalogue(surface=offered).tools] for _ in range(2)]
    assert dumps[0] == dumps[1]
    tool = load_catalogue(surface=offered).tools[-1]
    assert tool.output_schema is not None
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)


def test_a_skill_is_added_listed_explained_run_saved_and_removed(
    demo: Path, own_place: Place, file: Path, tmp_path: Path
) -> None:
    added = command(own_place, "skill", "add", file)
    assert added.exit_code == 0, added.output
    assert str(own_place.skills / "mine.md") in added.stdout
    listed = json.loads(command(own_place, "skill", "list", "--format", "json").stdout)
    assert [entry["name"] for entry in listed] == [*all_skills(), "mine"]
    assert "\nmine " in command(own_place, "skill", "list").stdout
    info = command(own_place, "skill", "info", "mine")
    assert "kernels" in info.stdout
    run: dict[str, Any] = json.loads(command(own_place, "skill", "run", "mine", demo, "--format", "json").stdout)
    assert run["columns"] == ["gpu", "kernels"]
    assert run["rows"]
    shown = command(own_place, "skill", "run", "mine", demo)
    assert run["evidence"] in shown.stdout
    saved = tmp_path / "saved.md"
    assert command(own_place, "skill", "save", "mine", "-o", saved).exit_code == 0
    assert saved.read_bytes() == file.read_bytes()
    assert command(own_place, "skill", "save", "mine", "-o", saved).exit_code == 2
    assert command(own_place, "skill", "remove", "mine").exit_code == 0
    assert list(own_place.skills.iterdir()) == []
    gone = command(own_place, "skill", "run", "mine", demo)
    assert (gone.exit_code, "there is no skill 'mine'" in gone.stderr) == (2, True)


def test_the_option_goes_before_the_variable(own_place: Place, file: Path, tmp_path: Path) -> None:
    assert command(own_place, "skill", "add", file, "--skills-dir", tmp_path / "other").exit_code == 0
    assert (tmp_path / "other" / "mine.md").exists()
    assert not own_place.skills.exists()


def test_a_file_that_is_wrong_is_refused_with_its_line(own_place: Place, tmp_path: Path) -> None:
    file = tmp_path / "wrong.md"
    file.write_text(text_of(WRONG))
    refused = command(own_place, "skill", "add", file)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("SKILL_INVALID: line 14: there is no table 'kernels.parquet'\nhint: ")
    assert not own_place.skills.exists()


def test_wrong_files_in_the_directory_are_named_and_others_work(own_place: Place) -> None:
    put(own_place, "bad", WRONG)
    put(own_place, "ant", SQL)
    listed = command(own_place, "skill", "list", "--format", "json")
    assert json.loads(listed.stdout)[-1]["name"] == "ant"
    assert "bad.md is left out: SKILL_INVALID: line 14" in listed.stderr
    refused = command(own_place, "skill", "info", "bad")
    assert (refused.exit_code, "SKILL_INVALID: line 14" in refused.stderr) == (1, True)


def test_built_in_skills_and_skills_that_are_not_there_cannot_be_removed_or_saved(
    own_place: Place, file: Path, tmp_path: Path
) -> None:
    for arguments in (("remove",), ("save", "-o", tmp_path / "x.md")):
        for name, why in (("top_kernels", "built-in"), ("../../etc/passwd", "no custom skill")):
            result = command(own_place, "skill", arguments[0], name, *arguments[1:])
            assert (result.exit_code, why in result.stderr) == (2, True), result.output
    assert command(own_place, "skill", "add", file).exit_code == 0
    again = command(own_place, "skill", "add", file)
    assert (again.exit_code, "--replace" in again.stderr) == (2, True)
    assert command(own_place, "skill", "add", file, "--replace").exit_code == 0


def test_a_directory_that_cannot_be_made_is_an_error_and_no_trace(own_place: Place, file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = command(own_place, "skill", "add", file, "--skills-dir", tmp_path / "taken" / "skills")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "taken" in result.stderr
