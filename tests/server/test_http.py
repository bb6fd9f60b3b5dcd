"""The server over HTTP: the same answers as over stdio, to this machine only, to many clients at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client

from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Capture, Kernel, write_sqlite
from nsys_evidence.server.address import Address, parse_address
from nsys_evidence.server.cli import cli
from nsys_evidence.server.ledger import FileLedger
from nsys_evidence.server.limits import Limits
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.workspace import Workspace
from tests.server import slow_server
from tests.server.over_http import client_over, serving
from tests.server.questions import example_arguments
from tests.server.test_app import error_of, text_of
from tests.server.wire import SERVE, Place, connected
from tests.support import MemoryLedger

ERAS = pytest.mark.parametrize("era", ["2026-07-28", "auto", "legacy"])
NEGOTIATED = pytest.mark.parametrize("era", ["auto", "legacy"])
METHODS = pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def within(place: Place, *roots: Path) -> Workspace:
    ledger = FileLedger(place.directory / "state" / "evidence")
    return Workspace(Library(cache=place.cache, roots=roots), ledger)


@ERAS
async def test_every_tool_answers_over_http_byte_for_byte_as_over_stdio(demo: Path, own_place: Place, era: str) -> None:
    async def answers(client: Client) -> dict[str, tuple[str, object]]:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == list(all_skills())
        evidence = (await client.call_tool("top_kernels", {"profile": str(demo)})).structured_content["evidence"]
        found: dict[str, tuple[str, object]] = {"tools/list": (repr([t.model_dump() for t in listed]), None)}
        for name, skill in all_skills().items():
            result = await client.call_tool(name, example_arguments(skill, str(demo), evidence))
            assert not result.is_error, text_of(result)
            found[name] = (text_of(result), result.structured_content)
            assert json.loads(text_of(result)) == result.structured_content
        return found

    async with connected(own_place, era, "--root", str(demo.parent)) as client:
        over_stdio = await answers(client)
    async with serving(within(own_place, demo.parent)) as requests, client_over(requests, era) as client:
        assert await answers(client) == over_stdio


@ERAS
async def test_an_error_over_http_is_text_with_a_code_and_a_hint(demo: Path, own_place: Place, era: str) -> None:
    async with serving(within(own_place, demo.parent)) as requests, client_over(requests, era) as client:
        result = await client.call_tool("top_kernels", {"profile": str(demo), "device": 7})
        assert error_of(result)["code"] == "DEVICE_NOT_FOUND"


@METHODS
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1:8766",
        "127.0.0.1",
        "127.0.0.1:8765.evil.example",
        "127.0.0.1.evil.example:8765",
        "localhost:8765@evil.example",
        "0.0.0.0:8765",
        "",
    ],
)
async def test_a_request_to_another_host_is_misdirected(own_place: Place, method: str, host: str) -> None:
    async with serving(within(own_place)) as requests:
        answer = await requests.request(method, "/mcp", headers={**JSON, "Host": host}, json=PING)
        assert answer.status_code == 421
        modern = {**JSON, "Host": host, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
        assert (await requests.request(method, "/mcp", headers=modern, json=PING)).status_code in (421, 405)


@METHODS
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:8765.evil.example", "http://localhost"],
)
async def test_a_page_of_another_origin_is_forbidden(own_place: Place, method: str, origin: str) -> None:
    async with serving(within(own_place)) as requests:
        answer = await requests.request(method, "/mcp", headers={**JSON, "Origin": origin}, json=PING)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_the_names_of_this_machine_with_the_port_are_served(own_place: Place, name: str) -> None:
    async with serving(within(own_place)) as requests:
        own = {"Host": f"{name}:8765", "Origin": f"http://{name}:8765"}
        who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
        assert (await requests.post("/mcp", headers={**JSON, **own}, json=hello)).status_code == 200


async def test_requests_of_another_shape_are_refused(own_place: Place) -> None:
    async with serving(within(own_place), Limits(body_bytes=1000)) as requests:
        big = json.dumps({**PING, "params": {"padding": "x" * 1000}})
        assert (await requests.post("/mcp", headers=JSON, content=big)).status_code == 413
        assert (
            await requests.post("/mcp", headers={**JSON, "Content-Type": "text/plain"}, content="{}")
        ).status_code == 400
        assert (await requests.post("/mcp", headers=JSON, content="no JSON")).status_code == 400
        for path in ("/", "/mcp/", "/mcp/x", "/healthz", "/.well-known/oauth-protected-resource"):
            answer = await requests.get(path, headers={"Host": "evil.example"})
            assert answer.status_code == 404
            assert "evil" not in answer.text + repr(answer.headers)


async def test_more_sessions_than_the_limit_are_refused_and_a_session_that_ends_makes_room(own_place: Place) -> None:
    async with serving(within(own_place), Limits(sessions=1)) as requests:
        async with client_over(requests, "legacy") as first:
            with pytest.raises(BaseException):  # noqa: B017, PT011 - the client's, of no fixed kind
                async with client_over(requests, "legacy"):
                    pass
            assert (await first.list_tools()).tools
            async with client_over(requests, "2026-07-28") as stateless:
                assert (await stateless.list_tools()).tools
        async with client_over(requests, "legacy") as second:
            assert (await second.list_tools()).tools


async def test_clients_of_both_eras_share_one_server(demo: Path, own_place: Place) -> None:
    answers: list[str] = []

    async def ask(requests: httpx2.AsyncClient, era: str) -> None:
        async with client_over(requests, era) as client:
            answers.append(text_of(await client.call_tool("top_kernels", {"profile": str(demo)})))

    async with serving(within(own_place, demo.parent)) as requests, anyio.create_task_group() as group:
        for era in ["2026-07-28", "legacy"] * 4:
            group.start_soon(ask, requests, era)
    assert len(answers) == 8
    assert len(set(answers)) == 1


@ERAS
async def test_an_ingest_reports_its_progress_over_http(demo: Path, own_place: Place, era: str) -> None:
    shares: list[float] = []

    async def note(share: float, total: float | None, what: str | None) -> None:
        shares.append(share)

    async with serving(within(own_place, demo.parent)) as requests, client_over(requests, era) as client:
        await client.call_tool("profile_info", {"profile": str(demo)}, progress_callback=note)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8765", Address("127.0.0.1", 8765)),
        ("localhost:0", Address("127.0.0.1", 0)),
        ("[::1]:8765", Address("::1", 8765)),
        ("::1:8765", Address("::1", 8765)),
    ],
)
def test_addresses_of_this_machine_are_taken(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_port_80_is_left_out_of_host_and_origin() -> None:
    assert Address("::1", 80).hosts == ["127.0.0.1", "localhost", "[::1]"]
    assert Address("::1", 81).origins == ["http://127.0.0.1:81", "http://localhost:81", "http://[::1]:81"]
    assert Address("::1", 81).url == "http://[::1]:81/mcp"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http", "0.0.0.0:8765", "--root", "."], "SSH tunnel"),
        (["--http", "::8765", "--root", "."], "SSH tunnel"),
        (["--http", "gpu-node:8765", "--root", "."], "SSH tunnel"),
        (["--http", ":8765", "--root", "."], "SSH tunnel"),
        (["--http", "127.0.0.1", "--root", "."], "HOST:PORT"),
        (["--http", "127.0.0.1:", "--root", "."], "HOST:PORT"),
        (["--http", "127.0.0.1:65536", "--root", "."], "HOST:PORT"),
        (["--http", "127.0.0.1:-1", "--root", "."], "HOST:PORT"),
        (["--http", "127.0.0.1:8765"], "--root DIR"),
        (["--http", "127.0.0.1:8765", "--root", "/nowhere/at/all"], "does not exist"),
        (["--http", "127.0.0.1:8765", "--root", __file__], "is a file"),
    ],
)
def test_what_cannot_be_served_over_http_is_wrong_usage(options: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *options])
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


@contextmanager
def http_server(place: Place, command: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its URL."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "", **place.environment},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("nsys-evidence: serving MCP at http://127.0.0.1:"), line + process.stderr.read()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_in_peace(demo: Path, place: Place, sent: signal.Signals) -> None:
    options = ["--http", "127.0.0.1:0", "--root", str(demo.parent)]
    with http_server(place, [*SERVE, *options]) as (process, url):
        async with Client(url) as client:
            assert not (await client.call_tool("top_kernels", {"profile": str(demo)})).is_error
        process.send_signal(sent)
        assert process.communicate(timeout=20) == ("", "")
        assert process.returncode == 0


@NEGOTIATED
async def test_options_say_what_is_offered_over_http(demo: Path, place: Place, era: str) -> None:
    options = ["--http", "127.0.0.1:0", "--root", str(demo.parent), "--surface", "compact", "--toolsets", "nvtx"]
    with http_server(place, [*SERVE, *options]) as (_, url):
        async with Client(url, mode=era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][:3] == [
                "list_skills",
                "describe_skill",
                "run_skill",
            ]
            rows = (await client.call_tool("list_skills", {})).structured_content["rows"]
            assert {row[1] for row in rows} == {"nvtx", "utility"}
            call = {"skill": "nvtx_summary", "arguments": {"profile": str(demo)}}
            assert not (await client.call_tool("run_skill", call)).is_error


@pytest.mark.parametrize(("kind", "era"), [("query", "auto"), ("query", "legacy"), ("stubborn", "auto")])
async def test_a_signal_ends_the_server_in_the_middle_of_a_call(place: Place, kind: str, era: str) -> None:
    with http_server(place, [str(Path(slow_server.__file__)), kind, "http"]) as (process, url):

        async def stop(*_: object) -> None:
            process.send_signal(signal.SIGTERM)

        with pytest.raises(BaseException):  # noqa: B017, PT011 - the client's, of no fixed kind
            async with Client(url, mode=era) as client:
                await client.call_tool("top_kernels", {"profile": "x"}, progress_callback=stop)
        out, errors = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=20))
        assert (out, process.returncode) == ("", 0)
        assert "Traceback" not in errors


@NEGOTIATED
async def test_a_cancelled_call_frees_its_place_and_the_call_of_another_session_goes_on(place: Place, era: str) -> None:
    """Two calls may run at a time: the third begins when, and only when, one of the first two is stopped."""
    call = {"name": "top_kernels", "arguments": {"profile": "x"}}
    ended: list[str] = []

    async def run(url: str, name: str, begun: anyio.Event, scope: anyio.CancelScope) -> None:
        async def begin(*_: object) -> None:
            begun.set()

        async with Client(url, mode=era) as client:
            with scope:
                await client.call_tool(**call, progress_callback=begin)
        ended.append(name)

    with http_server(place, [str(Path(slow_server.__file__)), "query", "http"]) as (_, url):
        begun = {name: anyio.Event() for name in ("first", "second", "third")}
        scopes = {name: anyio.CancelScope() for name in begun}
        async with anyio.create_task_group() as group:
            for name in ("first", "second"):
                group.start_soon(run, url, name, begun[name], scopes[name])
                await begun[name].wait()
            group.start_soon(run, url, "third", begun["third"], scopes["third"])
            scopes["first"].cancel()
            await begun["third"].wait()
            assert set(ended) <= {"first"}
            scopes["second"].cancel()
            scopes["third"].cancel()


@ERAS
async def test_no_path_leads_out_of_the_roots_over_http(tmp_path: Path, era: str) -> None:
    inside, outside = tmp_path / "data", tmp_path / "data-x"
    inside.mkdir()
    outside.mkdir()
    secret = write_sqlite(Capture(kernels=[Kernel(100, 200, 0, 1, 7, 1, 42, "k()")]), outside / "secret.sqlite")
    (inside / "link.sqlite").symlink_to(secret)
    fenced = Workspace(Library(cache=tmp_path / "cache", roots=[inside]), MemoryLedger())
    async with serving(fenced) as requests, client_over(requests, era) as client:
        for path in (secret, outside / "absent.sqlite", inside / "link.sqlite", inside / ".." / "data-x" / "s.sqlite"):
            error = error_of(await client.call_tool("profile_info", {"profile": str(path)}))
            assert error["code"] == "PATH_NOT_ALLOWED"
            assert str(tmp_path) not in json.dumps(error)
