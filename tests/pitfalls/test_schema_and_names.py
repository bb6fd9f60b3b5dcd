"""Section 1.1: whatever an export calls its tables and whichever of them it lacks, every skill has an answer."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import nsys_evidence.tools
from nsys_evidence.contracts.errors import ErrorCode
from nsys_evidence.ingest.synthetic import Capture, Layout
from nsys_evidence.ingest.synthetic.tables import ENUMS, NEW_SINCE_2021, TABLES
from tests.pitfalls.asking import ABOUT_PROFILES, STATUSES, answer, answers, as_recorded, nameless, small, small_capture
from tests.support import ask, rows_of, written

EVENT_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "NVTX_EVENTS",
)
OTHER_TABLES = tuple(table for table in TABLES if table not in (*EVENT_TABLES, "StringIds"))
"""StringIds is what makes an SQLite file an export: see `tests/ingest/test_bad_input.py`."""

KEPT = {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "globalTid", "eventType"}
"""Columns without which a row is no event of its kind: without one of these the table counts as not recorded."""

EXPORT_ALONE = {"doctor", "schema_inspect"}
"""Skills that speak of the export as it is stored, too."""


def assert_all_answer(path: Path) -> None:
    """Every skill ends in one of the four ways, or with a code for its arguments."""
    for name, found in answers(path).items():
        if isinstance(found, ErrorCode):
            assert found in (ErrorCode.INVALID_ARGUMENT, ErrorCode.ITERATION_OUT_OF_RANGE), name
        else:
            assert found["status"] in STATUSES, name
            if found["status"] == "abstained":
                assert found["reason"], name
                assert found["capture_hint"], name
                assert found["missing"], name
                assert found["rows"] == [], name
                assert found["totals"] is None, name


def test_renamed_tables_change_no_byte_of_any_result() -> None:
    renamed = answers(written(small_capture(), Layout(suffix=dict.fromkeys(TABLES, "_V3"))))
    for name, expected in as_recorded().items():
        if name not in EXPORT_ALONE:
            assert nameless(renamed[name]) == nameless(expected), name


def test_no_skill_names_a_table_of_the_export() -> None:
    folder = Path(nsys_evidence.tools.__path__[0]).resolve()
    literal = re.compile("|".join(sorted(TABLES, key=len, reverse=True)))
    found = {
        (path.relative_to(folder).as_posix(), name)
        for path in sorted(folder.rglob("*.py"))
        for name in literal.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize("table", EVENT_TABLES)
def test_every_skill_has_an_answer_without_any_one_kind_of_event(table: str) -> None:
    assert_all_answer(written(small_capture(), Layout(drop_tables=frozenset({table}))))


def test_every_skill_has_an_answer_without_all_that_is_no_kernel_copy_call_or_range() -> None:
    assert_all_answer(written(small_capture(), Layout(drop_tables=frozenset(OTHER_TABLES))))


@pytest.mark.parametrize(
    "table",
    ["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "SCHED_EVENTS", "PROCESSES", "TARGET_INFO_GPU", "NVTX_PAYLOAD_SCHEMAS"],
)
def test_what_reads_it_has_an_answer_without_any_other_table(table: str) -> None:
    path = written(small_capture(), Layout(drop_tables=frozenset({table})))
    for name in ("doctor", "sync_cost_analysis", "thread_utilization", "nccl_payload_breakdown"):
        found = ask(name, path)
        assert found["status"] in STATUSES, name


def test_every_skill_has_an_answer_without_all_columns_that_an_event_can_be_without() -> None:
    columns = {table: {column.partition(":")[0] for column in TABLES[table].split()} - KEPT for table in EVENT_TABLES}
    assert all(columns.values())
    dropped = {table: frozenset(names) for table, names in columns.items()}
    assert_all_answer(written(small_capture(), Layout(drop_columns=dropped)))


def test_a_column_that_only_newer_exports_have_makes_no_skill_fail() -> None:
    without = dict.fromkeys(EVENT_TABLES, NEW_SINCE_2021)
    there, gone = as_recorded(), answers(written(small_capture(), Layout(drop_columns=without)))
    about_payloads = {"nccl_communicator_analysis", "nccl_payload_breakdown"}
    for name, found in gone.items():
        expected = there[name]
        assert not isinstance(found, ErrorCode), name
        assert not isinstance(expected, ErrorCode), name
        if name not in about_payloads:
            assert found["status"] == expected["status"], name


def test_labels_that_an_export_lacks_change_no_figure() -> None:
    """Synchronisation, copies and memory are told by their codes, which mean the same in every export."""
    without = written(small_capture(), Layout(drop_tables=frozenset(ENUMS)))
    for name in ("sync_cost_analysis", "memory_transfers", "memory_bandwidth", "thread_utilization", "nvtx_summary"):
        found, expected = ask(name, without), ask(name, small())
        assert found["status"] == expected["status"] == "ok" or name.startswith("memory")
        assert (found["rows"], found["totals"]) == (expected["rows"], expected["totals"]), name


def test_starts_stored_as_text_stand_in_the_order_of_time() -> None:
    kernel = small_capture().kernels[0]

    kernels = [replace(kernel, start=start, end=start + 500, correlation=None) for start in (9_999, 10_999, 100_000)]
    rows = rows_of(
        ask("kernel_instances", written(Capture(kernels=kernels), Layout(text_affinity=True)), order="start")
    )
    assert [row["start_ns"] for row in rows] == [9_999, 10_999, 100_000]


def test_what_is_said_of_a_missing_table_names_the_capture_that_was_read() -> None:
    path = written(Capture(ranges=small_capture().ranges))
    found = ask("top_kernels", path)
    assert found["status"] == "abstained"
    assert found["profile"]["name"] == path.name
    assert "in this capture" in found["reason"]


def test_versions_are_read_from_the_metadata_of_the_export() -> None:
    capture = small_capture()
    shown = str(ask("profile_info", small()))
    assert capture.product in shown
    assert capture.schema in shown
    assert capture.schema != capture.product


def test_a_table_with_a_name_that_is_no_identifier_is_data(tmp_path: Path) -> None:
    """Names of tables and columns come from the file: none of them becomes a part of a statement."""
    path = tmp_path / "hostile.sqlite"
    path.write_bytes(small().read_bytes())
    names = ('x"; DROP TABLE StringIds; --', "NVTX_EVENTS_V2\"'", "SELECT", "NVTX_EVENTS_V99 ", "a' OR '1'='1")
    with closing(sqlite3.connect(path)) as connection:
        for name in names:
            quoted = name.replace('"', '""')
            connection.execute(f'CREATE TABLE "{quoted}" ("{quoted}" INTEGER, "start" INTEGER)')
            connection.execute(f'INSERT INTO "{quoted}" VALUES (1, 2)')
        connection.execute('ALTER TABLE NVTX_EVENTS ADD COLUMN "a"" , 1; --" INTEGER')
        connection.commit()
    for name in ("nvtx_summary", "top_kernels", "gpu_idle_gaps"):
        assert nameless(ask(name, path)) == nameless(ask(name, small()))
    listed = {row["table"] for row in rows_of(ask("schema_inspect", path, max_rows=200))}
    assert {"SELECT", names[0]} <= listed


def test_a_kernel_table_under_a_wrong_name_is_not_guessed() -> None:
    extra: dict[str, list[dict[str, object]]] = {
        name: [{"start": 1, "end": 2, "deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": 42 << 24}]
        for name in ("ENUM_CUPTI_ACTIVITY_KIND_KERNEL", "MY_KERNELS", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    }
    path = written(Capture(ranges=small_capture().ranges, extra_tables=extra))

    for name, skill in ABOUT_PROFILES.items():
        if "kernels" in skill.needs:
            found = answer(skill, path)
            assert not isinstance(found, ErrorCode)
            assert found["status"] == "abstained", name
