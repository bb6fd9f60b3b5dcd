"""Which nsys is taken: a chosen one or none, else that of PATH, else the newest that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.nsys import find
from nsys_evidence.ingest.nsys.find import NSYS_VARIABLE, find_nsys
from nsys_evidence.ingest.nsys.report import report_version
from nsys_evidence.ingest.nsys.version import version_numbers
from tests.nsys_program import pretend_nsys
from tests.support import SHARED, needs_shared


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any nsys."""
    monkeypatch.delenv(NSYS_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(find, "INSTALL_PLACES", (f"{tmp_path}/opt/*/bin/nsys",))


def program(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return pretend_nsys(path, "exit 0", version)


def report_of(path: Path, version: str) -> Path:
    path.write_bytes(f"NVIDIA Tegra Profiler Report {version.replace('.', '@')}.\n U3w[END]".encode())
    return path


def refusal(chosen: Path | None = None, deadline_s: float = 20) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        find_nsys(chosen, deadline_s=deadline_s)
    assert caught.value.code is ErrorCode.NSYS_NOT_FOUND
    assert "nsys export --type=sqlite" in caught.value.hint
    return caught.value


def test_the_chosen_one_comes_before_that_of_the_variable_before_that_of_path_before_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = program(tmp_path / "chosen", "2020.3.1")
    named = program(tmp_path / "named", "2021.1.1")
    on_path = program(tmp_path / "bin" / "nsys", "2022.1.1")
    installed = program(tmp_path / "opt" / "2023.1.1" / "bin" / "nsys", "2023.1.1")
    monkeypatch.setenv(NSYS_VARIABLE, str(named))
    assert find_nsys(chosen).path == chosen
    assert find_nsys().path == named
    monkeypatch.delenv(NSYS_VARIABLE)
    assert find_nsys().path == on_path
    on_path.unlink()
    assert find_nsys().path == installed


def test_of_installed_ones_the_newest_is_taken_by_number_and_not_by_letter(tmp_path: Path) -> None:
    for version in ("2024.9.1", "2024.10.1", "2023.11.12"):
        program(tmp_path / "opt" / version / "bin" / "nsys", version)
    assert find_nsys().version == "2024.10.1"


def test_one_that_is_merely_there_gives_way_to_a_newer_one_where_the_report_needs_it(tmp_path: Path) -> None:
    report = report_of(tmp_path / "run.nsys-rep", "2023.4.4.54-1v0")
    old = program(tmp_path / "bin" / "nsys", "2022.4.2.1")
    assert find_nsys(report=report).path == old
    new = program(tmp_path / "opt" / "2024.1.1" / "bin" / "nsys", "2024.1.1")
    assert find_nsys(report=report).path == new
    assert find_nsys(old, report).path == old


@pytest.mark.parametrize("how", ["option", "variable"])
@pytest.mark.parametrize("fault", ["absent", "may not be executed", "fails", "says nothing", "hangs"])
def test_a_chosen_one_that_does_not_run_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, fault: str
) -> None:
    program(tmp_path / "bin" / "nsys", "2024.1.1")
    chosen = tmp_path / "place" / "my-nsys"
    lines = {"fails": "exit 1", "says nothing": "exit 0", "hangs": "exec /bin/sleep 1000"}.get(fault, "exit 0")
    if fault != "absent":
        chosen.parent.mkdir()
        chosen.write_text(f"#!/bin/sh\n{lines}\n")
        chosen.chmod(0o644 if fault == "may not be executed" else 0o755)
    if how == "variable":
        monkeypatch.setenv(NSYS_VARIABLE, str(chosen))
    said = refusal(chosen if how == "option" else None, deadline_s=0.1 if fault == "hangs" else 20).to_json()
    assert "my-nsys" in said
    assert ("--nsys names" if how == "option" else f"{NSYS_VARIABLE} names") in said
    assert str(tmp_path) not in said


def test_an_installed_one_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "opt" / "2030.1.1" / "bin" / "nsys"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    refusal()
    works = program(tmp_path / "opt" / "2024.1.1" / "bin" / "nsys", "2024.1.1")
    assert find_nsys().path == works


def test_versions_are_compared_as_numbers() -> None:
    assert version_numbers("2023.4.4.54-234433681190v0") == (2023, 4, 4, 54)
    assert version_numbers("2024.10.1") > version_numbers("2024.9.3")
    assert version_numbers("dev") == ()


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"NVIDIA",
        b"NVIDIA Tegra Profiler Report 1.\n",
        b"NVIDIA Tegra Profiler Report 2023@.\n",
        b"NVIDIA Tegra Profiler Report 2023@4@4",
        b"NVIDIA Tegra Profiler Report " + b"2023@4" * 50,
        b"\xff" * 200,
    ],
)
def test_a_report_that_does_not_say_its_version_has_none(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(head)
    assert report_version(path) is None


@needs_shared
def test_real_reports_say_their_version_since_2023() -> None:
    found = {path.name: report_version(path) for path in (SHARED / "captures").glob("*.nsys-rep")}
    assert found == {
        "cpu_nvtx_osrt-2022.4.2.nsys-rep": None,
        "cpu_nvtx_osrt-2023.4.4.nsys-rep": "2023.4.4.54-234433681190v0",
    }
