"""Checks of the place where this program runs. No directory of the machine is named."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...contracts.errors import EvidenceError
from ..call import Call
from .checks import Check, Standing

_PACKAGES = ("mcp", "duckdb", "pyarrow", "adbc-driver-sqlite")
"""The libraries whose versions decide what is read and how."""

_LITTLE_ROOM = 5 * 2**30
"""Free bytes below which an ingest of a large capture may fail."""


def environment_checks(call: Call[Any]) -> list[Check]:
    """Python, libraries, the exporter and the cache."""
    checks = [Check("python", Standing.OK, platform.python_version())]
    checks += [_package(name) for name in _PACKAGES]
    checks += [_nsys(call), _form(), *_cache(call)]
    return checks


def _package(name: str) -> Check:
    try:
        return Check(name, Standing.OK, version(name))
    except PackageNotFoundError:
        return Check(name, Standing.FAIL, note=f"pip does not know of it: pip install {name}")


def _nsys(call: Call[Any]) -> Check:
    try:
        found = call.workspace.library.nsys()
    except EvidenceError as error:
        return Check("nsys", Standing.WARN, note=f"{error.message}: reports cannot be read, exports can; {error.hint}")
    return Check("nsys", Standing.OK, found.version, note="it exports reports up to its own version")


def _form() -> Check:
    from ...ingest.nsys.export import FORM_VARIABLE, wished_form  # loads what registering the skill must not

    try:
        return Check("form of export", Standing.OK, wished_form(), note=f"what nsys is asked for; see {FORM_VARIABLE}")
    except EvidenceError as error:
        return Check("form of export", Standing.FAIL, note=f"{error.message}; {error.hint}")


def _cache(call: Call[Any]) -> list[Check]:
    cache = call.workspace.library.cache
    chosen = "NSYS_EVIDENCE_CACHE" if os.environ.get("NSYS_EVIDENCE_CACHE") else "the user's own"
    entries, free = cache.entries(), cache.free_bytes()
    return [
        Check("cache", Standing.OK, chosen)
        if cache.is_writable()
        else Check(
            "cache", Standing.FAIL, chosen, note="it cannot be written: set NSYS_EVIDENCE_CACHE to another place"
        ),
        Check("profiles in the cache", Standing.OK, count=len(entries), size_bytes=sum(e.size_bytes for e in entries)),
        Check("room on its disk", Standing.OK, size_bytes=free)
        if free >= _LITTLE_ROOM
        else Check("room on its disk", Standing.WARN, size_bytes=free, note="free some: nsys-evidence cache prune"),
    ]
