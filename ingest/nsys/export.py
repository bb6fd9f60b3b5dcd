"""From a report to a form that is read: `nsys export`, and what can go wrong with it as coded errors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, get_args

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.wire import clean_text
from ..interrupt import Interrupt
from .find import NSYS_VARIABLE, Nsys, export_elsewhere
from .process import Ended, run
from .report import check_whole, report_version
from .version import is_newer, version_numbers
from .whole import flaw_of_parquetdir, flaw_of_sqlite

FORM_VARIABLE = "NSYS_EVIDENCE_INGEST"

BASE_DEADLINE_S = 300.0
"""How long an export may take whatever the size, in seconds."""

DEADLINE_S_PER_MIB = 5.0
"""How much longer for each MiB of the report, in seconds; nsys writes several MiB of a report a second."""

_HELP_DEADLINE_S = 20.0
_BLOBS = "--include-blobs"
_NEWER = "newer than your current version"
_NO_SPACE = "No space left on device"
_PATH = re.compile(r"(?<![\w.])/(?:[^\s'\"()<>,;]*/)?")
_LINE = re.compile(r"[\r\n]+")
_SAID = 300

Exported = Literal["sqlite", "parquetdir"]
Wish = Literal["auto", "sqlite", "parquetdir"]


def export_report(report: Path, into: Path, nsys: Nsys, interrupt: Interrupt, deadline_s: float | None = None) -> Path:
    """Export a report with nsys: to a directory of Parquet files where that nsys knows the form, else to SQLite.

    With the bytes of NVTX payloads where that nsys leaves them out unless it is asked for them: NCCL's are among them.
    `NSYS_EVIDENCE_INGEST` (`auto`, `sqlite` or `parquetdir`) says otherwise. Nothing is written outside `into`.

    Args:
        report: a `.nsys-rep` or `.qdrep` file.
        into: an existing, empty directory; the caller removes it, whatever comes of the export.
        nsys: the nsys to run.
        interrupt: stops the export; nsys and all it started are then dead.
        deadline_s: how long the export may take, in seconds; None for one that grows with the report.

    Returns:
        `into`/export.sqlite or `into`/export_pqtdir.

    Raises:
        EvidenceError: NSYS_TOO_OLD, NSYS_FAILED, NSYS_NOT_FOUND (it went away), PROFILE_CORRUPT (the report is cut
            short), DISK_FULL, INVALID_ARGUMENT (the variable), or what the interrupt was set with.
        OSError: the report cannot be read.
    """
    wish = wished_form()
    recorded = report_version(report)
    if recorded and is_newer(version_numbers(recorded), nsys.numbers):
        raise _too_old(report, nsys, recorded)
    check_whole(report)
    report, into = report.absolute(), into.absolute()
    known = _run(["export", "--help"], None, into, nsys, _HELP_DEADLINE_S, interrupt)
    form = _form(wish, report, nsys, known)
    name, flaw_of = {
        "sqlite": ("export.sqlite", flaw_of_sqlite),
        "parquetdir": ("export_pqtdir", flaw_of_parquetdir),
    }[form]
    # The output is named relative to the working directory: newer versions expand `%` in it.
    command = ["export", f"--type={form}", f"--output={name}", *_blobs(known), str(report)]
    limit_s = _deadline_s(report) if deadline_s is None else deadline_s
    ended = _run(command, report, into, nsys, limit_s, interrupt)
    if ended.code is None:
        raise export_failed(report, f"nsys did not end within {limit_s:g} s and was stopped")
    if ended.code:
        raise _refusal(report, into, nsys, ended)
    if flaw := flaw_of(into / name):
        raise export_failed(report, f"nsys said it was done, but {flaw}")
    return into / name


def wished_form() -> Wish:
    """Which export to ask nsys for, by `NSYS_EVIDENCE_INGEST`; `auto` when it is not set.

    Raises:
        EvidenceError: INVALID_ARGUMENT for any other value.
    """
    named = os.environ.get(FORM_VARIABLE) or "auto"
    for wish in get_args(Wish):
        if named == wish:
            return wish  # type: ignore[no-any-return]
    raise EvidenceError(
        ErrorCode.INVALID_ARGUMENT,
        f"{FORM_VARIABLE} is set to something else than one of {', '.join(get_args(Wish))}",
        f"unset {FORM_VARIABLE}, or set it to auto",
    )


def _form(wish: Wish, report: Path, nsys: Nsys, known: Ended) -> Exported:
    """The form to ask for, by what is wished and what this nsys says that it knows."""
    if wish == "sqlite":
        return "sqlite"
    if "parquetdir" in known.output:
        return "parquetdir"
    if wish == "auto":
        return "sqlite"
    if known.code != 0:
        raise export_failed(report, f"nsys {nsys.version} does not answer export --help")
    raise EvidenceError(
        ErrorCode.NSYS_TOO_OLD,
        f"nsys {nsys.version} does not export to parquetdir, which {FORM_VARIABLE} demands",
        f"unset {FORM_VARIABLE}, or name a newer nsys with --nsys or {NSYS_VARIABLE}",
        nsys_version=nsys.version,
    )


def _blobs(known: Ended) -> list[str]:
    """The option that keeps the bytes of payloads; none for an nsys that does not say that it knows it."""
    return [f"{_BLOBS}=true"] if _BLOBS in known.output else []


def _run(
    arguments: list[str], report: Path | None, into: Path, nsys: Nsys, deadline_s: float, interrupt: Interrupt
) -> Ended:
    try:
        return run([str(nsys.path), *arguments], into, deadline_s, interrupt)
    except OSError as error:
        raise EvidenceError(
            ErrorCode.NSYS_NOT_FOUND,
            f"nsys {nsys.version} could not be started: {error.strerror or 'it is not there'}",
            f"install it again, or export the report elsewhere and give the .sqlite: {export_elsewhere(report)}",
        ) from None


def _deadline_s(report: Path) -> float:
    return BASE_DEADLINE_S + DEADLINE_S_PER_MIB * report.stat().st_size / 2**20


def _refusal(report: Path, into: Path, nsys: Nsys, ended: Ended) -> EvidenceError:
    """The error for an nsys that ended badly, by what it said."""
    if _NEWER in ended.output:
        return _too_old(report, nsys, report_version(report))
    if _NO_SPACE in ended.output:
        return EvidenceError(
            ErrorCode.DISK_FULL,
            f"the disk filled up while nsys exported {report.name}",
            "free space with: nsys-evidence cache prune, or set NSYS_EVIDENCE_CACHE to a directory with room",
        )
    how = f"with exit status {ended.code}" if ended.code and ended.code > 0 else f"by signal {-(ended.code or 0)}"
    said = _said(ended.output, report, into, nsys)
    return export_failed(report, f"nsys {nsys.version} ended {how}" + (f": {said}" if said else " and said nothing"))


def _said(output: str, report: Path, into: Path, nsys: Nsys) -> str:
    """The last line that names an error, else the last line, with no directory of this machine in it."""
    lines = [clean_text(line).strip() for line in _LINE.split(output)]
    lines = [line for line in lines if line]
    said = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
    for directory in sorted({report.parent, into, nsys.path.parent}, key=lambda path: -len(str(path))):
        said = said.replace(f"{directory}{os.sep}", "").replace(str(directory), directory.name)
    return clean_text(_PATH.sub("", said), limit=_SAID)


def export_failed(report: Path, why: str) -> EvidenceError:
    """The error for an export that went wrong."""
    return EvidenceError(
        ErrorCode.NSYS_FAILED,
        f"{report.name} could not be exported: {why}",
        "copy the report again from where it was recorded; or export it there and give the .sqlite: "
        f"{export_elsewhere(report)}",
    )


def _too_old(report: Path, nsys: Nsys, recorded: str | None) -> EvidenceError:
    by = f"nsys {recorded}" if recorded else "an nsys"
    numbers = version_numbers(recorded or "")
    needed = f"{'.'.join(map(str, numbers[:2]))} or newer" if numbers else "of a newer version"
    return EvidenceError(
        ErrorCode.NSYS_TOO_OLD,
        f"{report.name} was recorded by {by}, newer than the nsys here, {nsys.version}",
        f"install NVIDIA Nsight Systems {needed} and name its nsys with --nsys or {NSYS_VARIABLE}; or export the "
        f"report where it was recorded and give the .sqlite: {export_elsewhere(report)}",
        report_version=recorded,
        nsys_version=nsys.version,
    )
