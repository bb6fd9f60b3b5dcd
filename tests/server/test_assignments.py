"""From the command line to the arguments of a tool, without a digit lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.server.cli.assignments import parameter, seconds
from nsys_evidence.server.cli.clients import client_lines, server_command
from nsys_evidence.server.cli.render import shown


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "integer"}, 5),
        ("0.5", {"type": "number"}, 0.5),
        ("true", {"type": "boolean"}, True),
        ("null", {"type": "integer"}, None),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ("5", {"type": "string"}, "5"),
        ("null", {"type": "string"}, "null"),
        ("a=b", {"type": "string"}, "a=b"),
        ("gemm", {"type": "integer"}, "gemm"),
        ("12345678901234567890123", {"anyOf": [{"type": "number"}, {"type": "string"}]}, 12345678901234567890123),
        ("anything", {}, "anything"),
    ],
)
def test_a_parameter_is_text_where_the_tool_wants_text_else_json_else_text(
    text: str, schema: dict[str, object], value: object
) -> None:
    assert parameter(text, schema) == value


@given(st.integers(0, 2**62))
def test_seconds_lose_no_nanosecond(nanoseconds: int) -> None:
    from nsys_evidence.contracts.scope import seconds_to_ns

    text = f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"
    value = seconds(text)
    assert seconds_to_ns(value) == nanoseconds  # type: ignore[arg-type]


@given(st.floats(0, 1e6, allow_nan=False) | st.integers(0, 10**6))
def test_seconds_that_a_client_would_send_as_a_number_are_that_number(value: float) -> None:
    assert seconds(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["soon", "", "1e", "nan", "Infinity", "[1]", '"1"', "true"])
def test_what_is_no_number_of_seconds_stays_for_the_tool_to_refuse(text: str) -> None:
    assert seconds(text) == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (None, 3, "-"),
        (True, 0, "true"),
        (0, 3, "0"),
        (49.64, 3, "49.640"),
        (0.0, 0, "0.0"),
        (1e-07, 0, "1e-07"),
        (2.5, 1, "2.5"),
        ("9007199254740993", 3, "9007199254740993"),
    ],
)
def test_a_table_shows_every_digit_of_a_value(value: object, decimals: int, text: str) -> None:
    assert shown(value, decimals) == text


def test_client_lines_start_the_server_that_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    command = server_command()
    assert command[-1] == "serve"
    assert command[0].startswith("/")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert server_command() == ["nsys-evidence", "serve"]


def test_client_files_are_json_and_the_shell_line_is_quoted() -> None:
    [(_, line), (_, cursor), (_, vs_code)] = client_lines(["/opt/my tools/nsys-evidence", "serve"])
    assert line == "claude mcp add nsys-evidence -- '/opt/my tools/nsys-evidence' serve"
    started = {"command": "/opt/my tools/nsys-evidence", "args": ["serve"]}
    assert json.loads(cursor) == {"mcpServers": {"nsys-evidence": started}}
    assert json.loads(vs_code) == {"servers": {"nsys-evidence": {"type": "stdio", **started}}}
