from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.window import Window
from nsys_evidence.ingest.synthetic import Call, Capture, GraphLaunch, Kernel, Layout, capture_window
from nsys_evidence.ingest.synthetic.truth import length
from nsys_evidence.tools.run import Envelope
from tests import strategies as plain
from tests.oracle import Report, exact, exact_rows, walk, with_reports
from tests.strategies import KERNEL_NAMES, Span, captures, ends, generated, gpu_span, has_length, trims
from tests.support import ask, rows_of, workspace, written

TENSOR_CORE = dict(
    zip(KERNEL_NAMES, ("used", "eligible_unused", "not_eligible", "not_eligible", "not_eligible"), strict=True)
)


def kernel(start: int, end: int, name: str = "void scale<float>(float *, int)", device: int = 0) -> Kernel:
    return Kernel(start, end, device, 1, 7, None, 101, name)


def full_names(envelope: Envelope) -> dict[str, str]:
    kept = workspace().ledger.get(envelope["evidence"])
    assert kept is not None
    return kept[1]


# Against nsys stats.


@with_reports("cuda_gpu_kern_sum")
def test_every_kernel_agrees_with_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    result = exact("top_kernels", capture)
    rows = {result.names[row["kernel"]]: row for row in exact_rows("top_kernels", capture)}
    assert rows.keys() == {row["Name"] for row in report}
    for expected in report:
        row = rows[expected["Name"]]
        assert row["total_ms"] == int(expected["Total Time (ns)"])
        assert row["instances"] == int(expected["Instances"])
        assert (row["min_us"], row["max_us"]) == (int(expected["Min (ns)"]), int(expected["Max (ns)"]))
        assert row["med_us"] == Fraction(expected["Med (ns)"])
        assert float(row["avg_us"]) == pytest.approx(float(expected["Avg (ns)"]), abs=0.051)
        if row["instances"] > 1:
            assert float(row["stddev_us"]) == pytest.approx(float(expected["StdDev (ns)"]), abs=0.051)
        assert float(row["share_pct"]) * 100 == pytest.approx(float(expected["Time (%)"]), abs=0.051)
    assert result.totals["total_ms"] == sum(int(row["Total Time (ns)"]) for row in report)
    assert result.totals["instances"] == sum(int(row["Instances"]) for row in report)
    assert result.totals["clipped"] == 0


@with_reports("cuda_gpu_kern_sum")
def test_walking_the_pages_shows_every_kernel_of_nsys_stats_rounded_once(capture: Path, report: Report) -> None:
    rows, names = walk("top_kernels", capture)
    assert len({row["kernel"] for row in rows}) == len(rows) == len(report)
    by_name = {names[row["kernel"]]: row for row in rows}
    for expected in report:
        row = by_name[expected["Name"]]
        total = int(expected["Total Time (ns)"])
        assert row["total_ms"] == plain.ms(total)
        assert row["avg_us"] == plain.us(Fraction(total, int(expected["Instances"])))
        assert row["med_us"] == plain.shown_decimal(expected["Med (ns)"], 1000)
        assert row["min_us"] == plain.shown_decimal(expected["Min (ns)"], 1000)
        assert row["max_us"] == plain.shown_decimal(expected["Max (ns)"], 1000)


# Against sums in plain Python.


@generated
@given(st.data())
def test_rows_and_totals_agree_with_sums_in_plain_python(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda c: bool(c.kernels)))
    path = written(capture)
    check(ask("top_kernels", path, max_rows=200), capture, capture.kernels, gpu_span(capture))
    if has_length(capture):
        span = data.draw(trims(capture))
        check(ask("top_kernels", path, max_rows=200, trim=span.trim), capture, capture.kernels, span)
    device = data.draw(st.sampled_from(sorted({work.device for work in plain.all_work(capture)})))
    chosen = [k for k in capture.kernels if k.device == device]
    check(ask("top_kernels", path, max_rows=200, device=device), capture, chosen, gpu_span(capture))


def check(envelope: Envelope, capture: Capture, kernels: list[Kernel], span: Span) -> None:
    groups: dict[str, list[Kernel]] = defaultdict(list)
    for k in kernels:
        if span.has(k):
            groups[k.name].append(k)
    totals = {name: sum(map(span.part, group)) for name, group in groups.items()}
    everything = sum(totals.values())
    texts = full_names(envelope)
    assert envelope["status"] == ("ok" if groups else "empty")
    rows = rows_of(envelope)
    assert [texts[row["kernel"]] for row in rows] == sorted(groups, key=lambda name: (-totals[name], name))
    for row in rows:
        name = texts[row["kernel"]]
        durations = [plain.duration(k) for k in groups[name]]
        assert row["instances"] == len(durations)
        assert row["total_ms"] == plain.ms(totals[name])
        assert row["share_pct"] == plain.pct(totals[name], everything)
        assert row["avg_us"] == plain.us(plain.mean(durations))
        assert row["med_us"] == plain.us(plain.middle(durations))
        assert row["min_us"] == plain.us(min(durations))
        assert row["max_us"] == plain.us(max(durations))
        if len(durations) == 1:
            assert row["stddev_us"] is None
        else:
            assert row["stddev_us"] == pytest.approx(stdev(durations) / 1000, rel=1e-9, abs=0.00051)
        assert row["tensor_core"] == TENSOR_CORE[name]
    busy: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for k in kernels:
        start, end = ends(k)
        busy[plain.device_key(capture, k)].append((max(start, span.start), min(end, span.end)))
    assert envelope["totals"] == {
        "kernels": len(groups),
        "instances": sum(map(len, groups.values())),
        "total_ms": plain.ms(everything),
        "busy_ms": plain.ms(sum(map(length, busy.values()))),
        "clipped": sum(span.cuts(k) for group in groups.values() for k in group),
    }


