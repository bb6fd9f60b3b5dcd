from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nsys_evidence.ingest.synthetic import Capture, Kernel, Layout, Range
from tests.support import CAPTURES, ask, needs_shared, rows_of, written

CAPTURE = Capture(
    kernels=[Kernel(100, 200, 0, 1, 7, 1, 101, "void k()"), Kernel(300, 400, 0, 1, 7, 2, 101, "void k()")],
    ranges=[Range(50, 500, 101, 101, "content that must not be shown")],
)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_table_of_the_file_is_listed_with_its_rows_and_columns(capture: Path) -> None:
    envelope = ask("schema_inspect", capture, max_rows=200)
    found = {row["table"]: row for row in rows_of(envelope)}
    with closing(sqlite3.connect(f"file:{capture}?mode=ro&immutable=1", uri=True)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: file.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables}
        assert envelope["totals"]["tables"] == len(tables)
        assert envelope["totals"]["rows"] == sum(rows.values())
        for table, row in found.items():
            columns = file.execute(f'PRAGMA table_info("{table}")').fetchall()
            assert (row["rows"], row["column_count"]) == (rows[table], len(columns))
            assert row["columns"].split(", ")[0].partition(":")[0] == columns[0][1]


def test_columns_are_listed_with_their_types() -> None:
    rows = {row["table"]: row for row in rows_of(ask("schema_inspect", written(CAPTURE)))}
    assert rows["StringIds"]["columns"] == "id:INTEGER, value:TEXT"
    assert rows["CUPTI_ACTIVITY_KIND_KERNEL"]["rows"] == 2
    assert rows["CUPTI_ACTIVITY_KIND_KERNEL"]["columns"].startswith("start:INTEGER, end:INTEGER, deviceId:INTEGER")


def test_label_tables_stand_last() -> None:
    envelope = ask("schema_inspect", written(CAPTURE), max_rows=200)
    is_label_table = [row["table"].startswith("ENUM_") for row in rows_of(envelope)]
    assert is_label_table == sorted(is_label_table)
    assert any(is_label_table)


def test_tables_are_named_as_the_file_names_them() -> None:
    capture = Capture(ranges=[Range(50, 700, 101, 101, "outer")])
    envelope = ask("schema_inspect", written(capture, Layout(suffix={"NVTX_EVENTS": "_V3"})))
    assert "NVTX_EVENTS_V3" in [row["table"] for row in rows_of(envelope)]


def test_content_is_never_shown() -> None:
    assert "must not be shown" not in str(ask("schema_inspect", written(CAPTURE), max_rows=200))


def test_a_page_says_how_many_tables_there_are() -> None:
    envelope = ask("schema_inspect", written(CAPTURE), max_rows=2, offset=1)
    assert envelope["truncation"] == {
        "total_rows": envelope["totals"]["tables"],
        "shown_rows": 2,
        "next_offset": 3,
    }
