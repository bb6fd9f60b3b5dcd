"""Promises that hold for every skill on every capture, real or generated."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Capture, demo_capture, write_sqlite
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import Envelope
from tests.support import CAPTURES, ask, rows_of, scratch

ABOUT_PROFILES = [name for name, skill in all_skills().items() if skill.profile]
WINDOWED = [name for name, skill in all_skills().items() if skill.window != "none"]


@cache
def demo() -> Path:
    (scratch() / "promises").mkdir()
    return write_sqlite(demo_capture()[0], scratch() / "promises" / "demo.sqlite")


def captures() -> list[str]:
    return ["demo", *(path.stem for path in CAPTURES)]


def path_of(capture: str) -> Path:
    return demo() if capture == "demo" else next(path for path in CAPTURES if path.stem == capture)


def example(name: str, **given: Any) -> dict[str, Any]:
    return {**all_skills()[name].example, **given}


def without_name(envelope: Envelope) -> str:
    profile = {key: value for key, value in envelope["profile"].items() if key != "name"}
    return dump_json({**envelope, "profile": profile})


@cache
def reordered(capture: str) -> Path:
    """The same capture with the rows of every table in another order, and an SQLite file laid out anew."""
    source = sqlite3.connect(f"file:{path_of(capture)}?mode=ro&immutable=1", uri=True)
    (scratch() / "reordered").mkdir(exist_ok=True)
    path = scratch() / "reordered" / f"{capture}-in-another-order.sqlite"
    target = sqlite3.connect(path)
    tables = source.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    for name, create in tables:
        target.execute(create)
        rows = source.execute(f'SELECT * FROM "{name}"').fetchall()
        rows = rows[1::2][::-1] + rows[0::2]
        if rows:
            target.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', rows)
    target.commit()
    target.close()
    source.close()
    return path


@pytest.mark.parametrize("capture", captures())
def test_the_order_of_rows_in_the_source_changes_no_byte_of_any_result_but_the_captures_name(capture: str) -> None:
    for name in ABOUT_PROFILES:
        as_recorded = ask(name, path_of(capture), **example(name))
        otherwise = ask(name, reordered(capture), **example(name))
        assert as_recorded["profile"]["name"] != otherwise["profile"]["name"]
        assert without_name(as_recorded) == without_name(otherwise), name


@pytest.mark.parametrize("capture", captures())
def test_the_same_call_gives_the_same_bytes_whatever_was_asked_in_between(capture: str) -> None:
    first = {name: dump_json(ask(name, path_of(capture), **example(name))) for name in ABOUT_PROFILES}
    again = {name: dump_json(ask(name, path_of(capture), **example(name))) for name in reversed(ABOUT_PROFILES)}
    assert first == again


@pytest.mark.parametrize("capture", captures())
def test_pages_of_a_table_put_together_are_the_table(capture: str) -> None:
    for name in WINDOWED:
        whole = ask(name, path_of(capture), **example(name, max_rows=200))
        rows: list[Any] = []
        offset: int | None = 0
        while offset is not None and len(rows) < len(whole["rows"]):
            page = ask(name, path_of(capture), **example(name, max_rows=7, offset=offset))
            assert page["totals"] == whole["totals"]
            rows += page["rows"]
            offset = page["truncation"] and page["truncation"]["next_offset"]
        assert rows[: len(whole["rows"])] == whole["rows"], name


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("capture", captures())
def test_no_share_leaves_0_to_100_percent(capture: str) -> None:
    for name in WINDOWED:
        envelope = ask(name, path_of(capture), **example(name))
        tables = [*(envelope["tables"].values()), envelope]
        found = [part["totals"] or {} for part in tables]
        found += [dict(zip(part["columns"], row, strict=True)) for part in tables for row in part["rows"]]
        signed = ("vs_median_pct",)  # a change, no share
        shares = [values[key] for values in found for key in values if key.endswith("_pct") and key not in signed]
        assert all(0 <= share <= 100 for share in numbers(shares)), name
        assert set(envelope["of"]) >= {key for key in envelope["columns"] if key.endswith("_pct")}, name


@pytest.mark.parametrize("capture", captures())
def test_compute_exposed_comm_copy_only_and_idle_add_up_to_the_span_of_every_device(capture: str) -> None:
    envelope = ask("overlap_breakdown", path_of(capture))
    if envelope["status"] == "abstained":
        assert "kernels" in envelope["missing"]
        return
    assert envelope["rows"]
    for row in rows_of(envelope):
        parts = row["compute_ms"] + row["exposed_comm_ms"] + row["copy_only_ms"] + row["idle_ms"]
        assert parts == pytest.approx(row["span_ms"], abs=0.0021)


@pytest.mark.parametrize("capture", captures())
def test_idle_time_is_the_same_whichever_skill_is_asked(capture: str) -> None:
    gaps = ask("gpu_idle_gaps", path_of(capture))
    bubbles = ask("pipeline_bubble_metrics", path_of(capture))
    if gaps["status"] == "abstained":
        assert bubbles["status"] == "abstained"
        return
    assert gaps["totals"]["idle_ms"] == bubbles["totals"]["idle_ms"]
    overlap = ask("overlap_breakdown", path_of(capture))
    if overlap["status"] != "abstained":
        idle = {(row["device"], row["process"]): row["idle_ms"] for row in rows_of(overlap)}
        assert idle == {(row["device"], row["process"]): row["idle_ms"] for row in rows_of(bubbles)}


@pytest.mark.parametrize("capture", captures())
def test_times_by_kernels_at_once_add_up_to_the_span_and_to_the_busy_time_of_kernels(capture: str) -> None:
    envelope = ask("stream_concurrency", path_of(capture))
    if envelope["status"] == "abstained":
        assert "kernels" in envelope["missing"]
        return
    for row, other in zip(rows_of(envelope), rows_of(ask("overlap_breakdown", path_of(capture))), strict=True):
        with_kernels = row["kernels_1_ms"] + row["kernels_2_ms"] + row["kernels_3plus_ms"]
        assert with_kernels + row["kernels_0_ms"] == pytest.approx(other["span_ms"], abs=0.0021)
        assert with_kernels == pytest.approx(other["compute_ms"] + other["exposed_comm_ms"], abs=0.0026)


def split(envelope: Envelope, parts: int) -> list[tuple[float, float]]:
    start, end = envelope["scope"]["start_s"], envelope["scope"]["end_s"]
    edges = [start, *(round(start + (end - start) * part / parts, 9) for part in range(1, parts)), end]
    return list(pairwise(edges))


SUMS = {
    "top_kernels": ["total_ms", "busy_ms"],
    "memory_transfers": ["total_ms"],
    "gpu_idle_gaps": ["idle_ms"],
    "pipeline_bubble_metrics": ["busy_ms", "idle_ms"],
    "nvtx_kernel_map": ["kernel_ms"],
    "stream_concurrency": ["kernels_0_ms", "kernels_1_ms", "kernels_2_ms", "kernels_3plus_ms"],
    "nvtx_summary": ["total_ms"],
    "cuda_api_summary": ["total_ms"],
    "osrt_summary": ["total_ms"],
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("capture", captures())
def test_times_of_a_partition_of_the_window_add_up_to_the_whole(capture: str, name: str) -> None:
    whole = ask(name, path_of(capture))
    if whole["totals"] is None:
        assert whole["status"] == "abstained"
        return
    windows = split(whole, 5)
    parts = [ask(name, path_of(capture), trim=list(window)) for window in windows]
    for key in SUMS[name]:
        assert sum(part["totals"][key] for part in parts) == pytest.approx(whole["totals"][key], abs=0.0031), key


def test_a_capture_without_any_event_is_abstained_on_and_not_reported_healthy() -> None:
    (scratch() / "nothing").mkdir(exist_ok=True)
    nothing = write_sqlite(Capture(), scratch() / "nothing" / "nothing.sqlite")
    for name in WINDOWED:
        envelope = ask(name, nothing, **example(name))
        assert envelope["status"] == "abstained", name
        assert envelope["capture_hint"].startswith("nsys profile"), name
        assert envelope["rows"] == []
        assert envelope["totals"] is None
