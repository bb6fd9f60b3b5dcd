from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout
from nsys_evidence.ingest.synthetic.truth import length
from nsys_evidence.tools.run import Envelope
from tests.oracle import exact_rows
from tests.strategies import Span, captures, device_key, duration, ends, generated, gpu_span, has_length, mb, ms, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, clipped

SECOND = 10**9
MEGA = 10**6


def copy(start: float, end: float, size: int, kind: int = 1, device: int = 0, pid: int = 101) -> Copy:
    """A copy from `start` to `end` in seconds after the first second of the clock."""
    return Copy(SECOND + int(start * SECOND), SECOND + int(end * SECOND), device, 1, 7, None, pid, size, kind, 1, 2)


def window_of(*copies: Copy, seconds: int = 10) -> Path:
    """A capture whose GPU window is [1 s, 1 s + seconds), with these copies in it."""
    edge = [Kernel(SECOND, SECOND, 0, 1, 7, None, 101, "k")]
    edge += [Kernel((seconds + 1) * SECOND, (seconds + 1) * SECOND, 0, 1, 7, None, 101, "k")]
    return written(Capture(edge, list(copies)))


def uploads(*sizes: int) -> Path:
    """One copy of each size, one a second, in a window of ten seconds; none for a size of zero."""
    return window_of(*(copy(second + 0.5, second + 0.6, size) for second, size in enumerate(sizes) if size))


# Against sums in plain Python.


@generated
@given(st.data())
def test_buckets_and_pattern_agree_with_sums_in_plain_python(data: st.DataObject) -> None:
    capture = data.draw(captures(min_launches=8).filter(lambda c: any(x.kind == 1 for x in c.copies) and has_length(c)))
    span = data.draw(st.one_of(st.just(gpu_span(capture)), trims(capture)))
    if span.start == span.end:
        return
    bucket = data.draw(st.integers(1, span.end - span.start + 3))
    if (span.end - span.start) / bucket > 1000:
        bucket = (span.end - span.start) // 7 + 1
    path = written(capture)
    rows = exact_rows("h2d_distribution", path, as_window(span), bucket_s=bucket / 10**9)
    check(rows, capture, span, bucket)
    check_shown(ask("h2d_distribution", path, **asked(capture, span, bucket)), capture, span, bucket)


def asked(capture: Capture, span: Span, bucket: int) -> dict[str, Any]:
    given: dict[str, Any] = {"bucket_s": bucket / 10**9, "max_rows": 200}
    return given if span == gpu_span(capture) else {**given, "trim": span.trim}


def parts_of(span: Span, bucket: int) -> list[Span]:
    """The window cut into buckets."""
    starts = range(span.start, span.end, bucket)
    return [Span(a, min(a + bucket, span.end), span.includes_end and a + bucket >= span.end) for a in starts]


def uploads_of(capture: Capture, span: Span) -> list[Copy]:
    return [c for c in capture.copies if c.kind == 1 and span.has(c)]


def check(rows: list[dict[str, Any]], capture: Capture, span: Span, bucket: int) -> None:
    found = {(row["device"], row["process"], row["bucket"]): row for row in rows}
    expected = {}
    for number, part in enumerate(parts_of(span, bucket)):
        for upload in uploads_of(capture, part):
            expected.setdefault((*device_key(capture, upload), number), (part, []))[1].append(upload)
    assert list(found) == sorted(expected, key=lambda key: (key[0], key[1] or 0, key[2]))
    for key, (part, inside) in expected.items():
        row, begun = found[key], [c for c in inside if part.begins(c)]
        size, time = sum(c.bytes for c in begun), sum(map(duration, begun))
        assert row["start_s"] == part.start
        assert (row["ops"], row["total_mb"]) == (len(inside), size)
        assert row["busy_ms"] == length(clipped(inside, part))
        assert row["gb_per_s"] == (Fraction(size, time) if time else None)


