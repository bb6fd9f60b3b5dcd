"""The skills' reference and kept results as resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, TextResourceContents

from nsys_evidence.contracts.columns import columns_of
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.server.app import build_server
from nsys_evidence.server.limits import Limits
from nsys_evidence.server.resources import LEGACY_NOT_FOUND
from nsys_evidence.server.surface import Surface
from nsys_evidence.tools import run
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.workspace import Workspace
from tests.server.over_http import client_over, serving
from tests.server.test_app import text_of
from tests.server.wire import Place, connected
from tests.support import MemoryLedger, ask, workspace

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
SKILLS = "nsys-evidence://skills"


def client_of(era: str = "auto", surface: Surface | None = None, within: Workspace | None = None) -> Client:
    return Client(build_server(lambda: within or workspace(), surface=surface), mode=era)


async def read(client: Client, uri: str) -> TextResourceContents:
    [contents] = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.uri == uri
    return contents


@ERAS
async def test_the_reference_is_listed_with_its_templates_over_stdio_and_over_http(place: Place, era: str) -> None:
    async with connected(place, era) as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        page = await read(client, f"{SKILLS}/top_kernels")
    async with serving(workspace()) as requests, client_over(requests, era) as client:
        assert (await client.list_resources()).resources == listed
        assert (await client.list_resource_templates()).resource_templates == templates
        assert await read(client, f"{SKILLS}/top_kernels") == page
    assert [resource.uri for resource in listed] == [SKILLS, *(f"{SKILLS}/{name}" for name in all_skills())]
    assert [t.uri_template for t in templates] == [f"{SKILLS}/{{name}}", "nsys-evidence://evidence/{id}"]
    assert all(entry.description and entry.title and entry.mime_type for entry in [*listed, *templates])


@ERAS
async def test_every_page_has_the_parameters_columns_and_units_of_its_skill(era: str) -> None:
    async with client_of(era) as client:
        for name, skill in all_skills().items():
            page = await read(client, f"{SKILLS}/{name}")
            assert page.mime_type == "text/markdown"
            assert page.text.startswith(f"# {name}\n")
            for parameter in skill.params.model_fields:
                assert f"| `{parameter}` |" in page.text
            for model in (skill.row, skill.totals, *skill.tables.values()):
                for column in columns_of(model) if model else ():
                    assert f"| `{column.name}` | {column.unit.value}" in page.text


@pytest.mark.parametrize("surface", [Surface(), Surface(("memory",)), Surface(("memory",), compact=True)])
async def test_the_contents_link_to_the_page_of_every_skill_that_is_offered_and_to_no_other(surface: Surface) -> None:
    async with client_of(surface=surface) as client:
        text = (await read(client, SKILLS)).text
        for name in all_skills():
            assert (f"]({SKILLS}/{name})" in text) == (name in surface.skills())
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        assert uris == [SKILLS, *(f"{SKILLS}/{name}" for name in surface.skills())]
        for uri in uris:
            await read(client, uri)


@ERAS
@pytest.mark.parametrize("surface", [Surface(), Surface(compact=True)], ids=["full", "compact"])
async def test_evidence_is_the_result_that_get_evidence_returns(demo: Path, era: str, surface: Surface) -> None:
    kept = ask("top_kernels", demo)
    async with client_of(era, surface) as client:
        contents = await read(client, f"nsys-evidence://evidence/{kept['evidence']}")
        again = await client.call_tool("get_evidence", {"id": kept["evidence"]})
        assert contents.mime_type == "application/json"
        assert contents.text == text_of(again)
    found = json.loads(contents.text)
    found["tables"].pop("names")
    assert found == json.loads(dump_json(kept))


NOT_THERE = {
    "evidence that was never given": (
        "nsys-evidence://evidence/ev-0000000000",
        "EVIDENCE_NOT_FOUND",
        "repeat the call",
    ),
    "no evidence id": ("nsys-evidence://evidence/7k3m9qx2w4", "INVALID_ARGUMENT", "ev- and ten characters"),
    "evidence without an id": ("nsys-evidence://evidence/", "INVALID_ARGUMENT", "ev- and ten characters"),
    "a path for an id": ("nsys-evidence://evidence/../../etc/passwd", "INVALID_ARGUMENT", "ev- and ten characters"),
    "a skill that is not there": (f"{SKILLS}/top_kernel", None, f"{SKILLS}/top_kernels"),
    "a skill without a name": (f"{SKILLS}/", None, "resources/list"),
    "a page below a page": (f"{SKILLS}/{SKILLS}/top_kernels", None, "resources/list"),
    "a bare name": ("top_kernels", None, "resources/list"),
    "another scheme": ("file:///etc/passwd", None, "resources/list"),
    "a very long address": (f"{SKILLS}/" + "x" * 50_000, None, "resources/list"),
}


@ERAS
@pytest.mark.parametrize(("uri", "code", "said"), NOT_THERE.values(), ids=NOT_THERE)
async def test_what_is_not_there_is_a_resource_not_found_with_a_hint(
    uri: str, code: str | None, said: str, era: str
) -> None:
    async with client_of(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    error = caught.value.error
    assert error.code == (INVALID_PARAMS if era == "auto" else LEGACY_NOT_FOUND)
    assert error.message.startswith("Resource not found: ")
    assert len(error.message) < 600
    assert said in error.message
    assert said in error.data["hint"]
    assert error.data["uri"] == (uri[:199] + "…" if len(uri) > 200 else uri)
    assert error.data.get("code") == code


async def test_a_skill_of_another_toolset_has_no_page() -> None:
    async with client_of(surface=Surface(("memory",))) as client:
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource(f"{SKILLS}/top_kernels")


async def test_evidence_of_a_capture_outside_the_roots_is_not_there(demo: Path, tmp_path: Path) -> None:
    ledger = MemoryLedger()
    kept = ask("top_kernels", demo, within=Workspace(Library(cache=tmp_path / "cache"), ledger))
    fenced = Workspace(Library(cache=tmp_path / "cache", roots=[tmp_path]), ledger)
    async with client_of(within=fenced) as client:
        with pytest.raises(MCPError, match="Resource not found") as caught:
            await client.read_resource(f"nsys-evidence://evidence/{kept['evidence']}")
        assert demo.name not in json.dumps(caught.value.error.data) + caught.value.message


async def test_pages_may_be_kept_by_any_cache_and_evidence_only_by_the_client_s_own(demo: Path) -> None:
    kept = ask("top_kernels", demo)
    async with client_of() as client:
        for listed in (await client.list_resources(), await client.list_resource_templates()):
            assert (listed.ttl_ms, listed.cache_scope) == (3_600_000, "public")
        page = await client.read_resource(SKILLS)
        assert (page.ttl_ms, page.cache_scope) == (3_600_000, "public")
        evidence = await client.read_resource(f"nsys-evidence://evidence/{kept['evidence']}")
        assert (evidence.ttl_ms, evidence.cache_scope) == (3_600_000, "private")


@ERAS
async def test_a_read_past_its_deadline_is_told_so_and_a_failure_says_nothing_of_the_capture(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, era: str
) -> None:
    def slow(_skill: object, _given: object, _workspace: Workspace, interrupt: Interrupt) -> dict[str, Any]:
        while True:
            interrupt.check()

    def broken(*_: object) -> dict[str, Any]:
        raise ValueError("secret")

    uri = "nsys-evidence://evidence/ev-0000000000"
    async with Client(build_server(workspace, Limits(deadline_s=0.2)), mode=era) as client:
        for fake, code in ((slow, "TIMEOUT"), (broken, "INTERNAL")):
            monkeypatch.setattr(run, "run_skill", fake)
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == INTERNAL_ERROR
            assert caught.value.error.data["code"] == code
            assert "secret" not in caught.value.message + caplog.text
    assert "ValueError" in caplog.text
