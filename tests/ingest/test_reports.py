"""A report is a capture like its exports: nsys runs once, out of sight, and what goes wrong with it is said."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import write_sqlite
from tests.ingest.caching import SMALL, opened, whole
from tests.ingest.test_forms import answers
from tests.nsys_program import pretend_nsys, real_nsys
from tests.parquet_export import write_parquetdir
from tests.support import SHARED, needs_shared

REPORT = b"NVIDIA Tegra Profiler Report %s.\n some sections U3w[END]"
CAPTURES = SHARED / "captures"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Something that begins and ends as a report of 2023 does."""
    path = tmp_path / "place" / "run.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(REPORT % b"2023@4@4@54-234433681190v0")
    return path


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """What a pretended nsys exports."""
    return write_sqlite(SMALL, tmp_path / "export.sqlite")


def copying(export: Path) -> str:
    return f'cp "{export}" "$output"'


@needs_shared
@pytest.mark.parametrize("form", ["sqlite", "parquetdir", "auto"])
def test_a_real_report_gives_the_same_answers_as_its_exports(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", form)
    report = CAPTURES / "cpu_nvtx_osrt-2023.4.4.nsys-rep"
    library = Library(cache=tmp_path / "cache", nsys=real_nsys())
    expected = answers(library, report.with_suffix(".sqlite"))
    assert answers(library, report.with_suffix(".parquetdir")) == expected
    assert answers(library, report) == expected
    ids = {library.open(str(report.with_suffix(suffix))).id for suffix in (".nsys-rep", ".sqlite", ".parquetdir")}
    assert len(ids) == 1


@needs_shared
@pytest.mark.parametrize("form", ["sqlite", "parquetdir"])
def test_a_real_export_with_tables_of_what_was_not_traced_gives_the_same_answers(form: str, tmp_path: Path) -> None:
    report, export = CAPTURES / "cpu_nvtx_osrt-2023.4.4.nsys-rep", tmp_path / "export"
    command = [real_nsys(), "export", f"--type={form}", "--lazy=false", "--quiet=true", f"--output={export}", report]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    library = Library(cache=tmp_path / "cache")
    tables = {table.table for table in library.open(str(export)).source.tables}
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in tables
    assert answers(library, export) == answers(library, report.with_suffix(".sqlite"))


@needs_shared
def test_a_real_report_of_an_older_nsys_is_read_and_where_it_lies_nothing_changes(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    report = place / "run 7 %p.bin"  # known by its content
    shutil.copyfile(CAPTURES / "cpu_nvtx_osrt-2022.4.2.nsys-rep", report)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in (place, report)}
    cache = tmp_path / "cache"
    profile, steps = opened(Library(cache=cache, nsys=real_nsys()), report)
    assert (profile.manifest.rows["nvtx_ranges"] > 100, steps > 5) == (True, True)
    assert (profile.source.form, profile.source.size_bytes) == ("nsys-rep", report.stat().st_size)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in before} == before
    assert list(place.iterdir()) == [report]
    assert whole(cache)


def test_a_report_is_exported_once_and_known_again_without_nsys(
    report: Path, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "sqlite")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    cache = tmp_path / "cache"
    said: list[str] = []
    nsys = pretend_nsys(tmp_path / "nsys", copying(export))
    library = Library(cache=cache, nsys=nsys)
    profile = library.open(str(report), progress=lambda share, words: said.append(words))
    assert said[0] == "exporting with nsys 2023.4.4.54-234433681190v0"
    assert profile.id == library.open(str(export)).id
    nsys.unlink()
    assert opened(Library(cache=cache), report)[1] == 0
    assert whole(cache)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("exit 3", ErrorCode.NSYS_FAILED),
        ("echo 'Exportation error: odd' >&2; exit 1", ErrorCode.NSYS_FAILED),
        ("exit 0", ErrorCode.NSYS_FAILED),
        ('head -c 5000 "{export}" > "$output"', ErrorCode.NSYS_FAILED),
        ('echo text > "$output"', ErrorCode.NSYS_FAILED),
        ("kill -9 $$", ErrorCode.NSYS_FAILED),
        ('mkfifo "$output"', ErrorCode.NSYS_FAILED),
        ("echo 'Report was created in a version newer than your current version'; exit 1", ErrorCode.NSYS_TOO_OLD),
        ('cp "{export}" "$output"; touch -d 2001-01-01 "$report"', ErrorCode.PROFILE_IN_USE),
    ],
)
def test_an_export_that_goes_wrong_is_said_and_leaves_nothing(
    report: Path, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, code: ErrorCode
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "sqlite")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    cache = tmp_path / "cache"
    nsys = pretend_nsys(tmp_path / "nsys", "echo token $SECRET_TOKEN; " + lines.replace("{export}", str(export)))
    with pytest.raises(EvidenceError) as caught:
        Library(cache=cache, nsys=nsys).open(str(report))
    said = caught.value.to_json()
    assert caught.value.code is code, said
    assert len(caught.value.hint) > 20
    assert "hunter2" not in said
    assert str(tmp_path) not in said
    assert whole(cache)
    working = Library(cache=cache, nsys=pretend_nsys(tmp_path / "nsys", copying(export)))
    assert working.open(str(report)).manifest.rows["kernels"] == 1


