"""Which nsys there is on this machine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from ..interrupt import Interrupt
from .process import run
from .report import report_version
from .version import is_newer, version_numbers

NSYS_VARIABLE = "NSYS_EVIDENCE_NSYS"

INSTALL_PLACES = (
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/target-linux-*/nsys",
    "/opt/nvidia/hpc_sdk/*/*/profilers/Nsight_Systems/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/lib/nsight-systems/*/nsys",
    "/usr/lib/*-linux-gnu/nsight-systems/*/nsys",
)
"""Where NVIDIA's packages, the CUDA toolkit, the HPC SDK and Debian put nsys."""

VERSION_DEADLINE_S = 20.0
"""How long `nsys --version` may take, in seconds: a cold start from a network file system takes several."""

_VERSION = re.compile(r"\bversion (\d+(?:\.\d+)+\S*)")


@dataclass(frozen=True)
class Nsys:
    """An nsys that runs.

    Attributes:
        path: absolute path of the executable.
        version: version as it says it, such as `2023.4.4.54-234433681190v0`.
        numbers: the version's numbers, such as (2023, 4, 4, 54).
    """

    path: Path
    version: str
    numbers: tuple[int, ...]


def find_nsys(
    chosen: Path | None = None,
    report: Path | None = None,
    interrupt: Interrupt | None = None,
    *,
    deadline_s: float = VERSION_DEADLINE_S,
) -> Nsys:
    """The nsys to use: the chosen one, else that of `NSYS_EVIDENCE_NSYS`, of PATH, or the newest installed one.

    A chosen one is never replaced. Of those that are merely there, one that is older than the report is passed over
    where a newer one is installed.

    Args:
        chosen: path of an nsys executable; the variable may hold a name too, which is looked for on PATH.
        report: the report that it is to export; its version guides the choice, its name stands in the hint.
        interrupt: stops the search.
        deadline_s: how long each nsys may take to tell its version, in seconds.

    Raises:
        EvidenceError: NSYS_NOT_FOUND: there is none, or the chosen one does not exist or does not run; or what the
            interrupt was set with.
        OSError: the report cannot be read.
    """
    asked = _Asked(interrupt or Interrupt(), deadline_s)
    if chosen is not None:  # a path also without a slash
        path = os.path.abspath(os.path.expanduser(chosen))
        return _chosen(path, "the nsys that --nsys names", report, asked)
    if named := os.environ.get(NSYS_VARIABLE):
        return _chosen(os.path.expanduser(named), f"the nsys that {NSYS_VARIABLE} names", report, asked)
    needed = version_numbers((report_version(report) if report else None) or "")
    seen: list[Nsys] = []
    for nsys in _present(asked):
        if not is_newer(needed, nsys.numbers):
            return nsys
        seen.append(nsys)
    if seen:
        return max(seen, key=lambda nsys: nsys.numbers)
    raise EvidenceError(ErrorCode.NSYS_NOT_FOUND, "no nsys is installed where it is usually found", _hint(report))


def export_elsewhere(report: Path | None) -> str:
    """The command that exports a report on a machine that has an nsys for it."""
    source = report.name if report else "REPORT.nsys-rep"
    return shlex.join(["nsys", "export", "--type=sqlite", f"--output={Path(source).stem}.sqlite", source])


def _hint(report: Path | None) -> str:
    return (
        f"install NVIDIA Nsight Systems, or name its nsys with --nsys or {NSYS_VARIABLE}; or export the report where "
        f"there is one and give the .sqlite: {export_elsewhere(report)}"
    )


@dataclass(frozen=True)
class _Asked:
    """How each nsys is asked for its version."""

    interrupt: Interrupt
    deadline_s: float


def _chosen(named: str, what: str, report: Path | None, asked: _Asked) -> Nsys:
    path = shutil.which(named)
    nsys = _running(path, asked) if path else None
    if nsys is None:
        why = "does not answer --version as nsys does" if path else "does not exist or may not be executed"
        raise EvidenceError(ErrorCode.NSYS_NOT_FOUND, f"{what}, {Path(named).name}, {why}", _hint(report))
    return nsys


def _present(asked: _Asked) -> Iterator[Nsys]:
    """The nsys of PATH, then the installed ones, newest first."""
    first = shutil.which("nsys")
    if first and (nsys := _running(first, asked)):
        yield nsys
    installed = sorted({path for place in INSTALL_PLACES for path in glob(place) if os.access(path, os.X_OK)})
    running = [nsys for path in installed if (nsys := _running(path, asked))]
    yield from sorted(running, key=lambda nsys: nsys.numbers, reverse=True)


def _running(path: str, asked: _Asked) -> Nsys | None:
    """The nsys at a path if it tells its version."""
    path = os.path.abspath(path)
    try:
        with tempfile.TemporaryDirectory() as place:
            ended = run([path, "--version"], Path(place), asked.deadline_s, asked.interrupt)
    except OSError:
        return None
    found = _VERSION.search(ended.output) if ended.code == 0 else None
    return Nsys(Path(path), found.group(1), version_numbers(found.group(1))) if found else None
