"""What NVIDIA's own `nsys stats` says of the real captures, and our results in full, shown and exact."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.window import Window
from nsys_evidence.tools.call import Call
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.result import Result
from tests.support import SHARED, ask, rows_of, workspace

Report = list[dict[str, str]]
"""The rows of an oracle file."""


def with_reports(name: str) -> pytest.MarkDecorator:
    """Run the test with (capture, report) for every capture that has this report."""
    files = sorted((SHARED / "oracle").glob(f"*/{name}.csv")) if SHARED.is_dir() else []
    cases = [
        pytest.param(SHARED / "captures" / f"{file.parent.name}.sqlite", _read(file), id=file.parent.name)
        for file in files
    ]
    return pytest.mark.parametrize(("capture", "report"), cases)


def _read(file: Path) -> Report:
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def walk(name: str, capture: Path, **arguments: object) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All rows of a skill, page by page, and the full text of each label in them."""
    rows: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    offset: int | None = 0
    while offset is not None:
        envelope = ask(name, capture, **{**arguments, "max_rows": 200, "offset": offset})  # type: ignore[arg-type]
        kept = workspace().ledger.get(envelope["evidence"])
        assert kept is not None
        names |= kept[1]
        rows += rows_of(envelope)
        offset = envelope["truncation"] and envelope["truncation"]["next_offset"]
    return rows, names


def exact(name: str, capture: Path, window: Window | None = None, **params: object) -> Result:
    """The result of a skill before rounding and cutting: all rows, all devices, by default in the GPU window."""
    skill = all_skills()[name]
    profile = workspace().library.open(str(capture))
    call: Call[Any] = Call(
        params=skill.params.model_validate(params),
        workspace=workspace(),
        opened=profile,
        scope=window or profile.gpu_window or profile.capture_window,
        devices=profile.devices,
        max_rows=1_000_000,
        offset=0,
    )
    return skill.run(call)


def exact_rows(name: str, capture: Path, window: Window | None = None, **params: object) -> list[dict[str, Any]]:
    """The rows of `exact` as dicts: ns, bytes and ratios, not rounded."""
    model = all_skills()[name].row
    assert model is not None
    result = exact(name, capture, window, **params)
    return [dict(zip(model.model_fields, row, strict=True)) for row in result.rows]


def sums(report: Report, group: str, *columns: str) -> Mapping[str, tuple[int, ...]]:
    """Integer columns of a report, summed by another column."""
    found: dict[str, tuple[int, ...]] = {}
    for row in report:
        values = tuple(int(row[column]) for column in columns)
        found[row[group]] = tuple(a + b for a, b in zip(found.get(row[group], (0,) * len(values)), values, strict=True))
    return found
