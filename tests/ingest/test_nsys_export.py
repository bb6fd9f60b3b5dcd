"""How nsys is run: which form is asked for, for how long, with what, and what is kept of what it says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.nsys.export import FORM_VARIABLE, export_report
from nsys_evidence.ingest.nsys.find import find_nsys
from nsys_evidence.ingest.nsys.process import run
from tests.nsys_program import pretend_nsys

REPORT = b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\n some sections U3w[END]"
PARQUET = 'mkdir "$output"; printf PAR1-rows-PAR1 > "$output/StringIds.parquet"'


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "place" / "run.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(REPORT)
    return path


def exported(report: Path, lines: str, *, knows: str = "sqlite, parquetdir", deadline_s: float | None = None) -> Path:
    """The path of the export of a pretended nsys that knows some forms."""
    place = report.parent.parent
    program = pretend_nsys(place / "nsys", lines)
    program.write_text(program.read_text().replace("sqlite, parquetdir", knows))
    (place / "into").mkdir()
    return export_report(report, place / "into", find_nsys(program), Interrupt(), deadline_s)


def refusal(code: ErrorCode, report: Path, lines: str, **options: object) -> str:
    with pytest.raises(EvidenceError) as caught:
        exported(report, lines, **options)  # type: ignore[arg-type]
    assert caught.value.code is code, caught.value
    assert str(report.parent.parent) not in caught.value.to_json()
    return caught.value.message


def test_parquet_is_asked_for_where_nsys_knows_it(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORM_VARIABLE, raising=False)
    assert exported(report, PARQUET).name == "export_pqtdir"


def test_sqlite_is_asked_for_where_nsys_does_not_know_parquet(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FORM_VARIABLE, raising=False)
    lines = 'case "$*" in *--type=sqlite*) exit 7;; esac'
    assert "exit status 7" in refusal(ErrorCode.NSYS_FAILED, report, lines, knows="arrow, sqlite, json")


@pytest.mark.parametrize("form", ["sqlite", "parquetdir", "auto"])
@pytest.mark.parametrize(("option", "asked"), [("--include-blobs=", True), ("--include-something=", False)])
def test_the_bytes_of_payloads_are_asked_for_in_every_form_where_nsys_knows_the_option(
    report: Path, monkeypatch: pytest.MonkeyPatch, form: str, option: str, asked: bool
) -> None:
    monkeypatch.setenv(FORM_VARIABLE, form)
    known = 'case "$*" in *--include-blobs=true*) echo blobs asked for;; *) echo no option;; esac; exit 7'
    said = refusal(ErrorCode.NSYS_FAILED, report, known, knows=f"sqlite, parquetdir\n{option}")
    assert said.endswith("blobs asked for" if asked else "no option")


def test_an_nsys_that_does_not_answer_export_help_still_exports(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORM_VARIABLE, "sqlite")
    place = report.parent.parent
    program = pretend_nsys(place / "nsys", 'case "$*" in *blobs*) exit 4;; esac; exit 7')
    program.write_text(program.read_text().replace('echo "sqlite, parquetdir"; exit 0', "exit 3"))
    (place / "into").mkdir()
    with pytest.raises(EvidenceError, match="exit status 7"):
        export_report(report, place / "into", find_nsys(program), Interrupt())


def test_parquet_that_is_demanded_of_an_nsys_that_does_not_know_it_is_refused(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORM_VARIABLE, "parquetdir")
    assert FORM_VARIABLE in refusal(ErrorCode.NSYS_TOO_OLD, report, PARQUET, knows="arrow, sqlite, json")


def test_a_form_that_is_none_is_refused_and_its_value_not_repeated(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORM_VARIABLE, "hunter2")
    said = refusal(ErrorCode.INVALID_ARGUMENT, report, PARQUET)
    assert "auto, sqlite, parquetdir" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("lines", "flaw"),
    [
        ("exit 0", "wrote no table"),
        ('mkdir "$output"', "wrote no table"),
        ('mkdir "$output"; printf PAR1-PAR1 > "$output/OSRT_API.parquet"', "no StringIds.parquet"),
        (PARQUET + '; printf PAR1-rows > "$output/OSRT_API.parquet"', "OSRT_API.parquet that is cut short"),
        (PARQUET + '; : > "$output/OSRT_API.parquet"', "OSRT_API.parquet that is cut short"),
    ],
)
def test_half_a_directory_is_told_from_a_whole_one(
    report: Path, monkeypatch: pytest.MonkeyPatch, lines: str, flaw: str
) -> None:
    monkeypatch.delenv(FORM_VARIABLE, raising=False)
    assert flaw in refusal(ErrorCode.NSYS_FAILED, report, lines)


def test_an_export_that_hangs_is_stopped_and_everything_that_it_started(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORM_VARIABLE, raising=False)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # A child of nsys's own holds the other end of the pipe for as long as it lives.
        hangs = f"(exec sleep 1000) > {fifo} & wait"
        assert "within 0.1 s" in refusal(ErrorCode.NSYS_FAILED, report, hangs, deadline_s=0.1)
        os.set_blocking(reading, True)
        assert os.read(reading, 1) == b""  # the end of the file: nobody holds the pipe any more
    finally:
        os.close(reading)


def test_what_nsys_says_is_one_clean_line_of_bounded_length_without_directories(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORM_VARIABLE, raising=False)
    lines = (
        'printf "progress 10%%\\rprogress 20%%\\n\\033[31mExportation error: \\342\\200\\256cannot open '
        '/home/alice/secret/deep/run.bin at $report in $PWD\\033[0m\\nbye\\n"; '
        "i=0; while [ $i -lt 300 ]; do printf 'long long long '; i=$((i+1)); done; exit 1"
    )
    said = refusal(ErrorCode.NSYS_FAILED, report, lines)
    assert "Exportation error: cannot open run.bin at run.nsys-rep" in said
    assert "alice" not in said
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "\n" not in said
    assert len(said) < 500


def test_nsys_gets_no_input_no_secret_and_only_its_own_directory_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    place = tmp_path / "into"
    place.mkdir()
    seen = run(["/bin/sh", "-c", 'cat; pwd; echo "$HOME $TMPDIR"; env'], place, 20, Interrupt())
    lines = seen.output.splitlines()
    assert seen.code == 0
    assert lines[:2] == [str(place), f"{place} {place}"]
    assert "hunter2" not in seen.output


def test_of_endless_output_the_end_is_kept(tmp_path: Path) -> None:
    ended = run(["/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"], tmp_path, 20, Interrupt())
    assert ended.code == 0
    assert len(ended.output) <= 65_536
    assert ended.output.endswith("x\nlast\n")


def test_the_export_leaves_the_report_as_it_is_and_writes_only_where_it_is_told(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FORM_VARIABLE, raising=False)
    report.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        lines = f'echo side > side.sqlite; echo more > "$HOME/more"; echo most > "$TMPDIR/most"; {PARQUET}'
        export = exported(report, lines)
    finally:
        report.parent.chmod(0o755)
    assert {path.name for path in export.parent.iterdir()} >= {"export_pqtdir", "side.sqlite", "more", "most"}
    assert list(report.parent.iterdir()) == [report]
    assert report.read_bytes() == REPORT
