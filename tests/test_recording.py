"""docs/recording.md has every hint that results give, with the same command, and no flag that nsys does not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nsys_evidence.tools.capture_hints import CAPTURE_HINTS, KIND_NAMES

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "recording.md").read_text(encoding="utf-8")

PROFILE_FLAGS = {
    *("--trace", "--cuda-graph-trace", "--sample", "--cpuctxsw", "--backtrace", "--delay", "--duration", "--env-var"),
    *("--capture-range", "--capture-range-end", "--nvtx-capture", "--osrt-threshold", "--osrt-backtrace-threshold"),
    *("--cuda-um-gpu-page-faults", "--cuda-memory-usage", "--cudabacktrace", "--help"),
}
"""What `nsys profile --help` of 2023.4.4 lists, of what is used here."""

OTHER_FLAGS = {
    *("--type", "--times"),  # nsys export of 2023.4.4
    "--environment",  # nsys status of 2023.4.4
    "--include-blobs",  # nsys export of 2026.2: EXPORT_PARAM_INCLUDE_BLOBS of its exports
    "--pytorch",  # not in 2023.4.4; from secondary sources
    "--gpu-metrics-device",  # 2023.4.4
    "--gpu-metrics-devices",  # newer versions
}


def section(kind: str) -> str:
    """The section of a kind of event."""
    found = re.search(rf"^## {kind}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/recording.md has no section {kind}"
    return found[1]


def commands(hint: str) -> list[str]:
    """The commands of a hint, each up to its "…"."""
    return [f"{command}…" for command in re.findall(r"nsys (?:profile|export) [^…;(]*", hint)]


@pytest.mark.parametrize("kind", CAPTURE_HINTS)
def test_every_capture_hint_is_a_section_with_the_same_command(kind: str) -> None:
    shown = [line for block in re.findall(r"```sh\n(.*?)```", section(kind), re.DOTALL) for line in block.splitlines()]
    found = commands(CAPTURE_HINTS[kind])
    assert found
    assert shown == found
    assert set(re.findall(r"--[a-z-]+", CAPTURE_HINTS[kind])) <= set(re.findall(r"--[a-z-]+", section(kind)))


def test_every_kind_of_event_has_a_hint() -> None:
    assert set(CAPTURE_HINTS) == set(KIND_NAMES)


def test_no_flag_is_shown_that_nsys_does_not_have() -> None:
    known = PROFILE_FLAGS | OTHER_FLAGS
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known
    for hint in CAPTURE_HINTS.values():
        assert set(re.findall(r"--[a-z-]+", hint)) <= known
