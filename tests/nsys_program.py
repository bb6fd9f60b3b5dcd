"""NVIDIA's own exporter for tests, where it can be had; and programs that pretend to be it."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.support import SHARED, scratch

NAMED = "NSYS_EVIDENCE_TEST_NSYS"
"""Environment variable with the path of an nsys that tests may run; without it one is fetched."""

VERSION = "2023.4.4.54-234433681190v0"


@cache
def _fetched() -> tuple[Path | None, str]:
    """The exporter, or why it cannot be had."""
    if named := os.environ.get(NAMED):
        return Path(named), ""
    script = SHARED / "tools" / "get_nsys.sh"
    if not script.exists():
        return None, "no ../shared beside the project, and NSYS_EVIDENCE_TEST_NSYS is not set"
    done = subprocess.run(["bash", str(script), str(scratch() / "nsys")], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, f"nsys could not be fetched: {done.stderr.strip().splitlines()[-1:]}"
    return Path(done.stdout.strip().splitlines()[-1]), ""


def real_nsys() -> Path:
    """NVIDIA's exporter, 2023.4.4; skips the test where it cannot be had."""
    found, why = _fetched()
    if found is None:
        pytest.skip(why)
    return found


def pretend_nsys(path: Path, export: str, version: str = VERSION) -> Path:
    """A program that answers `--version` and `export --help` as nsys does, and runs shell lines as its export.

    The lines find the name of the output in `$output`, and the report's path in `$report`.
    """
    path.write_text(
        f"""#!/bin/sh
[ "$1" = --version ] && {{ echo "NVIDIA Nsight Systems version {version}"; exit 0; }}
[ "$2" = --help ] && {{ echo "sqlite, parquetdir"; exit 0; }}
for word; do case "$word" in --output=*) output="${{word#--output=}}";; *) report="$word";; esac; done
{export}
"""
    )
    path.chmod(0o755)
    return path
