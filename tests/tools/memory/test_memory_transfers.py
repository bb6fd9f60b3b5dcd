from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout, Set
from nsys_evidence.tools.memory.operations import memory_kind, operation_of
from nsys_evidence.tools.run import Envelope
from tests import strategies as plain
from tests.oracle import Report, exact, exact_rows, sums, with_reports
from tests.strategies import Span, captures, generated, gpu_span, has_length, trims
from tests.support import ask, rows_of, written

NSYS_NAMES = {
    "h2d": "[CUDA memcpy Host-to-Device]",
    "d2h": "[CUDA memcpy Device-to-Host]",
    "d2d": "[CUDA memcpy Device-to-Device]",
    "set": "[CUDA memset]",
}
OPERATIONS = dict.fromkeys(range(14), "other") | {1: "h2d", 2: "d2h", 8: "d2d", 9: "h2h", 10: "p2p"}
OPERATIONS |= {11: "um_h2d", 12: "um_d2h", 13: "um_d2d"}
KINDS = {0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed", 7: None}

SECOND = 10**9


def copy(start: int, end: int, size: int, kind: int = 1, source: int | None = 1, target: int | None = 2) -> Copy:
    return Copy(start, end, 0, 1, 7, None, 101, size, kind, source, target)


# Against nsys stats.


@with_reports("cuda_gpu_mem_time_sum")
def test_times_agree_with_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in exact_rows("memory_transfers", capture):
        found[NSYS_NAMES[row["operation"]]].append(row)
    assert {
        name: (sum(r["total_ms"] for r in group), sum(r["count"] for r in group)) for name, group in found.items()
    } == sums(report, "Operation", "Total Time (ns)", "Count")
    for line in report:
        group = found[line["Operation"]]
        assert min(row["min_us"] for row in group) == int(line["Min (ns)"])
        assert max(row["max_us"] for row in group) == int(line["Max (ns)"])
        if len(group) == 1:
            assert group[0]["med_us"] == Fraction(line["Med (ns)"])
            assert float(group[0]["avg_us"]) == pytest.approx(float(line["Avg (ns)"]), abs=0.051)
    totals = exact("memory_transfers", capture).totals
    assert totals["total_ms"] == sum(int(line["Total Time (ns)"]) for line in report)


@with_reports("cuda_gpu_mem_size_sum")
def test_sizes_agree_with_nsys_stats_at_its_precision(capture: Path, report: Report) -> None:
    size: dict[str, int] = defaultdict(int)
    count: dict[str, int] = defaultdict(int)
    for row in exact_rows("memory_transfers", capture):
        size[NSYS_NAMES[row["operation"]]] += row["total_mb"]
        count[NSYS_NAMES[row["operation"]]] += row["count"]
    assert {name: plain.mb(total) for name, total in size.items()} == {
        line["Operation"]: float(line["Total (MB)"]) for line in report
    }
    assert count == {line["Operation"]: int(line["Count"]) for line in report}


# Against sums in plain Python.


@generated
@given(st.data())
def test_rows_and_totals_agree_with_sums_in_plain_python(data: st.DataObject) -> None:
    capture = data.draw(captures(min_launches=6).filter(lambda c: bool(c.copies or c.sets)))
    path = written(capture)
    check(ask("memory_transfers", path, max_rows=200), capture, gpu_span(capture))
    if has_length(capture):
        span = data.draw(trims(capture))
        check(ask("memory_transfers", path, max_rows=200, trim=span.trim), capture, span)


def check(envelope: Envelope, capture: Capture, span: Span) -> None:
    groups: dict[tuple[object, ...], list[Copy | Set]] = defaultdict(list)
    for c in filter(span.has, capture.copies):
        key = (*plain.device_key(capture, c), OPERATIONS[c.kind], KINDS[c.src_kind or 0], KINDS[c.dst_kind or 0])
        groups[key].append(c)
    for s in filter(span.has, capture.sets):
        groups[*plain.device_key(capture, s), "set", None, KINDS[s.mem_kind or 0]].append(s)
    rows = rows_of(envelope)
    keys = [tuple(row[c] for c in ("device", "process", "operation", "src_kind", "dst_kind")) for row in rows]
    assert sorted(keys, key=str) == sorted(groups, key=str)
    totals = {key: sum(map(span.part, group)) for key, group in groups.items()}
    assert [totals[key] for key in keys] == sorted(totals.values(), reverse=True)
    for key, row in zip(keys, rows, strict=True):
        group = groups[key]
        durations = [plain.duration(op) for op in group]
        begun = [op for op in group if span.begins(op)]
        size, time = sum(op.bytes for op in begun), sum(map(plain.duration, begun))
        assert row["count"] == len(group)
        assert row["total_ms"] == plain.ms(totals[key])
        assert row["total_mb"] == plain.mb(size)
        assert row["avg_us"] == plain.us(plain.mean(durations))
        assert row["med_us"] == plain.us(plain.middle(durations))
        assert (row["min_us"], row["max_us"]) == (plain.us(min(durations)), plain.us(max(durations)))
        assert row["gb_per_s"] == (pytest.approx(size / time, abs=0.00051) if time else None)
    copies, sets = ([op for op in every if span.has(op)] for every in (capture.copies, capture.sets))
    assert envelope["status"] == ("ok" if groups else "empty")
    assert envelope["totals"] == {
        "copies": len(copies),
        "sets": len(sets),
        "total_ms": plain.ms(sum(totals.values())),
        "copied_mb": plain.mb(sum(op.bytes for op in copies if span.begins(op))),
        "set_mb": plain.mb(sum(op.bytes for op in sets if span.begins(op))),
        "clipped": sum(span.cuts(op) for op in (*copies, *sets)),
    }


# Words.


def test_every_copy_kind_has_its_word_and_none_folds_into_host_to_device() -> None:
    assert {kind: operation_of(kind) for kind in range(14)} == OPERATIONS
    assert operation_of(None) == operation_of(99) == "other"


def test_an_unknown_kind_of_memory_is_null() -> None:
    assert memory_kind(None) is memory_kind(7) is memory_kind(99) is None
    path = written(Capture(copies=[copy(SECOND, SECOND + 10, 8, source=None, target=7)]))
    [row] = rows_of(ask("memory_transfers", path))
    assert (row["src_kind"], row["dst_kind"]) == (None, None)


def test_kinds_that_share_a_word_share_a_row_with_one_median() -> None:
    copies = [
        copy(SECOND, SECOND + 10, 8, kind=3),
        copy(SECOND, SECOND + 30, 8, kind=0),
        copy(SECOND, SECOND + 90, 8, kind=7),
    ]
    [row] = rows_of(ask("memory_transfers", written(Capture(copies=copies))))
    assert (row["operation"], row["count"], row["med_us"]) == ("other", 3, 0.03)


# Windows and throughput.


def test_bytes_count_where_a_copy_starts_and_time_where_it_runs() -> None:
    path = written(Capture(copies=[copy(SECOND, 3 * SECOND, 4 * 10**9)]))
    first, second = (ask("memory_transfers", path, trim=trim) for trim in ([1, 2], [2, 3]))
    assert [rows_of(part)[0]["total_ms"] for part in (first, second)] == [1000.0, 1000.0]
    assert [rows_of(part)[0]["total_mb"] for part in (first, second)] == [4000.0, 0.0]
    assert [rows_of(part)[0]["gb_per_s"] for part in (first, second)] == [2.0, None]
    assert [part["totals"]["clipped"] for part in (first, second)] == [1, 1]


def test_throughput_below_one_gigabyte_per_second_is_not_rounded_to_nothing() -> None:
    [row] = rows_of(ask("memory_transfers", written(Capture(copies=[copy(SECOND, SECOND + 1000, 250)]))))
    assert row["gb_per_s"] == 0.25


def test_a_copy_of_no_length_has_no_throughput() -> None:
    [row] = rows_of(ask("memory_transfers", written(Capture(copies=[copy(SECOND, SECOND, 250)]))))
    assert (row["total_ms"], row["total_mb"], row["gb_per_s"]) == (0.0, 0.0, None)


def test_the_same_device_id_in_two_processes_makes_two_rows() -> None:
    other = Copy(SECOND, SECOND + 20, 0, 1, 7, None, 102, 8, 1, 1, 2)
    rows = rows_of(ask("memory_transfers", written(Capture(copies=[copy(SECOND, SECOND + 10, 8), other]))))
    assert [(row["device"], row["process"], row["total_ms"]) for row in rows] == [(0, 102, 0.0), (0, 101, 0.0)]


# What may be missing.


def test_a_capture_without_copies_and_sets_abstains_and_says_what_to_record() -> None:
    envelope = ask("memory_transfers", written(Capture(kernels=[Kernel(100, 200, 0, 1, 7, None, 101, "void k()")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["copies", "sets"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")


def test_copies_alone_are_an_answer_with_a_note_on_the_sets() -> None:
    envelope = ask("memory_transfers", written(Capture(copies=[copy(SECOND, SECOND + 10, 8)])))
    assert (envelope["status"], envelope["totals"]["sets"]) == ("ok", 0)
    assert any("sets not recorded" in note for note in envelope["notes"])


def test_a_window_without_copies_is_empty() -> None:
    copies = [copy(SECOND, SECOND + 10, 8), copy(9 * SECOND, 9 * SECOND + 10, 8)]
    envelope = ask("memory_transfers", written(Capture(copies=copies)), trim=[3, 4])
    assert (envelope["status"], envelope["rows"], envelope["totals"]["copies"]) == ("empty", [], 0)


def test_a_device_without_work_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("memory_transfers", written(Capture(copies=[copy(1, 2, 3)])), device=1)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_an_export_without_memory_kinds_still_tells_directions() -> None:
    gone = {"CUPTI_ACTIVITY_KIND_MEMCPY": frozenset({"srcKind", "dstKind"})}
    capture = Capture(copies=[copy(SECOND, SECOND + 10, 8)], calls=[Call(1, 2, 101, 101, "cudaMemcpy_v3020", 5)])
    [row] = rows_of(ask("memory_transfers", written(capture, Layout(drop_columns=gone))))
    assert (row["operation"], row["src_kind"], row["dst_kind"]) == ("h2d", None, None)


@pytest.mark.parametrize(
    ("table", "operation", "total"),
    [("CUPTI_ACTIVITY_KIND_MEMCPY", "h2d", "copied_mb"), ("CUPTI_ACTIVITY_KIND_MEMSET", "set", "set_mb")],
)
def test_an_export_without_sizes_leaves_bytes_unknown_and_never_zero(table: str, operation: str, total: str) -> None:
    capture = Capture(copies=[copy(SECOND, SECOND + 10, 8)], sets=[Set(SECOND, SECOND + 10, 0, 1, 7, None, 101, 64, 2)])
    envelope = ask("memory_transfers", written(capture, Layout(drop_columns={table: frozenset({"bytes"})})))
    unknown = {row["operation"]: (row["total_mb"], row["gb_per_s"]) == (None, None) for row in rows_of(envelope)}
    assert unknown == {"h2d": operation == "h2d", "set": operation == "set"}
    assert {name for name, value in envelope["totals"].items() if value is None} == {total}
    assert envelope["status"] == "partial"
    assert any("sizes" in note and "not recorded" in note for note in envelope["notes"])


def test_sizes_that_are_not_recorded_are_unknown_also_where_no_copy_starts() -> None:
    gone = {"CUPTI_ACTIVITY_KIND_MEMCPY": frozenset({"bytes"})}
    path = written(Capture(copies=[copy(SECOND, 3 * SECOND, 8)]), Layout(drop_columns=gone))
    [row] = rows_of(ask("memory_transfers", path, trim=[2, 3]))
    assert (row["total_ms"], row["total_mb"], row["gb_per_s"]) == (1000.0, None, None)


def test_graphs_traced_as_a_whole_hide_copies_and_make_the_answer_partial() -> None:
    graph = GraphLaunch(SECOND, SECOND + 100, 0, 1, 7, None, 101, 1)
    path = written(
        Capture(copies=[copy(SECOND, SECOND + 10, 8), copy(9 * SECOND, 9 * SECOND + 10, 8)], graph_launches=[graph])
    )
    envelope = ask("memory_transfers", path)
    assert envelope["status"] == "partial"
    assert any("1 CUDA graph" in note and "copies and sets" in note for note in envelope["notes"])
    assert ask("memory_transfers", path, trim=[8, 10])["status"] == "ok"
