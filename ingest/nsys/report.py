"""What a report says of itself without the exporter: the nsys that wrote it, and whether it has its end."""

from __future__ import annotations

import re
from pathlib import Path

MAGIC = b"NVIDIA Tegra Profiler Report "
_VERSION = re.compile(rb"([0-9]{4})@([0-9]{1,3})@([0-9]{1,3})[@\-.0-9a-z]*\n")
_END = b"[END]"

Version = tuple[int, ...]
"""Year, number and patch of a version of Nsight Systems, compared as numbers."""


def report_version(path: Path) -> Version | None:
    """The version of the nsys that wrote a report, from its first line (`2023@4@4@54-…`).

    None for reports of 2022 and before, whose first line has the number of their format alone. Raises OSError.
    """
    with path.open("rb") as file:
        head = file.read(200)
    found = _VERSION.match(head, len(MAGIC)) if head.startswith(MAGIC) else None
    return tuple(int(part) for part in found.groups()) if found else None


def is_cut_short(path: Path) -> bool:
    """Whether the mark is missing that ends every report. Raises OSError."""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - len(_END)))
        return file.read() != _END


def shown(version: Version) -> str:
    """A version as nsys writes it: 2023.4.4."""
    return ".".join(map(str, version))
