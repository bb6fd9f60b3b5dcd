"""Over HTTP the same tools give the same bytes, to this machine's programs alone, about captures below the roots."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.library import Library
from nsys_evidence.server import app as app_module
from nsys_evidence.server.app import build_server
from nsys_evidence.server.cli import cli
from nsys_evidence.server.http import MAX_BODY_BYTES, PATH, Address, build_app, parse_address
from nsys_evidence.server.ledger import FileLedger
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.workspace import Workspace
from tests.server.questions import example_arguments
from tests.server.test_every_tool import text_of
from tests.server.wire import SERVE, Place, connected

PORT = 8765
URL = f"http://127.0.0.1:{PORT}{PATH}"
ERAS = ["2026-07-28", "legacy"]


@asynccontextmanager
async def served(place: Place, *roots: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Plain HTTP to a server in this process, without a socket."""

    def open_workspace() -> Workspace:
        library = Library(cache=place.cache, roots=roots or None)
        return Workspace(library, FileLedger(place.directory / "state" / "evidence"))

    app = build_app(build_server(open_workspace), PORT)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=f"http://127.0.0.1:{PORT}") as http,
    ):
        yield http


@asynccontextmanager
async def client_of(http: httpx2.AsyncClient, era: str) -> AsyncIterator[Client]:
    async with Client(streamable_http_client(URL, http_client=http), mode=era) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_answers_over_http_as_over_stdio_to_the_byte(demo: Path, place: Place, era: str) -> None:
    async with connected(place) as stdio, served(place) as http, client_of(http, era) as client:
        listed = (await client.list_tools()).tools
        assert [tool.model_dump() for tool in listed] == [t.model_dump() for t in (await stdio.list_tools()).tools]
        evidence = json.loads(text_of(await stdio.call_tool("top_kernels", {"profile": str(demo)})))["evidence"]
        for name, skill in all_skills().items():
            arguments = example_arguments(skill, str(demo), evidence)
            over_stdio, over_http = [await one.call_tool(name, arguments) for one in (stdio, client)]
            assert not over_http.is_error
            assert text_of(over_http) == text_of(over_stdio) == dump_json(over_http.structured_content)
            assert over_http.structured_content == over_stdio.structured_content


@pytest.mark.parametrize("era", ERAS)
async def test_errors_are_the_same_over_http(demo: Path, place: Place, era: str) -> None:
    questions: list[tuple[str, dict[str, Any]]] = [
        ("top_kernels", {"profile": str(demo), "device": 7}),
        ("top_kernels", {"profile": "absent.sqlite"}),
        ("top_kernels", {"profile": str(demo), "nonsense": 1}),
    ]
    async with connected(place) as stdio, served(place) as http, client_of(http, era) as client:
        for name, arguments in questions:
            over_stdio, over_http = [await one.call_tool(name, arguments) for one in (stdio, client)]
            assert over_http.is_error
            assert text_of(over_http) == text_of(over_stdio)


def request(**headers: str) -> dict[str, Any]:
    """A well-formed first request, with these headers changed."""
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
    return {"headers": {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}, "json": body}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": f"localhost:{PORT}"}, 200),
        ({"host": f"[::1]:{PORT}"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": f"evil.example:{PORT}"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": f"127.0.0.1.evil.example:{PORT}"}, 421),
        ({"origin": f"http://127.0.0.1:{PORT}"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": f"http://localhost.evil.example:{PORT}"}, 403),
        ({"origin": f"https://127.0.0.1:{PORT}"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"content_type": "text/plain"}, 400),
    ],
)
async def test_only_names_and_pages_of_this_machine_are_answered(
    place: Place, headers: dict[str, str], status: int
) -> None:
    async with served(place) as http:
        response = await http.post(PATH, **request(**headers))
        assert response.status_code == status
        assert ("serverInfo" in response.text) == (status == 200)


async def test_a_request_that_is_too_large_is_refused_and_nothing_else_is_served(place: Place) -> None:
    async with served(place) as http:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * MAX_BODY_BYTES})
        assert (await http.post(PATH, content=body, headers=request()["headers"])).status_code == 413
        for path in ("/", "/docs", "/healthz", PATH + "/x"):
            assert (await http.get(path)).status_code == 404


