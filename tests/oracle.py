"""What NVIDIA's own `nsys stats` says of the real captures, and our results in full, shown and exact."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from fractions import Fraction
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


def exact(name: str, capture: Path, window: Window | None = None, /, **params: object) -> Result:
    """The result of a skill before rounding and cutting: all rows, all devices, by default in its default window."""
    skill = all_skills()[name]
    profile = workspace().library.open(str(capture))
    gpu_window = profile.gpu_window if skill.window == "gpu" else None
    call: Call[Any] = Call(
        params=skill.params.model_validate(params),
        workspace=workspace(),
        opened=profile,
        scope=window or gpu_window or profile.capture_window,
        devices=profile.devices,
        max_rows=1_000_000,
        offset=0,
    )
    return skill.run(call)


def exact_rows(name: str, capture: Path, window: Window | None = None, /, **params: object) -> list[dict[str, Any]]:
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


def assert_names_agree(rows: Sequence[dict[str, Any]], key: Sequence[str], count: str, report: Report) -> None:
    """Exact rows by name agree with a report of nsys stats: figures to the nanosecond, means at its precision.

    `key` and `count` are columns of the rows, in the words of the report `Style`, `Range` or `Name` and `Instances` or
    `Num Calls`. nsys stats shows a standard deviation of 0 for a single event, where there is none.
    """
    of_report = {tuple(line[_REPORTED[column]] for column in key): line for line in report}
    assert len(of_report) == len(report)
    assert {tuple(row[column] for column in key) for row in rows} == of_report.keys()
    assert len(rows) == len(report)
    whole = sum(int(line["Total Time (ns)"]) for line in report)
    for row in rows:
        line = of_report[tuple(row[column] for column in key)]
        assert row["total_ms"] == int(line["Total Time (ns)"])
        assert row[count] == int(line[_REPORTED[count]])
        assert (row["min_us"], row["max_us"]) == (int(line["Min (ns)"]), int(line["Max (ns)"]))
        assert row["med_us"] == Fraction(line["Med (ns)"])
        assert abs(row["avg_us"] - Fraction(line["Avg (ns)"])) <= _HALF_DIGIT
        assert abs((row["stddev_us"] or 0) - Fraction(line["StdDev (ns)"])) <= _HALF_DIGIT
        assert (row["stddev_us"] is None) == (row[count] == 1)
        assert abs(Fraction(row["total_ms"] * 100, whole) - Fraction(line["Time (%)"])) <= _HALF_DIGIT
    totals = [row["total_ms"] for row in rows]
    assert totals == sorted(totals, reverse=True)


_HALF_DIGIT = Fraction(51, 1000)
"""Half of the last digit that nsys stats shows of a mean, and a little for its doubles."""

_REPORTED = {
    "api": "Name",
    "function": "Name",
    "range": "Range",
    "style": "Style",
    "calls": "Num Calls",
    "instances": "Instances",
}
"""The columns of the reports that ours stand for."""
