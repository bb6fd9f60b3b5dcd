"""What a reader settles before there is one code path: table names, types of values, and rows whatever their ids."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.parquet_reader import ParquetReader
from nsys_evidence.ingest.reader import NONE, Coder, narrowest, resolve_table
from nsys_evidence.ingest.sqlite_reader import SqliteReader
from nsys_evidence.ingest.synthetic import Capture, GpuMetric, write_sqlite
from tests.parquet_export import write_parquetdir

quick = settings(max_examples=40, deadline=None)
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.mark.parametrize(
    ("present", "found"),
    [
        ([KERNELS], KERNELS),
        ([f"{KERNELS}_V3", f"{KERNELS}_V10", f"{KERNELS}_V9"], f"{KERNELS}_V10"),
        ([f"{KERNELS}_V10", KERNELS], KERNELS),
        ([KERNELS.lower()], KERNELS.lower()),
        ([f"{KERNELS}_v2", f"{KERNELS}_V"], None),
        ([f"ENUM_{KERNELS}", f"ENUM_{KERNELS}_V2"], None),
        ([f"{KERNELS}2", f"{KERNELS}_V2_OLD", f"OLD_{KERNELS}_V2", "CUPTIxACTIVITYxKINDxKERNEL"], None),
        ([f"{KERNELS}_V\u0662"], None),
        ([], None),
    ],
)
def test_a_table_is_found_by_its_exact_name_or_its_highest_version(present: list[str], found: str | None) -> None:
    assert resolve_table(KERNELS, present) == found
    assert resolve_table(KERNELS, present[::-1]) == found


def test_peer_copies_are_another_table_than_copies() -> None:
    assert resolve_table("CUPTI_ACTIVITY_KIND_MEMCPY", ["CUPTI_ACTIVITY_KIND_MEMCPY2"]) is None


values = st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)


@quick
@given(batches=st.lists(st.lists(values, max_size=8), max_size=5))
def test_codes_stand_for_the_same_values_over_all_batches(batches: list[list[int | None]]) -> None:
    coder = Coder()
    encoded = [coder.encode(pa.array(batch, pa.int64())).tolist() for batch in batches]
    decoded = [[None if code < 0 else coder.values[code] for code in codes] for codes in encoded]
    assert decoded == batches
    assert len(set(coder.values)) == len(coder.values)


@quick
@given(batches=st.lists(st.lists(st.binary(max_size=3), max_size=6), max_size=4))
def test_texts_are_told_apart_by_their_bytes_and_shown_as_utf8(batches: list[list[bytes]]) -> None:
    coder = Coder()
    for batch in batches:
        codes = coder.encode(
            pa.array(batch, pa.binary()).cast(pa.string(), safe=False) if batch else pa.array([], pa.string())
        )
        assert [coder.values[code] for code in codes.tolist()] == batch
    assert coder.texts() == [value.decode("utf-8", "replace") for value in coder.values]


@pytest.mark.parametrize(("count", "kind"), [(0, np.int8), (127, np.int8), (128, np.int16), (32_768, np.int32)])
def test_codes_are_as_narrow_as_their_number_allows(count: int, kind: type) -> None:
    assert narrowest(count) is kind
    assert np.array([count - 1, -1], narrowest(count)).tolist() == [count - 1, -1]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "odd 100%?#name.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE Events (Start INTEGER, stream, text TEXT, 'odd \"name' TEXT)")
        rows = [(-5, None, None, "x"), (0, "9", "a", "x"), (2**63 - 1, 2.0, "", "x"), (7, 2**32 - 1, "b", "x")]
        for rowid, row in zip((-(2**62), -1, 3, 2**62), rows, strict=True):
            connection.execute(
                "INSERT INTO Events (rowid, Start, stream, text, 'odd \"name') VALUES (?, ?, ?, ?, ?)", (rowid, *row)
            )
        connection.commit()
    return path


def test_every_row_is_read_once_whatever_its_rowid_and_type(database: Path) -> None:
    reader = SqliteReader(database)
    ticks: list[float] = []
    found = reader.read("EVENTS", {"start": "int", "STREAM": "code", "text": "text", "absent": "int"}, ticks.append)
    reader.close()
    assert found.rows == 4
    assert ticks == sorted(ticks)
    assert all(0 <= share <= 1 for share in ticks)
    streams = [None if c < 0 else found.values["STREAM"][c] for c in found.codes["STREAM"].tolist()]
    texts = [found.values["text"][c] for c in found.codes["text"].tolist()]
    rows = list(zip(found.ints["start"].tolist(), streams, texts, strict=True))
    assert rows == [(-5, None, ""), (0, 9, "a"), (2**63 - 1, 2, ""), (7, 2**32 - 1, "b")]
    assert found.integer("absent").tolist() == [NONE] * 4
    assert found.code("absent").tolist() == [-1] * 4


def test_a_reader_says_what_the_source_holds(database: Path) -> None:
    reader = SqliteReader(database)
    assert reader.table_names() == ("Events",)
    assert reader.has("events")
    assert not reader.has("event")
    assert reader.column_names("EVENTS") == {"start", "stream", "text", 'odd "name'}
    assert reader.column_names("Event") == frozenset()
    assert reader.extent("Events") == (-5, 2**63 - 1)
    assert reader.extent("Event") is None
    assert list(reader.pairs("Events", "start", "text")) == [(0, "a"), (2**63 - 1, ""), (7, "b")]
    assert list(reader.pairs("Events", "start", "absent")) == []
    (table,) = reader.tables()
    assert (table.table, table.rows) == ("Events", 4)
    assert table.columns == (("Start", "INTEGER"), ("stream", ""), ("text", "TEXT"), ('odd "name', "TEXT"))
    reader.close()


def test_a_table_without_rows_gives_empty_columns(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        connection.execute("CREATE TABLE Events (start INTEGER, text TEXT)")
    reader = SqliteReader(tmp_path / "a.sqlite")
    found = reader.read("Events", {"start": "int", "text": "text"}, lambda rows: None)
    assert (found.rows, found.ints["start"].tolist(), found.codes["text"].tolist()) == (0, [], [])
    assert reader.extent("Events") is None
    reader.close()


def test_columns_may_be_null_for_many_rows_before_their_first_value(tmp_path: Path) -> None:
    rows = [(n, None, None) for n in range(3_000)] + [(3_000, 5, "late")]
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as connection:
        connection.execute("CREATE TABLE Events (start INTEGER, stream INTEGER, text TEXT)")
        connection.executemany("INSERT INTO Events VALUES (?, ?, ?)", rows)
        connection.commit()
    reader = SqliteReader(tmp_path / "a.sqlite")
    found = reader.read("Events", {"start": "int", "stream": "int", "text": "text"}, lambda rows: None)
    assert found.ints["stream"].tolist() == [NONE] * 3_000 + [5]
    assert found.values["text"][found.codes["text"][-1]] == "late"
    assert list(reader.pairs("Events", "start", "text")) == [(3_000, "late")]
    reader.close()


def test_only_rows_with_one_of_these_integers_are_read_in_every_form(tmp_path: Path) -> None:
    samples = [GpuMetric(at, at % 3, "Tensor Active", at * 7 % 5) for at in range(1, 200)]
    path = write_sqlite(Capture(gpu_metrics=samples), tmp_path / "export.sqlite")
    parquet = write_parquetdir(path, tmp_path / "parquet", seed=1)
    readers = (SqliteReader(path), ParquetReader(sorted(parquet.glob("*.parquet"))))
    for reader in readers:
        found = reader.read("GPU_METRICS", {"timestamp": "int", "value": "code"}, lambda share: None, {"value": {1, 4}})
        rows = [(int(at), found.value("value", row, None)) for row, at in enumerate(found.integer("timestamp"))]
        assert sorted(rows) == [(s.start, s.value) for s in samples if s.value in (1, 4)]
        assert found.rows == len(rows)
        assert reader.extent("GPU_METRICS", "timestamp") == (1, 199)
        assert reader.extent("GPU_METRICS") is None
        reader.close()
