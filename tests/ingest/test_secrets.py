"""nsys records environments, command lines, users and hosts. None of them leaves the export."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from nsys_evidence.contracts.errors import EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import (
    Capture,
    Kernel,
    Layout,
    Mark,
    Process,
    Range,
    ThreadName,
    demo_capture,
    write_sqlite,
)
from nsys_evidence.server.cli import cli
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.workspace import Workspace
from tests.parquet_export import write_parquetdir
from tests.server.questions import example_arguments
from tests.support import MemoryLedger

TOKENS = {
    name: f"zq{number:02d}x-{name.replace(' ', '-')}"
    for number, name in enumerate(
        (
            "variable name",
            "variable value",
            "unreferenced string",
            "process name",
            "argument",
            "host",
            "user",
            "thread name",
            "directory",
            "payload",
            "impossible kernel",
            "impossible range",
            "diagnostic",
            "source file",
        )
    )
}
"""A text for every place where an export may hold what is nobody's business, and that occurs nowhere else."""


def planted() -> Capture:
    """The demo with a token in every such place."""
    demo = demo_capture()[0]
    first = demo.ranges[0]
    assert first.start is not None
    return replace(
        demo,
        processes=[
            Process(p.pid, vm=1, name=TOKENS["process name"], command=("--key", TOKENS["argument"]))
            for p in demo.processes
        ],
        environment={TOKENS["variable name"]: TOKENS["variable value"]},
        unreferenced=[TOKENS["unreferenced string"]],
        host=TOKENS["host"],
        user=TOKENS["user"],
        thread_names=[ThreadName(demo.processes[0].pid, 7, TOKENS["thread name"])],
        kernels=[*demo.kernels, Kernel(9, 3, 0, 1, 7, 1, first.pid, TOKENS["impossible kernel"])],
        ranges=[
            *demo.ranges,
            Range(9, 3, first.pid, first.tid, TOKENS["impossible range"]),
            replace(first, text="with a payload", payload=TOKENS["payload"]),
        ],
        marks=[*demo.marks, Mark(first.start, first.pid, first.tid, "a mark")],
        extra_tables={
            "DIAGNOSTIC_EVENT": [{"timestamp": 5, "text": TOKENS["diagnostic"]}],
            "ANALYSIS_FILE": [{"id": 1, "filename": TOKENS["source file"], "content": TOKENS["source file"]}],
        },
    )


@pytest.fixture(scope="module", params=["sqlite", "parquetdir"])
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("export") / TOKENS["directory"]
    directory.mkdir()
    export = write_sqlite(planted(), directory / "capture.sqlite")
    return export if request.param == "sqlite" else write_parquetdir(export, directory / "capture.parquetdir")


def leaked(text: str) -> set[str]:
    """The tokens in a text, however they are written."""
    return {name for name, token in TOKENS.items() if token.lower() in text.lower()}


def texts_below(directory: Path) -> Iterator[tuple[Path, str]]:
    """Everything in the files of a directory, with Parquet unpacked, and their names."""
    for path in directory.rglob("*"):
        yield path, path.relative_to(directory).as_posix()
        if path.is_file():
            yield path, path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            file = pq.ParquetFile(path)
            yield path, f"{file.schema_arrow} {file.metadata.metadata}"
            yield path, "\n".join(str(_as_bytes(column).to_pylist()) for column in file.read().columns)


