"""What the server answers: results, coded errors that heal, and protocol errors for tools that do not exist."""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent

from nsys_evidence.contracts.errors import ErrorCode
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.server.app import build_server
from nsys_evidence.server.limits import Limits
from nsys_evidence.tools import run
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.workspace import Workspace
from tests.server.questions import example_arguments
from tests.support import MemoryLedger, workspace

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


def client_of(era: str = "auto", limits: Limits | None = None, within: Workspace | None = None) -> Client:
    return Client(build_server(lambda: within or workspace(), limits), mode=era)


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The coded error of a failed call: text only, with a hint."""
    assert result.is_error
    assert result.structured_content is None
    error: dict[str, Any] = json.loads(text_of(result))
    assert error["code"] in set(ErrorCode)
    assert error["message"]
    assert error["hint"]
    return error


BAD_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown device": ({"device": 7}, "DEVICE_NOT_FOUND"),
    "a window outside the capture": ({"trim": [0, 1]}, "TRIM_OUT_OF_RANGE"),
    "an inverted window": ({"trim": [73.6, 73.5]}, "TRIM_OUT_OF_RANGE"),
    "a window of no length": ({"trim": [73.5, 73.5]}, "TRIM_OUT_OF_RANGE"),
    "a one-sided window": ({"trim": [73.5]}, "INVALID_ARGUMENT"),
    "a window that is no number": ({"trim": ["soon", "later"]}, "INVALID_ARGUMENT"),
    "a window half absent": ({"trim": [73.5, None]}, "INVALID_ARGUMENT"),
    "trim with iteration": ({"trim": [73.5, 73.6], "iteration": 0}, "TRIM_AND_ITERATION"),
    "an unknown argument": ({"device_id": 0}, "UNKNOWN_ARGUMENT"),
    "no rows": ({"max_rows": 0}, "INVALID_ARGUMENT"),
    "fewer rows than none": ({"max_rows": -1}, "INVALID_ARGUMENT"),
    "a part of a row": ({"max_rows": 2.7}, "INVALID_ARGUMENT"),
    "rows in words": ({"max_rows": "many"}, "INVALID_ARGUMENT"),
    "a negative offset": ({"offset": -1}, "INVALID_ARGUMENT"),
    "a device in words": ({"device": "all"}, "INVALID_ARGUMENT"),
    "no profile": ({"profile": None}, "INVALID_ARGUMENT"),
    "an empty profile": ({"profile": ""}, "INVALID_ARGUMENT"),
}


@pytest.mark.parametrize("given", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
@ERAS
async def test_a_bad_argument_has_its_code_and_the_server_goes_on(
    demo: Path, given: tuple[dict[str, Any], str], era: str
) -> None:
    arguments, code = given
    async with client_of(era) as client:
        error = error_of(await client.call_tool("top_kernels", {"profile": str(demo), **arguments}))
        assert error["code"] == code
        assert not (await client.call_tool("top_kernels", {"profile": str(demo)})).is_error


async def test_the_hint_of_an_unknown_argument_names_the_right_one(demo: Path) -> None:
    async with client_of() as client:
        error = error_of(await client.call_tool("top_kernels", {"profile": str(demo), "limit": 3, "devise": 0}))
        assert "device" in error["hint"]
        assert "max_rows" in error["valid"]


async def test_the_hint_of_an_unknown_device_works(demo: Path) -> None:
    async with client_of() as client:
        error = error_of(await client.call_tool("top_kernels", {"profile": str(demo), "device": 7}))
        assert error["devices"] == [0, 1]
        result = await client.call_tool("top_kernels", {"profile": str(demo), "device": error["devices"][0]})
        assert not result.is_error


def empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def text(path: Path) -> Path:
    path.write_text("this is no capture\n" * 100)
    return path


def truncated(path: Path, demo: Path) -> Path:
    path.write_bytes(demo.read_bytes()[:20_000])
    return path


def bad_captures(directory: Path, demo: Path) -> dict[str, tuple[Path, str]]:
    """Files that cannot be opened, and the code that says why."""
    import sqlite3

    from nsys_evidence.ingest.synthetic import Layout, demo_capture, write_sqlite

    (directory / "folder").mkdir()
    foreign = directory / "foreign.sqlite"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()
    qdstrm = directory / "raw.qdstrm"
    qdstrm.write_bytes(b"\x00" * 4096)
    live = write_sqlite(demo_capture()[0], directory / "live.sqlite", layout=Layout(wal=True))
    return {
        "no such file": (directory / "none.sqlite", "PROFILE_NOT_FOUND"),
        "empty": (empty(directory / "empty.sqlite"), "PROFILE_EMPTY"),
        "folder": (directory / "folder", "NOT_A_CAPTURE_DIRECTORY"),
        "text": (text(directory / "text.sqlite"), "NOT_A_CAPTURE"),
        "foreign": (foreign, "NOT_AN_NSYS_EXPORT"),
        "truncated": (truncated(directory / "cut.sqlite", demo), "PROFILE_CORRUPT"),
        "live": (live, "PROFILE_IN_USE"),
        "qdstrm": (qdstrm, "UNSUPPORTED_FORMAT"),
    }


async def test_every_file_that_is_no_readable_capture_has_its_code_and_a_hint(demo: Path, tmp_path: Path) -> None:
    async with client_of() as client:
        for name, (path, code) in bad_captures(tmp_path, demo).items():
            error = error_of(await client.call_tool("profile_info", {"profile": str(path)}))
            assert error["code"] == code, name
        assert not (await client.call_tool("profile_info", {"profile": str(demo)})).is_error


async def test_a_cache_that_cannot_be_written_says_so(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    within = Workspace(Library(cache=tmp_path / "file" / "cache"), MemoryLedger())
    async with client_of(within=within) as client:
        error = error_of(await client.call_tool("profile_info", {"profile": str(demo)}))
        assert error["code"] == "CACHE_UNWRITABLE"


async def test_a_full_disk_says_so_and_keeps_nothing(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    within = Workspace(Library(cache=tmp_path / "cache"), MemoryLedger())
    async with client_of(within=within) as client:
        with monkeypatch.context() as patch:
            patch.setattr("nsys_evidence.ingest.manifest.Manifest.write", full)
            error = error_of(await client.call_tool("profile_info", {"profile": str(demo)}))
            assert error["code"] == "DISK_FULL"
        assert within.library.sources() == []
        assert not (await client.call_tool("profile_info", {"profile": str(demo)})).is_error


async def test_a_path_outside_the_roots_is_refused_without_telling_whether_it_exists(
    demo: Path, tmp_path: Path
) -> None:
    within = Workspace(Library(cache=tmp_path / "cache", roots=[tmp_path / "here"]), MemoryLedger())
    (tmp_path / "here").mkdir()
    async with client_of(within=within) as client:
        errors = [
            error_of(await client.call_tool("profile_info", {"profile": str(path)}))
            for path in (demo, demo.with_name("none.sqlite"), tmp_path / "here" / ".." / "x")
        ]
    assert {error["code"] for error in errors} == {"PATH_NOT_ALLOWED"}


@ERAS
async def test_an_unknown_tool_is_a_protocol_error_that_names_the_nearest(era: str) -> None:
    async with client_of(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("top_kernel", {})
        assert caught.value.code == INVALID_PARAMS
        assert "top_kernels" in caught.value.message
        with pytest.raises(MCPError) as caught:
            await client.call_tool("§\x1b[31m" + "x" * 500, {})
        assert caught.value.code == INVALID_PARAMS
        assert len(caught.value.message) < 200
        assert "\x1b" not in caught.value.message


async def test_null_means_omitted_for_every_argument(demo: Path) -> None:
    async with client_of() as client:
        tools = (await client.list_tools()).tools
        first = await client.call_tool("top_kernels", {"profile": str(demo)})
        evidence = json.loads(text_of(first))["evidence"]
        for tool in tools:
            given = example_arguments(all_skills()[tool.name], str(demo), evidence)
            nulls = dict.fromkeys(tool.input_schema["properties"], None)
            plain = await client.call_tool(tool.name, given)
            filled = await client.call_tool(tool.name, {**nulls, **given})
            assert text_of(filled) == text_of(plain)
            assert not filled.is_error


async def test_a_required_argument_that_is_null_is_missing() -> None:
    async with client_of() as client:
        for tool in (await client.list_tools()).tools:
            for name in tool.input_schema["required"]:
                error = error_of(await client.call_tool(tool.name, {name: None}))
                assert error["code"] == "INVALID_ARGUMENT"


Fake = Callable[..., dict[str, Any]]


def instead(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> None:
    """Let every tool run this instead of its skill."""
    monkeypatch.setattr(run, "run_skill", fake)


async def test_what_was_not_foreseen_is_logged_without_its_message_and_answered_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> dict[str, Any]:
        raise ValueError("/home/someone/secret-token")

    instead(monkeypatch, broken)
    async with client_of() as client:
        result = await client.call_tool("top_kernels", {"profile": "x"})
    assert error_of(result)["code"] == "INTERNAL"
    assert "secret" not in text_of(result) + caplog.text
    assert "Traceback" not in text_of(result)
    assert "ValueError" in caplog.text
    assert "test_app.py" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_result_that_json_cannot_carry_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, lambda *_: {"rows": [[float("nan")]]})
    async with client_of() as client:
        assert error_of(await client.call_tool("top_kernels", {"profile": "x"}))["code"] == "INTERNAL"


async def test_a_call_past_its_deadline_is_told_so_and_the_next_one_is_served(
    monkeypatch: pytest.MonkeyPatch, demo: Path
) -> None:
    def slow(_skill: object, _given: object, _workspace: Workspace, interrupt: Interrupt) -> dict[str, Any]:
        while True:
            interrupt.check()

    async with client_of(limits=Limits(deadline_s=0.2)) as client:
        with monkeypatch.context() as patch:
            instead(patch, slow)
            assert error_of(await client.call_tool("top_kernels", {"profile": "x"}))["code"] == "TIMEOUT"
        await client.list_tools()


@ERAS
async def test_a_client_that_stops_waiting_stops_the_work(monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    running, stopped = anyio.Event(), threading.Event()

    def slow(_skill: object, _given: object, _workspace: Workspace, interrupt: Interrupt) -> dict[str, Any]:
        anyio.from_thread.run_sync(running.set)
        try:
            while True:
                interrupt.check()
        finally:
            stopped.set()

    instead(monkeypatch, slow)
    async with client_of(era) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "top_kernels", {"profile": "x"})
            await running.wait()
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(stopped.wait, 20)


@ERAS
async def test_progress_of_an_ingest_reaches_a_client_that_asks_for_it(demo: Path, tmp_path: Path, era: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def watch(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    within = Workspace(Library(cache=tmp_path / "cache"), MemoryLedger())
    async with client_of(era, within=within) as client:
        await client.call_tool("profile_info", {"profile": str(demo)}, progress_callback=watch)
        shares = [share for share, _, _ in seen]
        assert shares
        assert shares == sorted(set(shares))
        assert all(total == 1 and message for _, total, message in seen)
        ingested = len(seen)
        await client.call_tool("profile_info", {"profile": str(demo)}, progress_callback=watch)
        assert len(seen) == ingested


async def test_calls_side_by_side_get_their_own_answers(demo: Path) -> None:
    texts: dict[int, str] = {}
    async with client_of(limits=Limits(calls=4)) as client:

        async def call(rows: int) -> None:
            texts[rows] = text_of(await client.call_tool("top_kernels", {"profile": str(demo), "max_rows": rows}))

        async with anyio.create_task_group() as group:
            for rows in range(1, 9):
                group.start_soon(call, rows)
        for rows in range(1, 9):
            result = await client.call_tool("top_kernels", {"profile": str(demo), "max_rows": rows})
            assert text_of(result) == texts[rows]
