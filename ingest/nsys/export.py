"""Running `nsys export`: in a directory of its own, without a terminal, with a deadline, and ended as a whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.wire import clean_text
from ..interrupt import Interrupt
from .find import INSTALL, Nsys
from .report import is_cut_short, report_version, shown

FORMS = ("auto", "sqlite", "parquetdir")
"""Values of `NSYS_EVIDENCE_INGEST`: which export nsys is asked for; auto is parquetdir where that nsys knows it."""

_LEAST_S, _BYTES_PER_S = 300.0, 1_000_000
"""The deadline: five minutes, and a second more for each MB of the report. nsys 2023.4 exports more than ten times
as much in that time; what takes longer hangs."""

_POLL_S = 0.05
_TAIL = 4096
"""Bytes of what nsys says that are kept for the error."""

_PATH = re.compile(r"\S*/")
_AGAIN = "copy the report again from the machine on which it was recorded, and try: nsys export --type sqlite {name}"


def export_report(report: Path, into: Path, nsys: Nsys, interrupt: Interrupt, deadline_s: float | None = None) -> Path:
    """Export a report into an empty directory, and return the export: an SQLite file, or a directory of Parquet files.

    Nothing is written anywhere else. nsys gets no input, and is ended, with all that it started, when the deadline
    passes or the call is stopped.

    Args:
        deadline_s: seconds; None for some minutes, more for large reports.

    Raises:
        EvidenceError: PROFILE_CORRUPT for a report without its end; NSYS_TOO_OLD for one that is newer than nsys, or a
            form that this nsys does not know; NSYS_FAILED when it fails, hangs or writes nothing; INVALID_ARGUMENT for
            an `NSYS_EVIDENCE_INGEST` that is none of `FORMS`; CANCELLED or TIMEOUT when the call was stopped.
        OSError: when the report cannot be read or the directory cannot be written.
    """
    if is_cut_short(report):
        raise EvidenceError(
            ErrorCode.PROFILE_CORRUPT,
            f"{report.name} is cut short: it does not end as a report does",
            _AGAIN.format(name=report.name),
        )
    written_by = report_version(report)
    if written_by is not None and written_by > nsys.version:
        raise _too_old(report, nsys, shown(written_by))
    form = _form(nsys, into, interrupt)
    target = into / ("export.sqlite" if form == "sqlite" else "export")
    deadline_s = deadline_s or _LEAST_S + report.stat().st_size / _BYTES_PER_S
    arguments = ["export", "--type", form, "--quiet", "true", "--output", str(target), str(report.absolute())]
    code, said = _run(nsys, arguments, into, interrupt, deadline_s)
    if code is None:
        raise EvidenceError(
            ErrorCode.NSYS_FAILED,
            f"nsys export of {report.name} did not end within {deadline_s:.0f} s, and was ended",
            f"run it yourself, and give the file that it writes: nsys export --type sqlite {report.name}",
        )
    if "newer than your current version" in said:
        raise _too_old(report, nsys, None)
    if code != 0 or not _is_written(target):
        words = f" and said: {_said(said)}" if _said(said) else ""
        how = f"failed (exit {code})" if code else "ended well but wrote no whole export"
        raise EvidenceError(
            ErrorCode.NSYS_FAILED,
            f"nsys {shown(nsys.version)} export of {report.name} {how}{words}",
            _AGAIN.format(name=report.name),
        )
    return target


def _form(nsys: Nsys, into: Path, interrupt: Interrupt) -> str:
    asked = os.environ.get("NSYS_EVIDENCE_INGEST") or "auto"
    if asked not in FORMS:
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            "NSYS_EVIDENCE_INGEST is set to something that is no form of export",
            f"set it to one of {', '.join(FORMS)}, or leave it unset",
        )
    if asked == "sqlite":
        return asked
    _, said = _run(nsys, ["export", "--help"], into, interrupt, _LEAST_S)
    if "parquetdir" in said:
        return "parquetdir"
    if asked == "parquetdir":
        raise EvidenceError(
            ErrorCode.NSYS_TOO_OLD,
            f"nsys {shown(nsys.version)} cannot export to parquetdir, which NSYS_EVIDENCE_INGEST asks for",
            "set NSYS_EVIDENCE_INGEST=sqlite, or install nsys 2023.1 or newer and name it with --nsys",
        )
    return "sqlite"


def _run(
    nsys: Nsys, arguments: list[str], into: Path, interrupt: Interrupt, deadline_s: float
) -> tuple[int | None, str]:
    """Run nsys, and return its exit code, None when the deadline passed, and what it said."""
    said = into / "said"
    with said.open("w+b") as output:
        process = subprocess.Popen(
            [nsys.path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=into,
            env={**os.environ, "TMPDIR": str(into)},
            start_new_session=True,  # a group of its own, so that what it starts ends with it
        )
        try:
            code = _wait(process, interrupt, deadline_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        size = output.seek(0, 2)
        output.seek(0 if "--help" in arguments else max(0, size - _TAIL))
        text = output.read().decode("utf-8", "replace")
    said.unlink()
    return code, text


def _wait(process: subprocess.Popen[bytes], interrupt: Interrupt, deadline_s: float) -> int | None:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        interrupt.check()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_S)
    return None


def _is_written(target: Path) -> bool:
    """Whether the export has what every export has; its content is looked at when it is read."""
    if target.suffix == ".sqlite":
        return target.is_file() and target.stat().st_size > 0
    return (target / "StringIds.parquet").is_file()


def _said(text: str) -> str:
    """The last line that nsys said, without the places of this machine."""
    lines = [line for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return clean_text(_PATH.sub("", lines[-1]).strip(), limit=200) if lines else ""


def _too_old(report: Path, nsys: Nsys, written_by: str | None) -> EvidenceError:
    by = f"by nsys {written_by}" if written_by else "by a newer one"
    return EvidenceError(
        ErrorCode.NSYS_TOO_OLD,
        f"{report.name} was written {by}, and the nsys here is {shown(nsys.version)}, which reads older reports only",
        INSTALL,
    )
