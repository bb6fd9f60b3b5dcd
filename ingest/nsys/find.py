"""Which nsys to run: the one that was chosen, else the first that answers on PATH or where it is usually installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError
from .report import Version

_USUAL = (
    "/opt/nvidia/nsight-systems*/*/bin/nsys",
    "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/usr/lib/*/nsight-systems/target-linux-*/nsys",
    "/opt/nvidia/hpc_sdk/Linux_*/*/profilers/Nsight_Systems/bin/nsys",
    "/Applications/NVIDIA Nsight Systems.app/Contents/Resources/target-*/nsys",
)
"""Where NVIDIA's installers put it, as patterns."""

_VERSION = re.compile(r"\b(20[0-9]{2})\.([0-9]+)\.([0-9]+)")
_ANSWER_S = 20
"""Seconds in which `nsys --version` answers, also from a cold disk."""

INSTALL = (
    "install Nsight Systems (its command line is enough) or name it with --nsys or NSYS_EVIDENCE_NSYS; or, where there "
    "is one, run: nsys export --type sqlite REPORT.nsys-rep, and give the file that it writes"
)


@dataclass(frozen=True, slots=True)
class Nsys:
    """An nsys that answers: where it is, and its version."""

    path: Path
    version: Version


def find_nsys(chosen: Path | None = None) -> Nsys:
    """The nsys to run: `chosen`, else `NSYS_EVIDENCE_NSYS`, else on PATH, else the newest in the usual places.

    Raises:
        EvidenceError: NSYS_NOT_FOUND. One that was chosen and does not answer is never replaced by another.
    """
    named = chosen or (Path(name) if (name := os.environ.get("NSYS_EVIDENCE_NSYS")) else None)
    if named is not None:
        named = named.expanduser()
        found = answering(named / "nsys" if named.is_dir() else named)
        if found is None:
            raise EvidenceError(
                ErrorCode.NSYS_NOT_FOUND,
                f"{named.name}, which was chosen as nsys, does not answer nsys --version",
                "choose another with --nsys or NSYS_EVIDENCE_NSYS, or none to have it looked for",
            )
        return found
    on_path = shutil.which("nsys")
    if on_path and (found := answering(Path(on_path))):
        return found
    usual = sorted(_usual(), key=lambda path: ([int(n) for n in re.findall("[0-9]+", str(path))], str(path)))
    for path in reversed(usual):  # by the version in their names: the newest answers first
        if found := answering(path):
            return found
    raise EvidenceError(ErrorCode.NSYS_NOT_FOUND, "a report is read with nsys, and none was found", INSTALL)


def _usual() -> Iterator[Path]:
    root = Path("/")
    for pattern in _USUAL:
        yield from root.glob(pattern.lstrip("/"))


def answering(path: Path) -> Nsys | None:
    """The nsys at a path, when it runs and tells its version."""
    try:
        done = subprocess.run(
            [path.absolute(), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(done.stdout)
    return Nsys(path.absolute(), tuple(map(int, said.groups()))) if said and done.returncode == 0 else None