async def test_nothing_outside_the_roots_is_reached_by_any_way(demo: Path, own_place: Place, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-evil"
    for directory in (root / "inner", outside):
        directory.mkdir(parents=True)
    for capture in (root / "in.sqlite", outside / "out.sqlite"):
        capture.write_bytes(demo.read_bytes())
    (outside / "parquet").mkdir()
    (root / "link.sqlite").symlink_to(outside / "out.sqlite")
    (root / "linked").symlink_to(outside)
    (root / "loop").symlink_to(root / "loop")
    escapes = [
        root / ".." / "root-evil" / "out.sqlite",
        root / "inner" / ".." / ".." / "root-evil" / "out.sqlite",
        root / "link.sqlite",
        root / "linked" / "out.sqlite",
        root / "linked" / "absent.sqlite",
        outside / "out.sqlite",
        outside / "absent.sqlite",
        outside,
        tmp_path,
        Path("/etc/passwd"),
        Path("~/x.sqlite"),
        Path("relative.sqlite"),
    ]
    async with served(own_place, root) as http, client_of(http, "2026-07-28") as client:
        inside = await client.call_tool("top_kernels", {"profile": str(root / "in.sqlite")})
        assert not inside.is_error
        for path in escapes:
            said = json.loads(text_of(await refused(client, str(path))))
            assert said["code"] == "PATH_NOT_ALLOWED", path
            assert str(tmp_path) not in json.dumps(said)
            assert "absent" not in path.name or "there is no file" not in said["message"]
        for other in ("\0", str(root / "loop"), str(root / ("x" * 5000)), str(root / "absent.sqlite")):
            said = json.loads(text_of(await refused(client, other)))
            assert said["code"] in ("PROFILE_NOT_FOUND", "PATH_NOT_ALLOWED")


async def refused(client: Client, profile: str) -> CallToolResult:
    result = await client.call_tool("top_kernels", {"profile": profile})
    assert result.is_error
    return result


async def test_what_others_asked_about_captures_outside_the_roots_stays_theirs(
    demo: Path, own_place: Place, tmp_path: Path
) -> None:
    """The cache and the ledger are shared by all servers of a user."""
    root = tmp_path / "root"
    root.mkdir()
    async with served(own_place) as http, client_of(http, "2026-07-28") as anywhere:
        kept = json.loads(text_of(await anywhere.call_tool("top_kernels", {"profile": str(demo)})))
    async with served(own_place, root) as http, client_of(http, "2026-07-28") as client:
        for name, arguments, code in (
            ("top_kernels", {"profile": kept["profile"]["id"]}, "PROFILE_NOT_FOUND"),
            ("get_evidence", {"id": kept["evidence"]}, "EVIDENCE_NOT_FOUND"),
        ):
            result = await client.call_tool(name, arguments)
            assert json.loads(text_of(result))["code"] == code
        listed = await client.call_tool("list_profiles", {})
        assert json.loads(text_of(listed))["rows"] == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_leaves_stops_its_call_and_no_other(
    demo: Path, place: Place, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, stopped = threading.Event(), threading.Event()
    run = app_module._load_runner()

    def slow(skill: Any, arguments: Any, workspace: Any, interrupt: Any) -> Any:
        if skill.name != "kernel_instances":
            return run(skill, arguments, workspace, interrupt)
        started.set()
        try:
            while True:
                interrupt.check()
        except Exception:
            stopped.set()
            raise

    monkeypatch.setattr(app_module, "_load_runner", lambda: slow)
    arguments = {"profile": str(demo)}
    async with served(place) as http, client_of(http, era) as client, client_of(http, era) as other:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "kernel_instances", arguments)
            await anyio.to_thread.run_sync(started.wait, abandon_on_cancel=True)
            assert not (await other.call_tool("top_kernels", arguments)).is_error
            assert not stopped.is_set()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(stopped.wait, abandon_on_cancel=True)
        assert not (await other.call_tool("top_kernels", arguments)).is_error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_in_a_process_of_its_own_answers_and_ends_when_it_is_told(
    demo: Path, place: Place, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, *SERVE, "--http", "127.0.0.1:0", "--root", str(demo.parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "", **place.environment},
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:[0-9]+/mcp", process.stderr.readline())
        assert found
        async with Client(found[0]) as client:
            assert not (await client.call_tool("top_kernels", {"profile": str(demo)})).is_error
        process.send_signal(number)
        said, errors = process.communicate(timeout=20)
        assert (process.returncode, said, errors) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_an_address_is_a_loopback_one_with_a_port() -> None:
    assert parse_address("127.0.0.1:8765") == Address("127.0.0.1", 8765)
    assert parse_address("localhost:0") == Address("localhost", 0)
    assert parse_address("[::1]:80").url == f"http://[::1]:80{PATH}"
    for wrong in ("", "8765", ":8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x", "::1:80"):
        with pytest.raises(ValueError, match="HOST:PORT"):
            parse_address(wrong)
    for public in ("0.0.0.0:80", "[::]:80", "192.168.0.1:80", "example.org:80"):
        with pytest.raises(ValueError, match="ssh -L"):
            parse_address(public)


def test_serving_over_http_needs_a_root_and_a_loopback_address(tmp_path: Path) -> None:
    for arguments, words in (
        (["--http", "127.0.0.1:0"], "--root"),
        (["--http", "0.0.0.0:0", "--root", str(tmp_path)], "ssh -L"),
        (["--http", "nonsense", "--root", str(tmp_path)], "HOST:PORT"),
        (["--http", "127.0.0.1:0", "--root", str(tmp_path / "absent")], "does not exist"),
    ):
        result = CliRunner().invoke(cli, ["serve", *arguments])
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