def _as_bytes(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Texts as bytes: binary data stands in them too, which is no UTF-8."""
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column.cast(pa.large_binary()) if is_text else column


def test_the_tokens_are_in_the_export(capture: Path) -> None:
    content = [text for _, text in texts_below(capture.parent)]
    assert leaked(f"{capture.parent} {content}") == set(TOKENS)


def test_nothing_of_them_is_in_the_cache(capture: Path, tmp_path: Path) -> None:
    Library(cache=tmp_path / "cache").open(str(capture))
    found = list(texts_below(tmp_path / "cache"))
    assert len([path for path, _ in found if path.suffix == ".parquet"]) > 50
    assert any("with a payload" in text and "aten::" in text for _, text in found)
    assert {str(path): names for path, text in found if (names := leaked(text))} == {}


def test_nothing_of_them_is_in_an_ingest_that_was_stopped(capture: Path, tmp_path: Path) -> None:
    def look(share: float, words: str) -> None:
        assert leaked(words) == set()
        for path, text in ((p, p.read_bytes().decode("latin-1")) for p in tmp_path.rglob("*") if p.is_file()):
            assert leaked(text) == set(), path

    Library(cache=tmp_path / "cache").open(str(capture), progress=look)


def test_nothing_of_them_is_in_any_result(capture: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ledger = MemoryLedger()
    within = Workspace(Library(cache=tmp_path / "cache"), ledger)
    evidence = run_skill(all_skills()["top_kernels"], {"profile": str(capture)}, within)["evidence"]
    for name, skill in all_skills().items():
        given = example_arguments(skill, str(capture), evidence)
        for offset in (0, 5) if skill.row is not None else (None,):
            page = {} if offset is None else {"max_rows": 200, "offset": offset}
            envelope = run_skill(skill, {**given, **page}, within)
            assert leaked(dump_json(envelope)) == set(), name
    assert leaked(dump_json([names for _, names in ledger.kept.values()])) == set()
    assert leaked(caplog.text) == set()


def wrong_calls(capture: Path, tmp_path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Calls that fail, in as many ways as there are."""
    damaged = tmp_path / "damaged.sqlite"
    content = write_sqlite(planted(), tmp_path / "whole.sqlite").read_bytes()
    damaged.write_bytes(content[: len(content) // 2])
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(content[:40_960] + b"\xff" * 40_960 + content[81_920:])
    half = write_parquetdir(tmp_path / "whole.sqlite", tmp_path / "half")
    names = half / "StringIds.parquet"
    names.write_bytes(names.read_bytes()[:-100])
    newer = write_sqlite(replace(planted(), schema="9.0.0"), tmp_path / "newer.sqlite")
    live = write_sqlite(planted(), tmp_path / "live.sqlite", layout=Layout(wal=True))
    for path in (damaged, broken, half, newer, live, capture.with_name("absent.sqlite"), capture.parent):
        yield "top_kernels", {"profile": str(path)}
    for arguments in (
        {"device": 99},
        {"trim": [1, 2]},
        {"trim": ["x", "y"]},
        {"trim": [80, 70]},
        {"iteration": 1, "trim": [1, 2]},
        {"max_rows": 0},
        {"colour": "red"},
    ):
        yield "top_kernels", {"profile": str(capture), **arguments}
    yield "get_evidence", {"id": "ev-0000000000"}


def test_nothing_of_them_is_in_an_error(capture: Path, tmp_path: Path) -> None:
    within = Workspace(Library(cache=tmp_path / "cache", roots=[tmp_path, capture.parent]), MemoryLedger())
    codes = set()
    for name, arguments in wrong_calls(capture, tmp_path):
        with pytest.raises(EvidenceError) as caught:
            run_skill(all_skills()[name], arguments, within)
        codes.add(caught.value.code)
        # A directory that was asked for is named, as any file name is; what is above it is not.
        allowed = {"directory"} if arguments.get("profile") == str(capture.parent) else set()
        assert leaked(caught.value.to_json()) <= allowed, arguments
    assert len(codes) >= 9


def test_nothing_of_them_is_printed_or_kept_by_a_command(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NSYS_EVIDENCE_STATE", str(tmp_path / "state"))
    commands = [
        ["ingest", str(capture)],
        ["info", str(capture)],
        ["cache", "list"],
        *(
            ["skill", "run", name, str(capture)]
            for name, s in all_skills().items()
            if s.profile and not s.params.model_fields
        ),
    ]
    for words in commands:
        for form in (["--format", "table"], ["--format", "json"]):
            done = CliRunner().invoke(cli, [*words, *form])
            assert done.exit_code == 0, done.output
            assert leaked(done.stdout + done.stderr) == set(), words
    failed = CliRunner().invoke(cli, ["info", str(capture.with_name("absent.sqlite"))])
    assert failed.exit_code == 1
    assert leaked(failed.output) == set()
    assert {str(path): names for path, text in texts_below(tmp_path) if (names := leaked(text))} == {}
