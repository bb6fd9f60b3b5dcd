"""What an nsys report (`.nsys-rep`, `.qdrep`) says of itself at its two ends, without nsys."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ...contracts.errors import ErrorCode, EvidenceError

REPORT_HEAD = b"NVIDIA Tegra Profiler Report"
"""The bytes that every report begins with."""

_REPORT_END = b"U3w[END]"
"""The bytes that every whole report ends with; nsys finds its table of sections by them and refuses a report else."""

_VERSION = re.compile(re.escape(REPORT_HEAD) + rb" (\d{4}(?:@\d+)+(?:-[0-9A-Za-z]+)?)\.")
_HEAD_BYTES = 128


def report_version(path: Path) -> str | None:
    """The version of the nsys that recorded a report, such as `2023.4.4.54-234433681190v0`.

    Returns:
        None where the report does not say: nsys up to 2022 wrote a constant `1` there.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        found = _VERSION.match(file.read(_HEAD_BYTES))
    return found.group(1).decode("ascii").replace("@", ".") if found else None


def check_whole(path: Path) -> None:
    """Refuse a report that lacks the mark at its end, as one does whose copy was cut off or that nsys never finished.

    Raises:
        EvidenceError: PROFILE_CORRUPT.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(_REPORT_END), 0))
        if file.read() == _REPORT_END:
            return
    raise EvidenceError(
        ErrorCode.PROFILE_CORRUPT,
        f"{path.name} is cut short: it lacks the mark that every nsys report ends with",
        "copy the report again from the machine that recorded it, or record it again",
    )