@generated
@given(st.data())
def test_times_of_adjoining_windows_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda c: bool(c.kernels) and has_length(c)))
    path = written(capture)
    first, last = capture_window(capture)
    cuts = sorted({first, last, *data.draw(st.lists(st.integers(first, last), max_size=3))})
    parts = [exact("top_kernels", path, Window(a, b, "test", includes_end=b == last)) for a, b in pairwise(cuts)]
    whole = exact("top_kernels", path, Window(first, last, "test", includes_end=True))
    for figure in ("total_ms", "busy_ms"):
        assert sum(int(str(part.totals[figure])) for part in parts) == whole.totals[figure]


@generated
@given(captures().filter(lambda c: bool(c.kernels)))
def test_the_table_by_device_splits_each_row_over_the_devices(capture: Capture) -> None:
    envelope = ask("top_kernels", written(capture), by_device=True, max_rows=200)
    texts = full_names(envelope)
    groups: dict[tuple[str, int, int | None], list[Kernel]] = defaultdict(list)
    for k in capture.kernels:
        groups[k.name, *plain.device_key(capture, k)].append(k)
    rows = rows_of(envelope, "by_device")
    order = [row["kernel"] for row in rows_of(envelope)]
    keys = [(texts[row["kernel"]], row["device"], row["process"]) for row in rows]
    assert sorted(keys, key=str) == sorted(groups, key=str)
    assert [(order.index(row["kernel"]), row["device"], row["process"] or 0) for row in rows] == sorted(
        (order.index(row["kernel"]), row["device"], row["process"] or 0) for row in rows
    )
    for row, key in zip(rows, keys, strict=True):
        durations = [plain.duration(k) for k in groups[key]]
        on_device = [plain.duration(k) for k in capture.kernels if plain.device_key(capture, k) == key[1:]]
        assert (row["instances"], row["total_ms"]) == (len(durations), plain.ms(sum(durations)))
        assert row["share_pct"] == plain.pct(sum(durations), sum(on_device))
        assert row["med_us"] == plain.us(plain.middle(durations))


# What may be missing.


def test_a_device_without_work_is_refused_with_the_devices_that_exist() -> None:
    path = written(Capture(kernels=[kernel(100, 200, device=1), kernel(100, 200, device=3)]))
    with pytest.raises(EvidenceError) as refused:
        ask("top_kernels", path, device=0)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
    assert refused.value.facts["devices"] == [1, 3]


@pytest.mark.parametrize("empty_tables", [False, True])
def test_a_capture_without_kernels_abstains_and_says_what_to_record(empty_tables: bool) -> None:
    capture = Capture(calls=[Call(100, 200, 101, 101, "cudaMalloc_v3020")])
    envelope = ask("top_kernels", written(capture, Layout(empty_tables=empty_tables)))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
    assert envelope["capture_hint"].startswith("nsys profile --trace=cuda")
    assert envelope["totals"] is None


def test_a_window_between_kernels_is_empty() -> None:
    path = written(Capture(kernels=[kernel(10**9, 2 * 10**9), kernel(5 * 10**9, 6 * 10**9)]))
    envelope = ask("top_kernels", path, trim=[3, 4])
    assert (envelope["status"], envelope["totals"]["instances"]) == ("empty", 0)


def test_a_device_that_only_copied_in_the_window_is_empty_and_not_refused() -> None:
    path = written(Capture(kernels=[kernel(10**9, 2 * 10**9), kernel(10**9, 5 * 10**9, device=1)]))
    assert ask("top_kernels", path, trim=[3, 4], device=0)["status"] == "empty"


def test_graphs_traced_as_a_whole_make_the_answer_partial() -> None:
    graph = GraphLaunch(150, 400, 0, 1, 7, 5, 101, 1)
    envelope = ask("top_kernels", written(Capture(kernels=[kernel(100, 200)], graph_launches=[graph])))
    assert envelope["status"] == "partial"
    assert any("--cuda-graph-trace=node" in note for note in envelope["notes"])
    assert envelope["totals"]["instances"] == 1
    assert envelope["totals"]["busy_ms"] == plain.ms(300)


# Pages.


def test_totals_cover_all_rows_on_every_page_and_past_the_last() -> None:
    names = [f"void kernel_{letter}(int)" for letter in "abcde"]
    path = written(Capture(kernels=[kernel(1000 + i, 1500 - i, name) for i, name in enumerate(names)]))
    whole = ask("top_kernels", path)
    assert whole["truncation"] is None
    page = ask("top_kernels", path, max_rows=2, offset=2)
    assert rows_of(page) == rows_of(whole)[2:4]
    assert page["truncation"] == {"total_rows": 5, "shown_rows": 2, "next_offset": 4}
    past = ask("top_kernels", path, offset=9)
    assert past["rows"] == []
    assert past["truncation"] == {"total_rows": 5, "shown_rows": 0, "next_offset": None}
    assert whole["totals"] == page["totals"] == past["totals"]


def test_kernels_of_equal_time_are_in_order_of_their_names() -> None:
    kernels = [kernel(100, 200, f"void k{i}()") for i in (3, 1, 2)]
    assert [row["kernel"] for row in rows_of(ask("top_kernels", written(Capture(kernels=kernels))))] == [
        "k1",
        "k2",
        "k3",
    ]
