"""The generated exports look like real ones, whatever their layout, and say what the generator planned."""

import itertools
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nsys_evidence.ingest.synthetic import (
    Capture,
    Copy,
    GraphLaunch,
    Kernel,
    Layout,
    Process,
    Range,
    Truth,
    demo_capture,
    write_sqlite,
)

REAL = Path(__file__).parents[2].parent / "shared" / "captures"
TEXT_COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("demangledName", "shortName", "mangledName"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId",),
    "NVTX_EVENTS": ("textId",),
    "OSRT_API": ("nameId",),
    "ThreadNames": ("nameId",),
}


def read_only(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True))


def columns_of(path: Path) -> dict[str, list[tuple[str, str]]]:
    with read_only(path) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [(name, kind) for _, name, kind, *_ in database.execute(f'PRAGMA table_info("{table}")')]
            for table in tables
        }


def rows_by_meaning(path: Path) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of every table as a multiset, with string ids replaced by their strings."""
    found: dict[str, Counter[tuple[object, ...]]] = {}
    columns = columns_of(path)
    with read_only(path) as database:
        strings = dict(database.execute("SELECT id, value FROM StringIds"))
        for table, described in columns.items():
            references = [name in TEXT_COLUMNS.get(table, ()) for name, _ in described]
            found[table] = Counter(
                tuple(strings.get(value) if by_id else value for value, by_id in zip(row, references, strict=True))
                for row in database.execute(f'SELECT * FROM "{table}"')
            )
        found["StringIds"] = Counter((value,) for value in strings.values())
    return found


def real(name: str) -> Path:
    path = REAL / name
    if not path.exists():
        pytest.skip("the real captures are not at hand")
    return path


@pytest.fixture(scope="module")
def demo() -> tuple[Capture, Truth]:
    return demo_capture()


@pytest.fixture
def demo_file(demo: tuple[Capture, Truth], tmp_path: Path) -> Path:
    return write_sqlite(demo[0], tmp_path / "demo.sqlite")


@pytest.mark.parametrize(
    ("reference", "old_schema"), [("h200_cpu_bound_2025.1.sqlite", False), ("old_schema_2021.sqlite", True)]
)
def test_tables_have_the_columns_of_the_real_export(
    demo: tuple[Capture, Truth], tmp_path: Path, reference: str, old_schema: bool
) -> None:
    expected = columns_of(real(reference))
    written = columns_of(write_sqlite(demo[0], tmp_path / "a.sqlite", layout=Layout(old_schema=old_schema)))
    shared = written.keys() & expected.keys()
    assert len(shared) >= (9 if old_schema else 20)
    assert {table: written[table] for table in shared} == {table: expected[table] for table in shared}
    payloads = {"NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"}
    assert written.keys() - shared <= {"OSRT_API", "NVTX_EVENTS", "SCHED_EVENTS", "COMPOSITE_EVENTS", *payloads}


def test_payload_schemas_have_the_columns_and_the_fields_of_a_real_export(
    demo: tuple[Capture, Truth], demo_file: Path
) -> None:
    expected, written = columns_of(real("h100x2_nccl_2026.2.sqlite")), columns_of(demo_file)
    for table in ("NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES", "NVTX_EVENTS"):
        assert written[table] == expected[table]
    query = "SELECT name, type, offset FROM NVTX_PAYLOAD_SCHEMA_ENTRIES"
    with read_only(real("h100x2_nccl_2026.2.sqlite")) as reference, read_only(demo_file) as database:
        assert set(database.execute(query)) <= set(reference.execute(query))


def test_samples_and_old_scheduler_events_have_the_columns_of_a_real_export(
    demo: tuple[Capture, Truth], tmp_path: Path
) -> None:
    written = columns_of(write_sqlite(demo[0], tmp_path / "a.sqlite", layout=Layout(old_schema=True)))
    for reference in ("cpu_samples_2023.4.sqlite", "old_schema_2021_b.sqlite"):
        expected = columns_of(real(reference))
        for table in ("SCHED_EVENTS", "COMPOSITE_EVENTS", "ThreadNames"):
            assert written[table] == expected[table]


def test_labels_agree_with_the_real_export(demo_file: Path) -> None:
    with read_only(real("h200_cpu_bound_2025.1.sqlite")) as reference, read_only(demo_file) as written:
        for table in (name for name in columns_of(demo_file) if name.startswith("ENUM_")):
            known = set(reference.execute(f"SELECT id, name, label FROM {table}"))
            assert set(written.execute(f"SELECT id, name, label FROM {table}")) <= known


def test_metadata_has_the_keys_of_the_real_export(demo_file: Path) -> None:
    query = "SELECT name FROM META_DATA_EXPORT ORDER BY rowid"
    with read_only(real("h200_cpu_bound_2025.1.sqlite")) as reference, read_only(demo_file) as written:
        assert written.execute(query).fetchall() == reference.execute(query).fetchall()


def test_newer_columns_appear_only_where_an_event_needs_them(tmp_path: Path) -> None:
    kernel = Kernel(10, 20, 0, 1, 7, 1, 42, "k()", graph_id=3)
    capture = Capture(kernels=[kernel], copies=[Copy(10, 20, 0, 1, 7, 2, 42, 4, 1, copy_count=2)])
    columns = columns_of(write_sqlite(capture, tmp_path / "a.sqlite"))
    assert ("graphId", "INTEGER") in columns["CUPTI_ACTIVITY_KIND_KERNEL"]
    assert ("copyCount", "INTEGER") in columns["CUPTI_ACTIVITY_KIND_MEMCPY"]
    expected = columns_of(real("h100x2_nccl_2026.2.sqlite"))
    assert set(columns["CUPTI_ACTIVITY_KIND_KERNEL"]) < set(expected["CUPTI_ACTIVITY_KIND_KERNEL"])
    assert columns["CUPTI_ACTIVITY_KIND_MEMCPY"] == expected["CUPTI_ACTIVITY_KIND_MEMCPY"]


def test_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_sqlite(demo_capture()[0], tmp_path / "a.sqlite", layout=Layout(shuffle=3))
    second = write_sqlite(demo_capture()[0], tmp_path / "b.sqlite", layout=Layout(shuffle=3))
    assert first.read_bytes() == second.read_bytes()


def test_shuffling_changes_the_order_and_no_row(demo: tuple[Capture, Truth], demo_file: Path, tmp_path: Path) -> None:
    shuffled = write_sqlite(demo[0], tmp_path / "shuffled.sqlite", layout=Layout(shuffle=11))
    assert rows_by_meaning(shuffled) == rows_by_meaning(demo_file)
    query = "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL"
    with read_only(shuffled) as one, read_only(demo_file) as other:
        assert one.execute(query).fetchall() != other.execute(query).fetchall()
        assert dict(one.execute("SELECT * FROM StringIds")) != dict(other.execute("SELECT * FROM StringIds"))


def test_text_can_be_inline_or_by_reference(demo: tuple[Capture, Truth], tmp_path: Path) -> None:
    def counts(path: Path) -> tuple[int, int]:
        with read_only(path) as database:
            query = "SELECT count(text), count(textId) FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60)"
            inline, by_id = database.execute(query).fetchone()
            return inline, by_id

    total = len(demo[0].ranges) + len(demo[0].marks)
    assert counts(write_sqlite(demo[0], tmp_path / "a.sqlite", layout=Layout(text="inline"))) == (total, 0)
    assert counts(write_sqlite(demo[0], tmp_path / "b.sqlite", layout=Layout(text="ids"))) == (0, total)
    inline, by_id = counts(write_sqlite(demo[0], tmp_path / "c.sqlite"))
    assert inline + by_id == total
    assert min(inline, by_id) > 0


def test_tables_and_columns_can_be_renamed_or_left_out(demo: tuple[Capture, Truth], tmp_path: Path) -> None:
    layout = Layout(
        suffix={"NVTX_EVENTS": "_V2"},
        drop_tables=frozenset({"OSRT_API", "ENUM_CUPTI_SYNC_TYPE"}),
        drop_columns={"CUPTI_ACTIVITY_KIND_KERNEL": frozenset({"graphNodeId"})},
    )
    columns = columns_of(write_sqlite(demo[0], tmp_path / "a.sqlite", layout=layout))
    assert "NVTX_EVENTS_V2" in columns
    assert not {"NVTX_EVENTS", "OSRT_API", "ENUM_CUPTI_SYNC_TYPE"} & columns.keys()
    assert ("graphNodeId", "INTEGER") not in columns["CUPTI_ACTIVITY_KIND_KERNEL"]


def test_tables_without_rows_are_absent_unless_asked_for(tmp_path: Path) -> None:
    lazy = columns_of(write_sqlite(Capture(), tmp_path / "a.sqlite"))
    eager = columns_of(write_sqlite(Capture(), tmp_path / "b.sqlite", layout=Layout(empty_tables=True)))
    assert "CUPTI_ACTIVITY_KIND_KERNEL" not in lazy
    assert {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS"} <= eager.keys()


def test_impossible_times_and_starts_as_text_are_stored_as_given(tmp_path: Path) -> None:
    times = [(None, 5), (9, 3), (0, 0), (10_000, 10_001)]
    capture = Capture(kernels=[Kernel(start, end, 0, 1, 7, 1, 42, "k()") for start, end in times])
    query = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL"
    with read_only(write_sqlite(capture, tmp_path / "a.sqlite")) as database:
        assert database.execute(query).fetchall() == times
    with read_only(write_sqlite(capture, tmp_path / "b.sqlite", layout=Layout(text_affinity=True))) as database:
        starts = [start for start, _ in database.execute(query)]
    assert starts == [None, "9", "0", "10000"]


def test_a_live_write_ahead_log_holds_what_the_file_does_not(tmp_path: Path) -> None:
    path = write_sqlite(Capture(graph_launches=[GraphLaunch(1, 2, 0, 1, 7, 5, 42, 9)]), tmp_path / "a.sqlite")
    plain = columns_of(path)
    write_sqlite(Capture(), path, layout=Layout(wal=True))
    assert path.with_name("a.sqlite-wal").stat().st_size > 0
    assert columns_of(path) == {}
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM META_DATA_EXPORT").fetchone() == (29,)
    assert "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in plain


def test_packed_ids_fit_and_tell_processes_apart(tmp_path: Path) -> None:
    twins = [Process(42, vm=1), Process(42, hw=127, vm=255)]
    capture = Capture(processes=twins, ranges=[Range(1, 2, twin.global_pid, 7, "r") for twin in twins])
    with read_only(write_sqlite(capture, tmp_path / "a.sqlite")) as database:
        tids = [tid for (tid,) in database.execute("SELECT globalTid FROM NVTX_EVENTS")]
    assert tids == [1 << 48 | 42 << 24 | 7, 127 << 56 | 255 << 48 | 42 << 24 | 7]
    with pytest.raises(ValueError, match="do not fit"):
        Process(1, hw=128)


def test_an_environment_stands_wherever_real_exports_leak_it(tmp_path: Path) -> None:
    capture = Capture(processes=[Process(42)], environment={"API_TOKEN": "s3cret"}, unreferenced=["other s3cret"])
    found = rows_by_meaning(write_sqlite(capture, tmp_path / "a.sqlite"))
    leaking = {table for table, rows in found.items() if any("s3cret" in str(row) for row in rows)}
    assert leaking == {"StringIds", "PROCESSES", "TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"}


def test_other_tables_and_columns_can_be_added(tmp_path: Path) -> None:
    extra: dict[str, list[dict[str, object]]] = {
        "GENERIC_EVENTS": [{"start": 5, "cpu": 0, "isSchedIn": 1, "note": "x"}],
        "OSRT_API": [{"start": 1, "end": 2, "colour": 0.5}],
    }
    columns = columns_of(write_sqlite(Capture(extra_tables=extra), tmp_path / "a.sqlite"))
    assert columns["GENERIC_EVENTS"] == [
        ("start", "INTEGER"),
        ("cpu", "INTEGER"),
        ("isSchedIn", "INTEGER"),
        ("note", "TEXT"),
    ]
    assert columns["OSRT_API"][-1] == ("colour", "REAL")


def test_the_demo_is_as_large_and_as_far_from_zero_as_planned(demo: tuple[Capture, Truth]) -> None:
    capture, truth = demo
    events = [*capture.kernels, *capture.copies, *capture.sets, *capture.calls, *capture.ranges, *capture.syncs]
    assert 600 <= len(events) <= 1500
    assert 73_000_000_000 < truth.capture_window[0] <= truth.gpu_window[0]
    assert (truth.iterations, truth.slowest_iteration) == (8, (1, 5))
    assert capture.environment == {}


def test_the_demo_uses_the_same_correlation_ids_in_both_processes(demo_file: Path) -> None:
    query = "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid = ? ORDER BY 1"
    with read_only(demo_file) as database:
        first, second = (database.execute(query, (Process(pid, vm=1).global_pid,)).fetchall() for pid in (4101, 4102))
        unlaunched = database.execute(
            """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k WHERE NOT EXISTS (
            SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME r
            WHERE r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24)"""
        ).fetchone()
    assert first == second
    assert unlaunched == (6,)


def test_the_demo_truths_hold_in_the_written_file(demo: tuple[Capture, Truth], demo_file: Path) -> None:
    truth = demo[1]
    with read_only(demo_file) as database:
        assert truth.gpu_window == database.execute(f"SELECT min(start), max(end) FROM ({WORK})").fetchone()
        top = database.execute(
            """SELECT value, count(*), sum(end - start) AS total FROM CUPTI_ACTIVITY_KIND_KERNEL
            JOIN StringIds ON id = demangledName GROUP BY 1 ORDER BY total DESC LIMIT 1"""
        ).fetchone()
        assert (truth.top_kernel.name, truth.top_kernel.instances, truth.top_kernel.total_ns) == top
        slowest = database.execute(
            """SELECT (globalTid >> 24 & 0xFFFFFF) - 4101, CAST(substr(text, 11) AS INTEGER) FROM NVTX_EVENTS
            WHERE text LIKE 'iteration %' ORDER BY end - start DESC LIMIT 1"""
        ).fetchone()
        assert truth.slowest_iteration == slowest
        for device in truth.devices:
            work = database.execute(f"SELECT * FROM ({WORK}) WHERE deviceId = ?", (device.device,)).fetchall()
            kernels = [end - start for start, end, _, kind in work if kind in ("compute", "comm")]
            assert (device.kernels, device.kernel_total_ns) == (len(kernels), sum(kernels))
            swept = Counter[frozenset[str]]()
            for active, length in _stretches(work, truth.gpu_window):
                swept[active] += length
            both = frozenset({"compute", "comm"})
            assert device.compute_busy_ns == sum(ns for active, ns in swept.items() if "compute" in active)
            assert device.comm_busy_ns == sum(ns for active, ns in swept.items() if "comm" in active)
            assert device.overlap_ns == sum(ns for active, ns in swept.items() if active >= both)
            assert device.copy_only_ns == swept[frozenset({"moved"})]
            assert device.idle_ns == swept[frozenset()]
            assert device.busy_ns + device.idle_ns == device.span_ns == sum(swept.values())
            parts = device.compute_busy_ns + device.exposed_comm_ns + device.copy_only_ns + device.idle_ns
            assert parts == device.span_ns
            idle = [length for active, length in _stretches(work, truth.gpu_window) if not active]
            assert device.largest_gap[1] == max(idle)
            uploaded = database.execute(
                """SELECT sum(bytes), sum(bytes) FILTER (WHERE srcKind = 0) FROM CUPTI_ACTIVITY_KIND_MEMCPY
                WHERE copyKind = 1 AND deviceId = ?""",
                (device.device,),
            ).fetchone()
            assert (device.h2d_bytes, device.h2d_pageable_bytes) == uploaded


WORK = """
    SELECT start, end, deviceId, CASE WHEN value LIKE 'nccl%' THEN 'comm' ELSE 'compute' END AS kind
    FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName
    UNION ALL SELECT start, end, deviceId, 'moved' FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL SELECT start, end, deviceId, 'moved' FROM CUPTI_ACTIVITY_KIND_MEMSET
"""


def _stretches(work: list[tuple[int, int, int, str]], window: tuple[int, int]) -> Iterator[tuple[frozenset[str], int]]:
    """The window cut at every edge: what runs in each piece, and how long the piece is."""
    edges = sorted({*window, *(edge for start, end, *_ in work for edge in (start, end))})
    for begin, finish in itertools.pairwise(edges):
        active = frozenset(kind for start, end, _, kind in work if start <= begin and finish <= end)
        yield active, finish - begin


def test_a_capture_can_be_taken_apart_and_written_again(demo: tuple[Capture, Truth], tmp_path: Path) -> None:
    capture = replace(demo[0], kernels=[], schema="3.25.0", product="2026.2.1.210")
    path = write_sqlite(capture, tmp_path / "a.sqlite")
    with read_only(path) as database:
        exported = dict(database.execute("SELECT name, value FROM META_DATA_EXPORT"))
    assert exported["EXPORT_SCHEMA_VERSION"] == "3.25.0"
    assert exported["EXPORT_SCHEMA_VERSION_MINOR"] == "25"
    assert "CUPTI_ACTIVITY_KIND_KERNEL" not in columns_of(path)
