"""What becomes of each row of an export: kept, set aside and counted, or no event of its kind at all."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from nsys_evidence.ingest.manifest import Coverage
from nsys_evidence.ingest.synthetic import (
    Call,
    Capture,
    Copy,
    Domain,
    GraphLaunch,
    Kernel,
    Layout,
    Mark,
    OsrtCall,
    Process,
    Range,
    Set,
    Sync,
)
from tests.ingest.profiles import Built, build, build_file
from tests.support import written

PID = 42
KERNEL = Kernel(100, 200, 0, 1, 7, 1, PID, "void gemm<float>(float *)")
IMPOSSIBLE = ((None, 5), (5, None), (None, None), (9, 3), (0, 0))
"""Times of rows that cannot be true."""


def edited(capture: Capture, *statements: str) -> Built:
    """The profile of a capture whose file was changed by hand before it was read."""
    path = written(capture)
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return build_file(path)


def everything(start: int | None, end: int | None, name: str) -> Capture:
    """One event of every kind with these times."""
    return Capture(
        kernels=[Kernel(start, end, 0, 1, 7, 1, PID, f"kernel {name}")],
        copies=[Copy(start, end, 0, 1, 7, 2, PID, 4, 1)],
        sets=[Set(start, end, 0, 1, 7, 3, PID, 4)],
        graph_launches=[GraphLaunch(start, end, 0, 1, 7, 4, PID, 9)],
        calls=[Call(start, end, PID, PID, f"call {name}", 1)],
        syncs=[Sync(start, end, 0, 1, 7, 5, PID, 3)],
        osrt_calls=[OsrtCall(start, end, PID, PID, f"osrt {name}")],
        ranges=[
            Range(start, end, PID, PID, f"range {name}"),
            Range(start, end, PID, PID, f"span {name}", style="startend"),
        ],
    )


def joined(*captures: Capture) -> Capture:
    whole = Capture()
    for kind in ("kernels", "copies", "sets", "graph_launches", "calls", "syncs", "osrt_calls", "ranges"):
        for capture in captures:
            getattr(whole, kind).extend(getattr(capture, kind))
    return whole


TABLES = ("kernels", "copies", "sets", "graphs", "calls", "syncs", "osrt", "nvtx_ranges", "nvtx_spans")


def test_rows_that_cannot_be_true_are_set_aside_and_counted_in_every_table() -> None:
    good = everything(100, 200, "good")
    bad = [everything(start, end, "bad") for start, end in IMPOSSIBLE]
    built = build(joined(*bad, good))
    assert {table: built.manifest.rows[table] for table in TABLES} == dict.fromkeys(TABLES, 1)
    kinds = ("kernels", "copies", "sets", "graphs", "calls", "syncs", "osrt")
    # A range without an end is no impossible range: it was never closed.
    assert built.manifest.quarantined == {**dict.fromkeys(kinds, len(IMPOSSIBLE)), "nvtx": 8}
    assert built.manifest.unclosed_ranges == 2
    assert built.manifest.capture == (5, 200)  # the never closed ones began at 5
    assert built.manifest.gpu == (100, 200)
    for kind in (*kinds, "nvtx"):
        assert any(f" {kind} rows cannot be true" in warning for warning in built.manifest.warnings)
    assert not any("bad" in str(text) for text in built.strings().values())


def test_only_impossible_rows_mean_that_nothing_was_recorded() -> None:
    bad = joined(*(everything(start, end, "bad") for start, end in IMPOSSIBLE if (start, end) != (5, None)))
    built = build(bad)
    assert built.manifest.capture is None
    assert built.manifest.gpu is None
    assert built.manifest.devices == ()
    assert set(built.manifest.coverage.values()) == {Coverage.NOT_RECORDED}


def test_zero_and_the_very_beginning_of_the_clock_are_times() -> None:
    built = build(Capture(kernels=[replace(KERNEL, start=0, end=1), replace(KERNEL, start=7, end=7)]))
    assert built.manifest.quarantined == {}
    assert built.manifest.gpu == (0, 7)


@pytest.mark.parametrize("origin", [2**53 + 1, 2**61])
def test_times_beyond_what_a_double_holds_stay_exact(origin: int) -> None:
    built = build(everything(origin, origin + 1, "x"))
    for table in TABLES:
        assert built.named(table, "start", "end") == [(origin, origin + 1)]
    assert built.manifest.capture == (origin, origin + 1)


OWNED = {
    "kernels": ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
    "copies": ("CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid"),
    "calls": ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
    "syncs": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "globalPid"),
    "osrt": ("OSRT_API", "globalTid"),
    "nvtx": ("NVTX_EVENTS", "globalTid"),
}


@pytest.mark.parametrize("kind", OWNED)
def test_a_row_of_no_process_is_set_aside_and_harms_no_other(kind: str) -> None:
    source, owner = OWNED[kind]
    capture = joined(everything(100, 200, "owned"), everything(110, 120, "lost"))
    built = edited(capture, f"UPDATE {source} SET {owner} = NULL WHERE start = 110")
    tables = ("nvtx_ranges", "nvtx_spans") if kind == "nvtx" else (kind,)
    assert built.manifest.quarantined == {kind: len(tables)}
    assert [built.named(table, "start") for table in tables] == [[(100,)]] * len(tables)
    assert {row["global_pid"] for row in built.rows("processes")} == {Process(PID).global_pid}
    assert len(built.manifest.devices) == 1


def test_marks_and_domain_rows_are_no_ranges_but_marks_are_in_the_capture_window() -> None:
    built = build(
        Capture(
            ranges=[Range(100, 200, PID, PID, "r")],
            marks=[Mark(50, PID, PID, "early"), Mark(900, PID, PID, "late"), Mark(None, PID, PID, "never")],
            domains=[Domain(PID, 3, "lib", start=1)],
        )
    )
    assert built.named("nvtx_ranges", "start", "end", "name") == [(100, 200, "r")]
    assert (built.manifest.marks, built.manifest.unclosed_ranges, built.manifest.quarantined) == (2, 0, {})
    assert built.manifest.capture == (50, 900)
    assert set(built.strings().values()) == {None, "r"}


def test_a_range_that_never_ended_is_counted_and_encloses_nothing() -> None:
    ranges = [Range(10, None, PID, PID, "open"), Range(20, 30, PID, PID, "closed")]
    built = build(Capture(ranges=[*ranges, Range(40, None, PID, PID, "span", style="startend")]))
    assert built.named("nvtx_ranges", "start", "parent", "depth", "outer") == [(20, None, 0, None)]
    assert built.manifest.unclosed_ranges == 2
    assert built.manifest.capture == (10, 40)
    assert "2 NVTX ranges never ended and are no intervals" in built.manifest.warnings


def test_a_domain_names_the_ranges_of_its_own_process_only() -> None:
    built = build(
        Capture(
            domains=[Domain(41, 1, "NCCL"), Domain(42, 1, "cuDNN"), Domain(42, 2, "unused")],
            ranges=[
                *(Range(10, 20, pid, pid, "r", domain=1) for pid in (41, 42, 43)),
                *(Range(30, 40, pid, pid, "s") for pid in (41, 42, 43)),
            ],
        )
    )
    threads = {row["thread"]: row["pid"] for row in built.rows("threads")}
    named = {
        (threads[thread], start): name for thread, start, name in built.named("nvtx_ranges", "thread", "start", "name")
    }
    assert named == {
        (41, 10): "NCCL:r",
        (42, 10): "cuDNN:r",
        (43, 10): "r",  # a domain that nobody named
        **{(pid, 30): "s" for pid in (41, 42, 43)},
    }


def test_a_domain_id_of_any_size_is_a_domain() -> None:
    big = 5_000_000_000
    built = build(Capture(domains=[Domain(PID, big, "Lib")], ranges=[Range(10, 20, PID, PID, "r", domain=big)]))
    assert built.named("nvtx_ranges", "name") == [("Lib:r",)]


def test_text_may_be_inline_by_reference_or_missing_row_by_row() -> None:
    ranges = [
        Range(10, 90, PID, PID, "inline"),
        Range(20, 80, PID, PID, "registered", registered=True),
        Range(30, 70, PID, PID, None),
        Range(40, 60, PID, PID, ""),
    ]
    assert build(Capture(ranges=ranges)).named("nvtx_ranges", "name") == [("inline",), ("registered",), ("",), ("",)]


@pytest.mark.parametrize(("kept", "column"), [("inline", "textId"), ("ids", "text")])
def test_an_export_that_lacks_one_of_the_two_text_columns_is_read(kept: str, column: str) -> None:
    layout = Layout(text=kept, drop_columns={"NVTX_EVENTS": frozenset({column})})  # type: ignore[arg-type]
    assert build(Capture(ranges=[Range(1, 2, PID, PID, "r")]), layout).named("nvtx_ranges", "name") == [("r",)]


def test_a_start_end_range_is_a_span_of_the_threads_that_it_started_and_ended_on() -> None:
    ranges = [
        Range(10, 90, PID, 7, "across", style="startend", end_tid=8),
        Range(20, 30, PID, 7, "alone", style="startend"),
        Range(15, 25, PID, 7, "stacked"),
    ]
    built = build(Capture(ranges=ranges))
    tids = {None: None} | {row["thread"]: row["tid"] for row in built.rows("threads")}
    spans = built.named("nvtx_spans", "start", "end", "thread", "end_thread", "name")
    assert [(start, end, tids[a], tids[b], name) for start, end, a, b, name in spans] == [
        (10, 90, 7, 8, "across"),
        (20, 30, 7, None, "alone"),
    ]
    assert built.named("nvtx_ranges", "name", "parent") == [("stacked", None)]


def test_only_spans_means_no_stacks() -> None:
    built = build(Capture(ranges=[Range(10, 90, PID, 7, "across", style="startend")]))
    assert built.manifest.coverage["nvtx"] is Coverage.NOT_RECORDED
    assert built.manifest.rows["nvtx_spans"] == 1


def test_text_that_is_no_utf8_is_shown_with_replacement_characters() -> None:
    capture = replace(everything(100, 200, "x"), ranges=[Range(1, 2, PID, PID, "r")])
    built = edited(
        capture,
        "UPDATE StringIds SET value = CAST(x'ff6b' AS TEXT) WHERE value LIKE 'kernel%'",
        "UPDATE StringIds SET value = x'fe63' WHERE value LIKE 'call%'",
        "UPDATE NVTX_EVENTS SET text = CAST(x'72c3' AS TEXT)",
    )
    assert built.named("kernels", "name") == [("\ufffdk",)]
    assert built.named("calls", "name") == [("\ufffdc",)]
    assert built.named("nvtx_ranges", "name") == [("r\ufffd",)]


def test_a_name_is_the_demangled_one_else_the_short_one_else_unknown() -> None:
    capture = Capture(kernels=[replace(KERNEL, start=start) for start in (100, 110, 120)])
    built = edited(
        capture,
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = NULL WHERE start = 110",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 999, shortName = 998 WHERE start = 120",
    )
    assert built.named("kernels", "name") == [(KERNEL.name,), ("gemm",), ("(unknown kernel)",)]
    lacking = edited(capture, "UPDATE StringIds SET value = NULL")
    assert lacking.named("kernels", "name") == [("(unknown kernel)",)] * 3


def test_api_names_lose_a_version_of_four_digits_and_keep_one_of_five() -> None:
    names = ("cudaLaunchKernel_v7000", "cudaLaunchKernelExC_v11060", "cuLaunchKernel", "cuMemAlloc_v2")
    built = build(Capture(calls=[Call(10 + n, 99, PID, PID, name, n) for n, name in enumerate(names)]))
    shown = [name for (name,) in built.named("calls", "name")]
    assert shown == ["cudaLaunchKernel", "cudaLaunchKernelExC_v11060", "cuLaunchKernel", "cuMemAlloc_v2"]


def test_all_ones_in_an_unsigned_column_means_none() -> None:
    sentinels = (-1, 2**32 - 1, 2**63 - 1)
    syncs = [Sync(10 + n, 20, 0, 1, value, 1, PID, 3) for n, value in enumerate(sentinels)]
    built = build(Capture(syncs=[*syncs, Sync(15, 20, 0, 1, 0, 1, PID, 3)]))
    assert built.named("syncs", "stream_id") == [(None,), (None,), (None,), (0,)]


def test_a_graph_traced_as_a_whole_is_compute_with_its_kernels_hidden() -> None:
    built = build(Capture(graph_launches=[GraphLaunch(100, 200, 0, 1, 7, 4, PID, 9)]))
    assert built.named("graphs", "start", "end", "graph_id") == [(100, 200, 9)]
    assert built.manifest.gpu == (100, 200)
    kinds = {row["kind"] for row in built.rows("busy")}
    assert kinds == {"compute", "kernel", "work"}
    assert any("1 CUDA graph launches were traced as a whole" in warning for warning in built.manifest.warnings)


def test_kernels_without_an_api_call_are_kept_and_counted() -> None:
    other = replace(KERNEL, start=300, end=400, correlation=2)
    unlinked = replace(KERNEL, start=500, end=600, correlation=None)
    built = build(Capture(kernels=[KERNEL, other, unlinked], calls=[Call(10, 20, PID, PID, "cudaLaunchKernel", 2)]))
    launches = built.named("kernels", "start", "call_start", "call_end", "api", "stack")
    assert launches == [
        (100, None, None, None, None),
        (300, 10, 20, "cudaLaunchKernel", None),
        (500, None, None, None, None),
    ]
    assert "2 of 3 kernels have no recorded API call" in built.manifest.warnings


def test_calls_without_kernels_are_said() -> None:
    built = build(Capture(calls=[Call(10, 20, PID, PID, "cudaLaunchKernel", 2)]))
    assert "CUDA API calls are recorded but no GPU kernels" in built.manifest.warnings
    assert built.manifest.gpu is None


@pytest.mark.parametrize("table", ["SCHED_EVENTS", "COMPOSITE_EVENTS"])
def test_events_that_no_skill_reads_are_in_the_capture_window(table: str) -> None:
    rows: list[dict[str, object]] = [{"start": 5, "cpu": 0}, {"start": 900, "cpu": 1}]
    built = build(Capture(kernels=[KERNEL], extra_tables={table: rows}))
    assert built.manifest.capture == (5, 900)
    assert built.manifest.gpu == (100, 200)


def test_a_table_of_peer_copies_or_of_labels_is_not_taken_for_events() -> None:
    extra: dict[str, list[dict[str, object]]] = {
        "CUPTI_ACTIVITY_KIND_MEMCPY2": [{"start": 1, "end": 2, "globalPid": 42 << 24, "deviceId": 0}],
        "ENUM_CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 1, "end": 2, "globalPid": 42 << 24, "deviceId": 0}],
    }
    built = build(Capture(ranges=[Range(5, 6, PID, PID, "r")], extra_tables=extra))
    assert {kind: built.manifest.coverage[kind] for kind in ("kernels", "copies")} == dict.fromkeys(
        ("kernels", "copies"), Coverage.NOT_RECORDED
    )
    assert built.manifest.capture == (5, 6)


def test_of_several_versions_of_a_table_the_exact_name_or_the_highest_number_is_read() -> None:
    capture = Capture(osrt_calls=[OsrtCall(10, 20, PID, PID, "read")])
    copied = (
        "CREATE TABLE OSRT_API_V{0} AS SELECT start + {0} AS start, end, eventClass, globalTid, nameId FROM OSRT_API"
    )
    statements = [copied.format(number) for number in (2, 3, 10 - 1)]
    assert edited(capture, *statements).named("osrt", "start") == [(10,)]
    renamed = edited(capture, *statements, copied.format(10).replace("+ 10", "+ 5"), "DROP TABLE OSRT_API")
    assert renamed.named("osrt", "start") == [(15,)]


def test_a_capture_of_2021_without_the_newer_tables_and_columns_is_read() -> None:
    capture = joined(everything(100, 200, "x"))
    built = build(replace(capture, graph_launches=[]), Layout(old_schema=True))
    assert built.manifest.rows["kernels"] == built.manifest.rows["copies"] == built.manifest.rows["calls"] == 1
    assert built.named("kernels", "start", "name", "graph_node") == [(100, "kernel x", None)]


def test_missing_optional_columns_become_null_and_nothing_else() -> None:
    dropped = frozenset({"graphNodeId", "registersPerThread", "gridX", "contextId"})
    built = build(Capture(kernels=[KERNEL]), Layout(drop_columns={"CUPTI_ACTIVITY_KIND_KERNEL": dropped}))
    assert built.named("kernels", "start", "grid_x", "grid_y", "registers", "context") == [(100, None, 1, None, None)]


def test_a_capture_without_any_event_is_an_empty_profile() -> None:
    for layout in (Layout(), Layout(empty_tables=True)):
        built = build(Capture(), layout)
        assert built.manifest.capture is built.manifest.gpu is None
        assert all(built.rows(table) == [] for table in TABLES)
