from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout, Set
from nsys_evidence.ingest.synthetic.truth import length
from tests.oracle import exact, exact_rows
from tests.strategies import Span, captures, device_key, duration, ends, generated, gpu_span, has_length, mb, trims, us
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window

SECOND = 10**9
MIB, KIB = 1 << 20, 1 << 10
DIRECTIONS = dict.fromkeys(range(14), "other") | {1: "h2d", 2: "d2h", 8: "d2d", 9: "h2h", 10: "p2p"}
DIRECTIONS |= {11: "um_h2d", 12: "um_d2h", 13: "um_d2d"}
KINDS = {0: "pageable", 1: "pinned", 2: "device", 3: "array", 4: "managed"}


def copy(start: int, end: int, size: int, kind: int = 1, source: int | None = 1, target: int | None = 2) -> Copy:
    return Copy(SECOND + start, SECOND + end, 0, 1, 7, None, 101, size, kind, source, target)


def row_of(*copies: Copy, **arguments: Any) -> dict[str, Any]:
    [row] = rows_of(ask("memory_bandwidth", written(Capture(copies=list(copies))), **arguments))
    return row


# Against plain Python.


@generated
@given(st.data())
def test_every_figure_agrees_with_plain_python(data: st.DataObject) -> None:
    capture = data.draw(captures(min_launches=12).filter(lambda c: len(c.copies) > 1))
    path, span = written(capture), gpu_span(capture)
    if has_length(capture) and data.draw(st.booleans()):
        span = data.draw(trims(capture))
    groups: dict[tuple[Any, ...], list[Copy]] = defaultdict(list)
    for c in filter(span.has, capture.copies):
        groups[*device_key(capture, c), DIRECTIONS[c.kind]].append(c)
    rows = exact_rows("memory_bandwidth", path, as_window(span))
    assert {(row["device"], row["process"], row["direction"]) for row in rows} == groups.keys()
    assert len(rows) == len(groups)
    for row in rows:
        check(row, groups[row["device"], row["process"], row["direction"]], span)
    sizes = [row["total_mb"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    check_totals(exact("memory_bandwidth", path, as_window(span)).totals, [c for g in groups.values() for c in g], span)
    check_largest(path, capture, span)


def rates(copies: list[Copy]) -> list[Fraction]:
    return [Fraction(c.bytes, duration(c)) for c in copies if duration(c)]


def pageable(copies: list[Copy]) -> int | None:
    """Bytes from or to pageable memory; None where any copy does not tell."""
    found = 0
    for c in copies:
        if 0 in (c.src_kind, c.dst_kind):
            found += c.bytes
        elif not {c.src_kind, c.dst_kind} <= KINDS.keys():
            return None
    return found


def share(part: int | None, whole: int) -> Fraction | None:
    return None if part is None or not whole else Fraction(part, whole)


def check(row: dict[str, Any], copies: list[Copy], span: Span) -> None:
    begun = [c for c in copies if span.begins(c)]
    size, busy = sum(c.bytes for c in begun), length(ends(c) for c in begun)
    assert (row["ops"], row["total_mb"]) == (len(copies), size)
    assert row["peak_gb_per_s"] == max(rates([c for c in begun if c.bytes >= MIB]), default=None)
    assert row["sustained_gb_per_s"] == (Fraction(size, busy) if busy else None)
    assert row["p50_gb_per_s"] == (median(rates(begun)) if rates(begun) else None)
    assert row["small_ops_pct"] == Fraction(sum(c.bytes < 64 * KIB for c in copies), len(copies))
    assert row["pageable_pct"] == share(pageable(begun), size)


def check_totals(totals: Any, copies: list[Copy], span: Span) -> None:
    begun = [c for c in copies if span.begins(c)]
    size = sum(c.bytes for c in begun)
    assert totals == {
        "ops": len(copies),
        "total_mb": size,
        "small_ops_pct": share(sum(c.bytes < 64 * KIB for c in copies), len(copies)),
        "pageable_pct": share(pageable(begun), size),
        "clipped": sum(map(span.cuts, copies)),
    }


def check_largest(path: Path, capture: Capture, span: Span) -> None:
    trim = {} if span == gpu_span(capture) else {"trim": span.trim}
    envelope = ask("memory_bandwidth", path, max_rows=3, **trim)
    begun = sorted((c for c in capture.copies if span.begins(c)), key=lambda c: (-c.bytes, *ends(c)))
    shown = [(row["mb"], row["duration_us"]) for row in rows_of(envelope, "largest")]
    assert shown == [(mb(c.bytes), us(duration(c))) for c in begun[:3]]
    truncation = envelope["tables"]["largest"]["truncation"]
    assert (truncation["total_rows"] if truncation else len(shown)) == len(begun)


# Throughput.


def test_concurrent_copies_add_up_in_sustained_and_not_in_peak() -> None:
    row = row_of(copy(0, MIB, MIB), copy(0, MIB, MIB))
    assert (row["peak_gb_per_s"], row["sustained_gb_per_s"], row["p50_gb_per_s"]) == (1.0, 2.0, 1.0)


def test_idle_time_between_copies_does_not_slow_the_link() -> None:
    assert row_of(copy(0, MIB, MIB), copy(9 * MIB, 10 * MIB, MIB))["sustained_gb_per_s"] == 1.0


def test_a_fast_copy_under_one_mebibyte_is_no_peak() -> None:
    row = row_of(copy(0, 1000, MIB - 1), copy(5000, 5000 + MIB, MIB))
    assert row["peak_gb_per_s"] == 1.0
    assert row_of(copy(0, 1000, MIB - 1))["peak_gb_per_s"] is None


def test_throughput_below_one_gigabyte_per_second_is_not_rounded_to_nothing() -> None:
    row = row_of(copy(0, 4 * MIB, MIB))
    assert (row["peak_gb_per_s"], row["sustained_gb_per_s"], row["p50_gb_per_s"]) == (0.25, 0.25, 0.25)


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    rated = [copy(i * 1000, i * 1000 + 100, size) for i, size in enumerate((100, 200, 500, 900))]
    assert row_of(*rated)["p50_gb_per_s"] == 3.5


def test_a_copy_that_began_before_the_window_counts_in_ops_alone() -> None:
    path = written(Capture(copies=[copy(0, 2 * SECOND, MIB), copy(3 * SECOND, 4 * SECOND, MIB)]))
    envelope = ask("memory_bandwidth", path, trim=[2, 3])
    [row] = rows_of(envelope)
    assert (row["ops"], row["total_mb"], row["sustained_gb_per_s"], row["pageable_pct"]) == (1, 0.0, None, None)
    assert (envelope["totals"]["clipped"], rows_of(envelope, "largest")) == (1, [])


def test_a_copy_of_no_length_has_no_throughput() -> None:
    row = row_of(copy(0, 0, MIB))
    assert (row["peak_gb_per_s"], row["sustained_gb_per_s"], row["p50_gb_per_s"]) == (None, None, None)


def test_small_is_under_64_kibibytes() -> None:
    copies = [copy(i * 1000, i * 1000 + 10, size) for i, size in enumerate((64 * KIB, 64 * KIB - 1, MIB, 0))]
    assert row_of(*copies)["small_ops_pct"] == 50.0


# Memory and directions.


def test_pageable_is_the_share_of_bytes_on_either_side() -> None:
    row = row_of(copy(0, 10, 300, source=0), copy(20, 30, 100, source=1))
    assert row["pageable_pct"] == 75.0
    assert row_of(copy(0, 10, 300, kind=2, source=2, target=0))["pageable_pct"] == 100.0
    assert row_of(copy(0, 10, 300))["pageable_pct"] == 0.0


@pytest.mark.parametrize("unknown", [None, 7])
def test_a_kind_of_memory_that_is_unknown_leaves_the_pageable_share_unknown(unknown: int | None) -> None:
    envelope = ask("memory_bandwidth", written(Capture(copies=[copy(0, 10, 300, source=unknown), copy(20, 30, 100)])))
    assert (rows_of(envelope)[0]["pageable_pct"], envelope["totals"]["pageable_pct"]) == (None, None)
    assert any("kinds of memory" in note for note in envelope["notes"])


def test_unified_memory_and_peer_copies_have_rows_of_their_own() -> None:
    copies = [copy(kind * 100, kind * 100 + 10, 8, kind=kind) for kind in (1, 10, 11, 12, 13, 0, 3)]
    envelope = ask("memory_bandwidth", written(Capture(copies=copies)), max_rows=20)
    ops = {row["direction"]: row["ops"] for row in rows_of(envelope)}
    assert ops == {"h2d": 1, "p2p": 1, "um_h2d": 1, "um_d2h": 1, "um_d2d": 1, "other": 2}


def test_memory_sets_go_over_no_link() -> None:
    sets = [Set(SECOND, SECOND + 10, 0, 1, 7, None, 101, MIB)]
    envelope = ask("memory_bandwidth", written(Capture(copies=[copy(0, 10, 8)], sets=sets)))
    assert [row["direction"] for row in rows_of(envelope)] == ["h2d"]


# Real captures.


@needs_shared
def test_the_figures_of_a_real_run_are_those_of_a_query_of_its_own() -> None:
    # From CUPTI_ACTIVITY_KIND_MEMCPY by hand: per device and copyKind the sum of bytes, the maximum of bytes / time
    # from 1 MiB on, bytes over the union of times, the median of bytes / time, and the share of copies under 64 KiB.
    envelope = ask("memory_bandwidth", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite", max_rows=6)
    assert envelope["rows"][:4] == [
        [0, None, "d2d", 225, 29_684.236, 1913.460, 1513.448, 1505.842, 37.33, 0.0],
        [1, None, "d2d", 225, 29_684.236, 1899.594, 1515.283, 1513.533, 37.33, 0.0],
        [0, None, "h2d", 225, 25_475.254, 27.695, 27.664, 27.643, 38.22, 0.0],
        [1, None, "h2d", 225, 25_475.254, 27.695, 27.668, 27.651, 38.22, 0.0],
    ]
    assert [row[2:] for row in envelope["rows"][4:]] == [
        ["d2h", 2, 0.0, None, 0.002, 0.003, 100.0, 0.0],
        ["d2h", 2, 0.0, None, 0.002, 0.002, 100.0, 0.0],
    ]


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_bytes_and_copies_of_a_real_capture_are_those_of_memory_transfers(capture: Path) -> None:
    envelope = ask("memory_bandwidth", capture)
    if envelope["status"] == "abstained":
        return
    assert len(dump_json(envelope)) <= 6000
    moved: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in exact_rows("memory_transfers", capture):
        if row["operation"] != "set":
            moved[row["operation"]][0] += row["count"]
            moved[row["operation"]][1] += row["total_mb"]
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in exact_rows("memory_bandwidth", capture):
        found[row["direction"]][0] += row["ops"]
        found[row["direction"]][1] += row["total_mb"]
        rates_in_order = [row["p50_gb_per_s"] or 0, row["peak_gb_per_s"] or row["p50_gb_per_s"] or 0]
        assert row["peak_gb_per_s"] is None or rates_in_order == sorted(rates_in_order)
    assert found == moved


# What may be missing.


def test_a_capture_without_copies_abstains_and_says_what_to_record() -> None:
    envelope = ask("memory_bandwidth", written(Capture([Kernel(100, 200, 0, 1, 7, None, 101, "k")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["copies"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")


def test_a_window_without_copies_is_empty() -> None:
    path = written(Capture(copies=[copy(0, 10, 8), copy(9 * SECOND, 9 * SECOND + 10, 8)]))
    envelope = ask("memory_bandwidth", path, trim=[3, 4])
    assert (envelope["status"], envelope["rows"], envelope["totals"]["ops"]) == ("empty", [], 0)
    assert (envelope["totals"]["total_mb"], envelope["totals"]["pageable_pct"]) == (0.0, None)


def test_an_export_without_sizes_leaves_throughput_unknown_and_never_zero() -> None:
    gone = Layout(drop_columns={"CUPTI_ACTIVITY_KIND_MEMCPY": frozenset({"bytes"})})
    capture = Capture(copies=[copy(0, 10, 8)], calls=[Call(1, 2, 101, 101, "cudaMemcpy_v3020", 5)])
    envelope = ask("memory_bandwidth", written(capture, gone))
    [row] = rows_of(envelope)
    assert {name for name, value in row.items() if value is None} == {
        "process",
        "total_mb",
        "peak_gb_per_s",
        "sustained_gb_per_s",
        "p50_gb_per_s",
        "small_ops_pct",
        "pageable_pct",
    }
    assert envelope["status"] == "partial"
    assert rows_of(envelope, "largest") == []


def test_graphs_traced_as_a_whole_may_hide_copies() -> None:
    graph = GraphLaunch(SECOND, SECOND + 100, 0, 1, 7, None, 101, 1)
    envelope = ask("memory_bandwidth", written(Capture(copies=[copy(0, 10, 8)], graph_launches=[graph])))
    assert envelope["status"] == "partial"


def test_a_device_without_work_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("memory_bandwidth", written(Capture(copies=[copy(1, 2, 3)])), device=1)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_a_size_below_zero_is_unknown_and_neither_bytes_nor_an_error() -> None:
    made = Capture(
        copies=[
            Copy(n * 1000, n * 1000 + 500, 0, 1, 8, None, 101, size, 1, 0, 2) for n, size in enumerate((64, -1, 32))
        ]
    )
    envelope = ask("memory_bandwidth", written(made))
    assert envelope["status"] in ("ok", "partial")
    assert rows_of(envelope)[0]["ops"] == 3
    assert all((share := row["pageable_pct"]) is None or 0 <= share <= 100 for row in rows_of(envelope))
