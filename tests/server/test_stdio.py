"""The server over stdio: stdout is the wire, and the process goes when its client goes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.server import version
from nsys_evidence.server.instructions import INSTRUCTIONS
from nsys_evidence.tools.registry import all_skills
from tests.server import slow_server
from tests.server.questions import example_arguments
from tests.server.wire import Place, raw_server

SLOW = [str(Path(slow_server.__file__))]
LEAVES_WITHIN_S = 2.0


def test_the_handshake_says_who_serves_and_how_to_use_it(place: Place) -> None:
    with raw_server(place) as server:
        greeting = server.shake_hands()
        assert greeting["serverInfo"]["name"] == "nsys-evidence"
        assert greeting["serverInfo"]["version"] == version()
        assert greeting["instructions"] == INSTRUCTIONS
        assert set(greeting["capabilities"]) == {"tools", "prompts", "resources"}
        assert not any(said for part in greeting["capabilities"].values() for said in part.values())  # nothing changes
        assert server.close()[:2] == (0, b"")


def test_stdout_carries_json_rpc_and_nothing_else_whatever_comes_in(place: Place, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    with raw_server(place) as server:
        server.shake_hands()
        server.send_line(b"this is no JSON")
        server.send_line(b'{"jsonrpc": "2.0"}')
        server.send_line("µ\x00".encode("utf-16"))
        server.notify("notifications/made_up", params={"what": 1})
        assert "error" in server.ask("made/up")
        assert server.ask("tools/list", params=None)["result"]["tools"]
        assert server.ask("tools/list")["result"]["tools"]
        assert server.call("profile_info", profile=str(broken))["isError"]
        assert server.call("profile_info", profile=str(tmp_path / "none.sqlite"))["isError"]
        assert server.ask("ping")["result"] == {}
        code, rest, errors = server.close()
    assert (code, rest) == (0, b"")
    assert all(json.loads(line)["jsonrpc"] == "2.0" and line.endswith(b"\n") for line in server.lines)
    assert b"Traceback" not in errors


def test_no_environment_of_a_capture_reaches_the_wire_the_log_or_the_ledger(own_place: Place, tmp_path: Path) -> None:
    planted = demo_capture()[0]
    planted.environment["API_TOKEN"] = "hunter2-5f1c0e"
    planted.unreferenced.append("trainer@hunter2-5f1c0e")
    capture = write_sqlite(planted, tmp_path / "planted.sqlite")
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(capture.read_bytes()[:-4096])
    with raw_server(own_place, NSYS_EVIDENCE_LOG="debug") as server:
        server.shake_hands()
        for path in (capture, cut):
            for name, skill in all_skills().items():
                server.call(name, **example_arguments(skill, str(path), ""))
        rest, errors = server.close()[1:]
    kept = [path.read_bytes() for path in own_place.directory.rglob("*") if path.is_file()]
    assert len(kept) > len(all_skills())
    assert all(b"hunter2" not in text for text in (*server.lines, rest, errors, *kept))


def test_the_first_reply_does_not_wait_for_what_only_calls_need() -> None:
    program = """
import sys
from nsys_evidence.server import stdio
stdio.build_server(lambda: None)
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not {"duckdb", "pyarrow", "numpy", "jsonschema", "adbc_driver_sqlite", "rich"} & set(loaded)


@pytest.mark.parametrize("kind", ["query", "stubborn"])
def test_a_client_that_goes_in_the_middle_of_a_call_ends_the_server(place: Place, kind: str) -> None:
    with raw_server(place, [*SLOW, kind]) as server:
        server.shake_hands()
        call = {"name": "top_kernels", "arguments": {"profile": "x"}, "_meta": {"progressToken": 1}}
        server.request("tools/call", params=call)
        assert server.read()["method"] == "notifications/progress"
        began = time.monotonic()
        code, rest, errors = server.close()
        assert time.monotonic() - began < LEAVES_WITHIN_S
    assert code == 0
    assert [json.loads(line)["jsonrpc"] for line in rest.splitlines()] in ([], ["2.0"])
    assert b"Traceback" not in errors


def test_a_cancelled_call_is_not_answered_and_the_server_goes_on(place: Place) -> None:
    with raw_server(place, [*SLOW, "query"]) as server:
        server.shake_hands()
        call = {"name": "top_kernels", "arguments": {"profile": "x"}, "_meta": {"progressToken": 1}}
        number = server.request("tools/call", params=call)
        assert server.read()["method"] == "notifications/progress"
        server.notify("notifications/cancelled", params={"requestId": number})
        assert server.ask("ping")["result"] == {}
        assert all(json.loads(line).get("id") != number for line in server.lines)


def test_an_answer_to_another_question_comes_while_a_call_runs(place: Place) -> None:
    with raw_server(place, [*SLOW, "query"]) as server:
        server.shake_hands()
        server.request("tools/call", params={"name": "top_kernels", "arguments": {"profile": "x"}})
        assert server.ask("ping")["result"] == {}


def test_an_interrupt_from_the_keyboard_ends_the_server(place: Place) -> None:
    with raw_server(place) as server:
        server.shake_hands()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=LEAVES_WITHIN_S) == -signal.SIGINT


def test_a_server_whose_standard_input_is_closed_leaves_at_once(place: Place) -> None:
    with raw_server(place) as server:
        assert server.close()[:2] == (0, b"")