def test_an_export_with_damage_inside_is_nsys_failure_and_not_the_readers_file(
    report: Path, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "parquetdir")
    parquet = write_parquetdir(export, tmp_path / "parquet")
    table = parquet / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    content = table.read_bytes()
    table.write_bytes(content[:4] + b"\xff" * (len(content) - 8) + content[-4:])
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache", nsys=pretend_nsys(tmp_path / "nsys", f'cp -r "{parquet}" "$output"')).open(
            str(report)
        )
    assert caught.value.code is ErrorCode.NSYS_FAILED
    assert caught.value.message.startswith("run.nsys-rep could not be exported")
    assert table.name in caught.value.message
    assert "copy the directory again" not in caught.value.hint


def test_a_report_that_is_newer_than_nsys_is_said_before_nsys_runs(tmp_path: Path) -> None:
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(REPORT % b"2031@2@1@7-3v0")
    ran = tmp_path / "ran"
    nsys = pretend_nsys(tmp_path / "nsys", f"touch {ran}")
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache", nsys=nsys).open(str(report))
    assert caught.value.code is ErrorCode.NSYS_TOO_OLD
    assert "2031.2.1.7" in caught.value.message
    assert "2023.4.4.54" in caught.value.message
    assert "run.nsys-rep" in caught.value.hint
    assert not ran.exists()


def test_a_report_that_is_cut_short_is_damaged_with_and_without_nsys(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report.write_bytes(report.read_bytes()[:-1])
    monkeypatch.setenv("PATH", "")
    for nsys in (None, pretend_nsys(tmp_path / "nsys", "exit 0")):
        with pytest.raises(EvidenceError) as caught:
            Library(cache=tmp_path / "cache", nsys=nsys).open(str(report))
        assert caught.value.code is ErrorCode.PROFILE_CORRUPT
        assert "cut short" in caught.value.message


def test_without_nsys_a_report_names_what_to_do(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("nsys_evidence.ingest.nsys.find.INSTALL_PLACES", ())
    monkeypatch.delenv("NSYS_EVIDENCE_NSYS", raising=False)
    for chosen in (None, tmp_path / "absent"):
        with pytest.raises(EvidenceError) as caught:
            Library(cache=tmp_path / "cache", nsys=chosen).open(str(report))
        assert caught.value.code is ErrorCode.NSYS_NOT_FOUND
        assert "nsys export --type=sqlite" in caught.value.hint
        assert "run.nsys-rep" in caught.value.hint


def test_a_call_that_is_stopped_ends_nsys_and_all_that_it_started(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "sqlite")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # A child of nsys's own holds the other end of the pipe for as long as it lives.
    nsys = pretend_nsys(tmp_path / "nsys", f"(echo begun; exec sleep 1000) > {fifo} & wait")
    interrupt = Interrupt()
    caught: list[EvidenceError] = []

    def ask() -> None:
        try:
            Library(cache=tmp_path / "cache", nsys=nsys).open(str(report), interrupt)
        except EvidenceError as error:
            caught.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    with fifo.open() as other_end:
        assert other_end.readline() == "begun\n"
        interrupt.set()
        assert other_end.read() == ""  # the end of the file: nobody holds the pipe any more
    thread.join()
    assert [error.code for error in caught] == [ErrorCode.CANCELLED]
    assert whole(tmp_path / "cache")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_when_the_process_is_killed_nsys_and_all_that_it_started_ends_with_it(
    report: Path, tmp_path: Path, number: signal.Signals
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    nsys = pretend_nsys(tmp_path / "nsys", f"(echo begun; exec sleep 1000) > {fifo} & wait")
    process = subprocess.Popen(
        [sys.executable, "-m", "nsys_evidence.server", "ingest", str(report), "--nsys", str(nsys)],
        env={**os.environ, "NSYS_EVIDENCE_CACHE": str(tmp_path / "cache"), "NSYS_EVIDENCE_INGEST": "sqlite"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with fifo.open() as other_end:
        assert other_end.readline() == "begun\n"
        process.send_signal(number)
        assert other_end.read() == ""  # the end of the file: nobody holds the pipe any more
    assert process.wait() == -number


def test_a_pipe_among_what_nsys_wrote_is_not_waited_for(
    report: Path, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "parquetdir")
    parquet = write_parquetdir(export, tmp_path / "parquet")
    lines = f'cp -r "{parquet}" "$output"; rm "$output/NVTX_EVENTS.parquet"; mkfifo "$output/NVTX_EVENTS.parquet"'
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache", nsys=pretend_nsys(tmp_path / "nsys", lines)).open(str(report))
    assert caught.value.code is ErrorCode.NSYS_FAILED
