"""The command line: the same results as the tools, exit codes that scripts can rely on, and a quick start."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from rich.console import Console

from nsys_evidence.contracts.evidence import parse_address, resolve_address
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.server import version
from nsys_evidence.server.catalogue import load_catalogue
from nsys_evidence.server.cli import cli
from nsys_evidence.server.cli.render import show_envelope
from nsys_evidence.tools import run as tools_run
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from tests.server.questions import example_arguments
from tests.server.wire import Place
from tests.support import workspace

pytestmark = pytest.mark.usefixtures("commands")

HEAVY = ("duckdb", "pyarrow", "numpy", "mcp", "mcp_types", "rich", "adbc_driver_sqlite", "pydantic", "jsonschema")


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def envelope_of(*arguments: object) -> dict[str, Any]:
    result = command(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    envelope: dict[str, Any] = json.loads(result.stdout)
    return envelope


def error_of(code: str, *arguments: object) -> str:
    """The hint of a command that fails with this code: exit 1, on stderr, nothing on stdout."""
    result = command(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    message, hint = result.stderr.splitlines()
    assert message.startswith(f"{code}: ")
    assert hint.startswith("hint: ")
    return hint


def usage_of(*arguments: object) -> str:
    """What is said of wrong usage: exit 2, on stderr, nothing on stdout."""
    result = command(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


def test_json_is_the_envelope_of_the_tool_to_the_byte(demo: Path) -> None:
    evidence = envelope_of("skill", "run", "top_kernels", demo)["evidence"]
    for name, skill in all_skills().items():
        given = example_arguments(skill, str(demo), evidence)
        parameters = [part for key, value in given.items() if key != "profile" for part in ("-p", f"{key}={value}")]
        capture = [demo] if skill.profile else []
        result = command("skill", "run", name, *capture, *parameters, "--format", "json")
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        if skill.profile:
            assert result.stdout == dump_json(run_skill(skill, given, workspace())) + "\n"


def test_scope_options_are_the_arguments_of_the_tool(demo: Path) -> None:
    def same(arguments: dict[str, Any], *options: object) -> None:
        asked = run_skill(all_skills()["top_kernels"], {"profile": str(demo), **arguments}, workspace())
        assert envelope_of("skill", "run", "top_kernels", demo, *options) == json.loads(dump_json(asked))

    same({"device": 1}, "--device", 1)
    same({"trim": [73.11, 73.15]}, "--trim", 73.11, 73.15)
    same({"trim": [73, 74]}, "--trim", 73, 74)
    same({"max_rows": 2, "offset": 1}, "--max-rows", 2, "--offset", 1)
    same({"by_device": True, "device": 0}, "-p", "by_device=true", "-p", "device=0")


def test_a_table_has_the_scope_the_rows_the_totals_and_the_evidence(demo: Path) -> None:
    envelope = envelope_of("skill", "run", "top_kernels", demo, "--max-rows", 3)
    result = command("skill", "run", "top_kernels", demo, "--max-rows", 3)
    lines = result.stdout.splitlines()
    assert lines[0] == f"top_kernels of demo.sqlite ({envelope['profile']['id']}): ok"
    assert lines[1].startswith("scope: gpu window, ")
    assert lines[-1] == f"evidence: {envelope['evidence']}"
    for number, row in enumerate(envelope["rows"]):
        [line] = [line for line in lines if line.split()[:2] == [str(number), row[0]]]
        assert [cell for cell in line.split() if cell[0].isdigit()]
    assert f"shown: 3 of {envelope['truncation']['total_rows']} rows; next page: offset 3" in lines
    assert any(line.startswith(f"totals: kernels {envelope['totals']['kernels']}, ") for line in lines)
    assert any(line.startswith("share_pct: % of ") for line in lines)
    assert all(f"note: {note}" in lines for note in envelope["notes"])


def test_a_piped_table_has_no_colour_and_no_folded_row_even_where_colour_is_forced(
    demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    result = command("skill", "run", "kernel_launch_overhead", demo, "-p", "max_avg_kernel_us=0")
    assert "\x1b" not in result.stdout
    envelope = envelope_of("skill", "run", "kernel_launch_overhead", demo, "-p", "max_avg_kernel_us=0")
    assert sum(line.split()[:1] == ["0"] for line in result.stdout.splitlines()) == 1
    [header] = [line for line in result.stdout.splitlines() if line.startswith("row ")]
    assert header.split() == ["row", *envelope["columns"]]


@pytest.mark.parametrize("width", [20, 40, 80, 100, 120, 150, 4_000])
@pytest.mark.parametrize("name", ["kernel_instances", "top_kernels", "gpu_idle_gaps", "memory_transfers"])
def test_a_terminal_however_narrow_shows_every_number_and_column_whole(demo: Path, name: str, width: int) -> None:
    envelope = run_skill(all_skills()[name], {**example_arguments(all_skills()[name], str(demo), "")}, workspace())
    out = io.StringIO()
    show_envelope(Console(file=out, force_terminal=True, width=width, highlight=False, color_system=None), envelope)
    words = re.split(r"\s+", re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()))
    assert envelope["rows"]
    for column in envelope["columns"]:
        assert column in words
    for row in envelope["rows"]:
        for value in row:
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert any(word == str(value) or word.rstrip("0") == str(value).rstrip("0") for word in words), value


def test_an_abstention_is_no_failure_and_says_what_to_record(tmp_path: Path) -> None:
    from nsys_evidence.ingest.synthetic import Layout, demo_capture, write_sqlite

    layout = Layout(drop_tables=frozenset({"CUPTI_ACTIVITY_KIND_KERNEL"}))
    capture = write_sqlite(demo_capture()[0], tmp_path / "bare.sqlite", layout=layout)
    result = command("skill", "run", "top_kernels", capture)
    assert result.exit_code == 0
    assert "abstained" in result.stdout.splitlines()[0]
    assert "to record it: nsys profile" in result.stdout


def test_errors_have_their_code_a_hint_and_exit_one(demo: Path, tmp_path: Path) -> None:
    run = ("skill", "run", "top_kernels")
    assert "list_profiles" in error_of("PROFILE_NOT_FOUND", *run, tmp_path / "none.sqlite")
    assert "0, 1" in error_of("DEVICE_NOT_FOUND", *run, demo, "--device", 9)
    assert "max_rows" in error_of("INVALID_ARGUMENT", *run, demo, "--max-rows", 0)
    assert "device" in error_of("UNKNOWN_ARGUMENT", *run, demo, "-p", "devise=0")
    error_of("TRIM_OUT_OF_RANGE", *run, demo, "--trim", 2, 1)
    error_of("TRIM_AND_ITERATION", *run, demo, "--trim", 73, 74, "--iteration", 0)
    error_of("INVALID_ARGUMENT", *run, demo, "--trim", "soon", "later")
    error_of("EVIDENCE_NOT_FOUND", "evidence", "ev-0000000000")


def test_an_error_is_json_on_stdout_where_json_was_asked_for(demo: Path) -> None:
    result = command("skill", "run", "top_kernels", demo, "--device", 9, "--format", "json")
    assert (result.exit_code, result.stderr) == (1, "")
    assert json.loads(result.stdout)["code"] == "DEVICE_NOT_FOUND"


def test_wrong_usage_is_exit_two_and_names_the_right_one(demo: Path) -> None:
    assert "top_kernels" in usage_of("skill", "run", "top_kernel", demo)
    assert "top_kernels" in usage_of("skill", "info", "topkernels")
    assert "CAPTURE" in usage_of("skill", "run", "top_kernels")
    assert "CAPTURE" in usage_of("skill", "run", "list_profiles", demo)
    assert "KEY=VALUE" in usage_of("skill", "run", "top_kernels", demo, "-p", "by_device")
    assert "twice" in usage_of("skill", "run", "top_kernels", demo, "--device", 0, "-p", "device=1")
    usage_of("skill", "run", "top_kernels", demo, "--max-rows", 2.7)
    usage_of("skill", "run", "top_kernels", demo, "--trim", 1)
    usage_of("skill", "run", "top_kernels", demo, "--format", "xml")
    usage_of("ingest")
    usage_of("nonsense")
    usage_of("serve", "--root", "/nowhere/at/all")


def test_what_was_not_foreseen_is_a_coded_error_without_a_trace(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, Any]:
        raise ValueError("secret")

    monkeypatch.setattr(tools_run, "run_skill", broken)
    result = command("skill", "run", "top_kernels", demo)
    assert result.exit_code == 1
    assert "INTERNAL: " in result.stderr
    assert "Traceback" not in result.output
    assert "secret" not in result.output


def test_a_size_that_is_no_number_is_wrong_usage() -> None:
    for size in ("nan", "inf", "1e300", "-1"):
        assert "--keep-gib" in usage_of("cache", "prune", "--keep-gib", size)


def test_the_list_and_the_reference_come_from_the_registry() -> None:
    listed = json.loads(command("skill", "list", "--format", "json").stdout)
    assert [entry["name"] for entry in listed] == list(all_skills())
    table = command("skill", "list").stdout
    for tool in load_catalogue().tools:
        assert f"\n{tool.name} " in "\n" + table
        shown = json.loads(command("skill", "info", tool.name, "--format", "json").stdout)
        assert shown["inputSchema"] == tool.input_schema
        assert shown["outputSchema"] == tool.output_schema
        page = command("skill", "info", tool.name)
        assert page.exit_code == 0, page.output
        for name in tool.input_schema["properties"]:
            assert f"\n{name} " in page.stdout


def test_the_output_is_utf8_in_any_locale_and_a_full_disk_ends_it_without_a_trace(demo: Path) -> None:
    arguments = [sys.executable, "-m", "nsys_evidence.server", "skill", "run", "gpu_idle_gaps", str(demo)]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = subprocess.run(arguments, capture_output=True, env=plain, check=True)
    assert "10 to 100 µs" in shown.stdout.decode("utf-8")
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*arguments, "--format", "json"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 1
    assert ended.stderr.decode().splitlines()[-1].startswith("nsys-evidence: the output cannot be written")
    assert b"Traceback" not in ended.stderr


def test_info_is_profile_info(demo: Path) -> None:
    envelope = envelope_of("info", demo)
    assert envelope == envelope_of("skill", "run", "profile_info", demo)
    assert "NVIDIA H100" in command("info", demo).stdout


def test_evidence_shows_a_kept_result_again(demo: Path) -> None:
    envelope = envelope_of("skill", "run", "memory_transfers", demo)
    again = envelope_of("evidence", envelope["evidence"])
    again["tables"].pop("names", None)
    assert again == envelope
    assert f"evidence: {envelope['evidence']}" in command("evidence", envelope["evidence"]).stdout


def test_ingest_takes_in_each_capture_and_goes_on_after_one_that_fails(demo: Path, tmp_path: Path) -> None:
    result = command("ingest", demo, tmp_path / "none.sqlite", demo)
    assert result.exit_code == 1
    first, second = result.stdout.splitlines()
    assert first == second
    profile, events, word, name = first.split()
    assert (profile, word, name) == (envelope_of("info", demo)["profile"]["id"], "events", "demo.sqlite")
    assert int(events) > 1000
    assert "PROFILE_NOT_FOUND" in result.stderr
    line = json.loads(command("ingest", demo, "--format", "json").stdout)
    assert line == {"profile": profile, "name": "demo.sqlite", "events": int(events)}


def test_the_cache_can_be_listed_pruned_and_cleared(
    demo: Path, own_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in own_place.environment.items():
        monkeypatch.setenv(name, value)
    assert json.loads(command("cache", "list", "--format", "json").stdout) == []
    command("ingest", demo)
    [entry] = json.loads(command("cache", "list", "--format", "json").stdout)
    assert entry["captures"] == ["demo.sqlite"]
    assert entry["bytes"] > 0
    assert entry["profile"] in command("cache", "list").stdout
    assert command("cache", "prune").stdout.startswith("removed 0 profiles")
    assert command("cache", "prune", "--keep-gib", 0).stdout.startswith("removed 1 profiles")
    command("ingest", demo)
    assert command("cache", "clear").stdout.startswith("removed 1 profiles")
    assert json.loads(command("cache", "list", "--format", "json").stdout) == []
    usage_of("cache", "prune", "--keep-gib", -1)


def test_the_demo_answers_what_it_planted_and_says_how_to_add_the_server(tmp_path: Path) -> None:
    file = tmp_path / "planted.sqlite"
    result = command("demo", file)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("planted: ") == result.stdout.count("answered: ") > 5
    assert "DIFFERS" not in result.stdout
    kernels, gaps = envelope_of("skill", "run", "top_kernels", file), envelope_of("skill", "run", "gpu_idle_gaps", file)
    for envelope in (kernels, gaps):
        assert f"evidence: {envelope['evidence']}" in result.stdout
    for line in result.stdout.splitlines():
        if line.startswith("    answered: "):
            address = parse_address(line[line.index("[") + 1 : line.index("]")])
            envelope = kernels if address.evidence == kernels["evidence"] else gaps
            assert address.column == "kernel" or f" {resolve_address(address, envelope)}  [" in line
    for client in ("claude mcp add nsys-evidence -- ", ".cursor/mcp.json", ".vscode/mcp.json"):
        assert client in result.stdout


def test_the_demo_can_be_run_again_but_overwrites_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "planted.sqlite"
    first = command("demo", file)
    assert command("demo", file).stdout == first.stdout
    mine = tmp_path / "mine.sqlite"
    mine.write_text("years of work")
    assert "exists" in usage_of("demo", mine)
    assert mine.read_text() == "years of work"
    assert "written" in usage_of("demo", tmp_path / "no" / "such" / "folder.sqlite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.sqlite", "planted.sqlite"]


def test_the_demo_fails_when_an_answer_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> dict[str, Any]:
        envelope = run_skill(*arguments)
        if envelope["skill"] == "top_kernels":
            envelope["totals"]["total_ms"] += 0.001
        return envelope

    monkeypatch.setattr(tools_run, "run_skill", wrong)
    result = command("demo", tmp_path / "planted.sqlite")
    assert result.exit_code == 1
    assert result.stdout.count("DIFFERS") == 1


def test_results_of_the_command_line_match_the_schemas_of_the_tools(demo: Path) -> None:
    for tool in load_catalogue().tools:
        if set(tool.input_schema["required"]) == {"profile"}:
            assert tool.output_schema is not None
            Draft202012Validator(tool.output_schema).validate(envelope_of("skill", "run", tool.name, demo))


def test_the_module_is_the_command_and_help_loads_nothing_heavy() -> None:
    program = "import sys; from nsys_evidence.server.cli import cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not set(HEAVY) & set(loaded)
    shown = subprocess.run(
        [sys.executable, "-m", "nsys_evidence.server", "--version"], check=True, capture_output=True, text=True
    )
    assert shown.stdout == f"nsys-evidence, version {version()}\n"
    assert shown.stderr == ""


def test_a_command_in_a_process_of_its_own_prints_one_envelope(demo: Path, place: Place) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "nsys_evidence.server", "skill", "run", "top_kernels", str(demo), "--format", "json"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **place.environment},
    )
    assert shown.stdout == dump_json(envelope_of("skill", "run", "top_kernels", demo)) + "\n"
    assert shown.stderr == ""