def check_shown(envelope: Envelope, capture: Capture, span: Span, bucket: int) -> None:
    totals, inside = envelope["totals"], uploads_of(capture, span)
    begun = [c for c in inside if span.begins(c)]
    by_bucket: dict[int, int] = {}
    for c in begun:
        number = min((ends(c)[0] - span.start) // bucket, len(parts_of(span, bucket)) - 1)
        by_bucket[number] = by_bucket.get(number, 0) + c.bytes
    filled = [size for size in by_bucket.values() if size]
    whole = sum(filled)
    early = sum(c.bytes for c in begun if Fraction(ends(c)[0] - span.start, span.end - span.start) < Fraction(1, 10))
    pattern = "none" if not inside else None
    if whole:
        middle = median(map(Fraction, filled))
        pattern = "init_heavy" if early >= 0.8 * whole else "spike" if max(filled) > 3 * middle else "spread_out"
        assert totals["first_tenth_pct"] == pytest.approx(100 * early / whole, abs=0.0051)
        assert (totals["median_bucket_mb"], totals["max_bucket_mb"]) == (mb(middle), mb(max(filled)))
        assert totals["max_over_median"] == pytest.approx(float(max(filled) / middle), abs=0.000051)
    assert totals["pattern"] == pattern
    assert (totals["ops"], totals["total_mb"]) == (len(inside), mb(whole))
    assert totals["buckets_with_bytes"] == len(filled)
    devices = {device_key(capture, c) for c in inside}
    each = [[c for c in inside if device_key(capture, c) == device] for device in devices]
    assert totals["busy_ms"] == ms(sum(length(clipped(group, span)) for group in each))
    assert envelope["status"] == ("ok" if inside else "empty")


# Patterns.


def pattern_of(path: Path, **arguments: Any) -> Any:
    return ask("h2d_distribution", path, **arguments)["totals"]["pattern"]


def test_weights_uploaded_at_the_start_are_init_heavy_and_not_continuous() -> None:
    envelope = ask("h2d_distribution", uploads(80 * MEGA, 4 * MEGA, 4 * MEGA, 4 * MEGA, 4 * MEGA, 4 * MEGA))
    assert (envelope["totals"]["pattern"], envelope["totals"]["first_tenth_pct"]) == ("init_heavy", 80.0)


def test_just_under_80_percent_at_the_start_is_no_longer_init_heavy() -> None:
    path = uploads(80 * MEGA - 1, 4 * MEGA, 4 * MEGA, 4 * MEGA, 4 * MEGA, 4 * MEGA + 1)
    assert pattern_of(path) == "spike"


def test_a_copy_at_the_very_end_of_the_first_tenth_is_not_initial() -> None:
    before, at = (window_of(copy(start, 3, MEGA)) for start in (0.999999999, 1.0))
    assert (pattern_of(before), pattern_of(at)) == ("init_heavy", "spread_out")


def test_a_spike_is_more_than_three_times_the_median_bucket_that_has_bytes() -> None:
    three, more = (uploads(0, 10, 10, 0, 30 + extra, 0, 10) for extra in (0, 1))
    assert (pattern_of(three), pattern_of(more)) == ("spread_out", "spike")
    totals = ask("h2d_distribution", more)["totals"]
    assert (totals["max_over_median"], totals["max_bucket_start_s"], totals["buckets_with_bytes"]) == (3.1, 5.0, 4)


def test_traffic_in_every_step_is_spread_out_whatever_the_device_that_it_goes_to() -> None:
    steady = [copy(second + 0.5, second + 0.6, 100, device=0) for second in range(10)]
    light = [copy(second + 0.5, second + 0.6, 1, device=1) for second in range(10)]
    envelope = ask("h2d_distribution", window_of(*steady, *light))
    assert envelope["totals"]["pattern"] == "spread_out"
    assert any("devices together" in note for note in envelope["notes"])
    assert ask("h2d_distribution", window_of(*steady, *light), device=1)["totals"]["total_mb"] == mb(10)


def test_other_directions_are_no_host_to_device_traffic() -> None:
    others = [copy(kind / 2, kind / 2 + 0.1, MEGA, kind=kind) for kind in (0, 2, 3, 8, 9, 10, 11, 12, 13)]
    envelope = ask("h2d_distribution", window_of(*others))
    assert (envelope["status"], envelope["rows"], envelope["totals"]["pattern"]) == ("empty", [], "none")
    assert envelope["totals"]["total_mb"] == 0.0


def test_a_copy_that_began_before_the_window_takes_time_and_tells_no_pattern() -> None:
    envelope = ask("h2d_distribution", window_of(copy(0, 4, MEGA)), trim=[2, 3])
    [row] = rows_of(envelope)
    assert (row["ops"], row["total_mb"], row["busy_ms"], row["gb_per_s"]) == (1, 0.0, 1000.0, None)
    assert envelope["totals"]["pattern"] is None
    assert any("no bytes start" in note for note in envelope["notes"])


# Buckets.


def test_a_copy_falls_into_the_bucket_that_it_starts_in_and_not_the_nearest() -> None:
    rows = rows_of(ask("h2d_distribution", window_of(copy(0.9, 0.95, 7), copy(1.0, 1.1, 9))))
    assert [(row["bucket"], row["start_s"], row["total_mb"]) for row in rows] == [(0, 1.0, mb(7)), (1, 2.0, mb(9))]


def test_a_copy_across_buckets_counts_in_each_its_bytes_in_the_first_and_its_time_where_it_runs() -> None:
    rows = rows_of(ask("h2d_distribution", window_of(copy(0.5, 2.25, 7 * MEGA))))
    assert [(row["ops"], row["total_mb"], row["busy_ms"]) for row in rows] == [
        (1, 7.0, 500.0),
        (1, 0.0, 1000.0),
        (1, 0.0, 250.0),
    ]
    assert [row["gb_per_s"] for row in rows] == [0.004, None, None]


def test_the_last_bucket_ends_with_the_window() -> None:
    [_, row] = rows_of(ask("h2d_distribution", window_of(copy(0, 4, MEGA)), trim=[2, 3.5]))
    assert (row["bucket"], row["start_s"], row["busy_ms"]) == (1, 3.0, 500.0)


def test_copies_at_once_take_their_time_once() -> None:
    [row] = rows_of(ask("h2d_distribution", window_of(copy(0, 0.5, MEGA), copy(0.25, 0.75, MEGA))))
    assert (row["ops"], row["busy_ms"]) == (2, 750.0)


def test_empty_buckets_are_left_out_and_counted() -> None:
    envelope = ask("h2d_distribution", uploads(5, 0, 0, 0, 5), bucket_s=0.5)
    assert [row["bucket"] for row in rows_of(envelope)] == [1, 9]
    assert (envelope["totals"]["buckets"], envelope["totals"]["buckets_with_bytes"]) == (20, 2)


@pytest.mark.parametrize("bucket", [0, -1, 1e-12, 1e-5])
def test_a_bucket_too_short_for_the_window_is_refused_with_one_that_works(bucket: float) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("h2d_distribution", uploads(5), bucket_s=bucket)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    if bucket > 0:
        assert "at least 0.000100000" in str(refused.value.hint)
        assert ask("h2d_distribution", uploads(5), bucket_s=0.0001)["totals"]["buckets"] == 100_000


# Real captures.


@needs_shared
def test_uploads_of_a_real_run_are_spread_over_all_of_it() -> None:
    # By a query of its own over CUPTI_ACTIVITY_KIND_MEMCPY with copyKind = 1: 450 uploads of 50,950,507,584 bytes,
    # 5,033,410,560 of which start in the first tenth of the GPU window; by (start - window start) / 100 ms: TENTHS.
    envelope = ask("h2d_distribution", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite", bucket_s=0.1)
    sizes: dict[int, float] = {}
    for row in rows_of(envelope):
        sizes[row["bucket"]] = sizes.get(row["bucket"], 0) + row["total_mb"]
    assert [sizes[bucket] for bucket in range(10)] == pytest.approx([size / MEGA for size in TENTHS], abs=0.0011)
    totals = envelope["totals"]
    assert (totals["pattern"], totals["ops"], totals["total_mb"]) == ("spread_out", 450, 50_950.508)
    assert (totals["first_tenth_pct"], totals["max_bucket_mb"]) == (9.88, mb(TENTHS[7]))
    assert totals["median_bucket_mb"] == mb(median(map(Fraction, TENTHS)))
    assert totals["max_bucket_start_s"] == pytest.approx(155.357525002 + 0.7, abs=1e-9)


TENTHS = (
    5_167_644_672,
    5_301_878_784,
    5_368_987_648,
    5_100_568_576,
    5_301_846_016,
    5_503_254_528,
    4_966_301_696,
    8_736_803_904,
    1_946_238_976,
    3_556_982_784,
)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_uploads_of_a_real_capture_are_those_of_memory_transfers(capture: Path) -> None:
    envelope = ask("h2d_distribution", capture)
    if envelope["status"] == "abstained":
        return
    assert len(dump_json(envelope)) <= 6000
    moved = [row for row in exact_rows("memory_transfers", capture) if row["operation"] == "h2d"]
    rows = exact_rows("h2d_distribution", capture)
    assert sum(row["total_mb"] for row in rows) == sum(row["total_mb"] for row in moved)
    assert envelope["totals"]["ops"] == sum(row["count"] for row in moved)
    cut = ask("h2d_distribution", capture, bucket_s=0.01, max_rows=1)
    assert cut["totals"]["total_mb"] == envelope["totals"]["total_mb"]
    assert len(cut["rows"]) == min(1, len(rows))


# What may be missing.


def test_a_capture_without_copies_abstains_and_says_what_to_record() -> None:
    envelope = ask("h2d_distribution", written(Capture([Kernel(100, 200, 0, 1, 7, None, 101, "k")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["copies"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")


def test_without_sizes_time_is_told_and_the_pattern_is_unknown() -> None:
    gone = Layout(drop_columns={"CUPTI_ACTIVITY_KIND_MEMCPY": frozenset({"bytes"})})
    path = written(Capture(copies=[copy(0, 1, MEGA)], calls=[Call(1, 2, 101, 101, "cudaMemcpy_v3020", 5)]), gone)
    envelope = ask("h2d_distribution", path)
    [row] = rows_of(envelope)
    assert (row["busy_ms"], row["total_mb"], row["gb_per_s"]) == (1000.0, None, None)
    unknown = {name for name, value in envelope["totals"].items() if value is None}
    assert {"pattern", "total_mb", "first_tenth_pct", "max_bucket_mb"} <= unknown
    assert envelope["status"] == "partial"


def test_graphs_traced_as_a_whole_may_hide_uploads() -> None:
    graph = GraphLaunch(SECOND, SECOND + 100, 0, 1, 7, None, 101, 1)
    envelope = ask("h2d_distribution", written(Capture(copies=[copy(0, 1, 8)], graph_launches=[graph])))
    assert envelope["status"] == "partial"


def test_a_device_without_work_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("h2d_distribution", uploads(5), device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
