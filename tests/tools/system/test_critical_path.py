from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel
from nsys_evidence.ingest.synthetic.truth import is_comm
from nsys_evidence.tools.registry import all_skills
from tests.oracle import exact, exact_rows
from tests.strategies import Span, device_key, generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves, slow_parts, with_graphs, work_span

US = 1_000
PARTS = ("compute_ms", "exposed_comm_ms", "copy_only_ms", "host_ms")
SHARES = ("compute_pct", "exposed_comm_pct", "copy_only_pct", "host_pct")
BOUNDS = ("compute", "comm", "copy", "cpu")
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def kernel(start: int, end: int, name: str = "scale", stream: int = 7, device: int = 0) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, None, 101, name)


def copy(start: int, end: int, device: int = 0) -> Copy:
    return Copy(start * US, end * US, device, 1, 8, None, 101, 4096, 1)


def table(name: str, capture: Path, which: str, **scope: Any) -> list[dict[str, Any]]:
    """The exact rows of a further table."""
    model = all_skills()[name].tables[which]
    return [dict(zip(model.model_fields, row, strict=True)) for row in exact(name, capture, **scope).tables[which].rows]


# Against the slow and obvious method.


@generated
@given(st.data())
def test_the_parts_shares_bound_and_margin_of_every_device_are_those_of_the_slow_and_obvious_method(
    data: st.DataObject,
) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    truth = slow_parts(capture, window)
    rows = exact_rows("critical_path", path, as_window(window))
    assert [(row["device"], row["process"]) for row in rows] == list(truth)
    for row, parts in zip(rows, truth.values(), strict=True):
        of = [parts.compute, parts.exposed, parts.copy_only, parts.idle]
        assert [row[name] for name in PARTS] == of
        assert sum(of) == row["span_ms"] == window.end - window.start
        check_bound(row, of, parts.span)
        assert [row[name] for name in SHARES] == [None if not parts.span else pytest.approx(p / parts.span) for p in of]
    totals = exact("critical_path", path, as_window(window)).totals
    sums = [sum(row[name] for row in rows) for name in PARTS]
    assert [totals[name] for name in PARTS] == sums
    check_bound(totals, sums, sum(sums))


def check_bound(row: Any, parts: list[int], span: int) -> None:
    second, first = sorted(parts)[-2:]
    if not span:
        assert (row["bound"], row["margin_pct"]) == (None, None)
        return
    assert row["margin_pct"] * span == first - second
    assert row["bound"] == ("mixed" if (first - second) * 20 <= span else BOUNDS[parts.index(first)])


@generated
@given(st.data())
def test_the_kernels_and_collectives_listed_are_the_three_of_each_device_with_most_time(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    result = exact("critical_path", path, as_window(window))
    for which, comm in (("kernels", False), ("collectives", True)):
        expected: list[tuple[object, ...]] = []
        every = 0
        for key in slow_parts(capture, window):
            groups = slow_groups(capture, window, key, comm)
            whole = sum(total for _, total in groups.values())
            most = sorted(groups, key=lambda name: (-groups[name][1], name.encode()))
            every += len(most)
            expected += [(*key, name, *groups[name], groups[name][1] / whole if whole else None) for name in most[:3]]
        shown = [(*row[:2], result.names.get(str(row[2]), row[2]), *row[3:]) for row in result.tables[which].rows]
        assert shown == [(*row[:5], row[5] and pytest.approx(row[5])) for row in expected]
        assert result.tables[which].total_rows == every


def slow_groups(capture: Capture, window: Span, key: object, comm: bool) -> dict[str, tuple[int, int]]:
    """Instances and total of the kernels, or the collectives, of a device in the window, by name."""
    found: dict[str, tuple[int, int]] = {}
    for one in capture.kernels:
        if device_key(capture, one) == key and is_comm(one) == comm and window.has(one):
            name = "AllReduce" if comm else one.name
            count, total = found.get(name, (0, 0))
            found[name] = (count + 1, total + window.part(one))
    return found


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels) and has_length(found)))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    rows = [exact_rows("critical_path", path, as_window(window)) for window in (whole, *parts)]
    for of_whole, first, second in zip(*rows, strict=True):
        for name in (*PARTS, "span_ms"):
            assert of_whole[name] == first[name] + second[name], name


# Against the other skills, and figures of a real capture.


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_no_other_skill_says_otherwise_of_a_real_capture(capture: Path) -> None:
    if ask("critical_path", capture)["status"] == "abstained":
        assert ask("overlap_breakdown", capture)["status"] == "abstained"
        return
    rows, broken = exact_rows("critical_path", capture), exact_rows("overlap_breakdown", capture)
    for row, parts, bubble in zip(rows, broken, exact_rows("pipeline_bubble_metrics", capture), strict=True):
        assert [row[name] for name in ("device", "process", "span_ms", *PARTS)] == [
            parts[name] for name in ("device", "process", "span_ms", *PARTS[:3], "idle_ms")
        ]
        assert (row["host_ms"], row["host_pct"]) == (bubble["idle_ms"], bubble["idle_pct"])
    top = {
        (of["device"], of["process"], of["kernel"]): (of["instances"], of["total_ms"])
        for of in table("top_kernels", capture, "by_device", by_device=True)
    }
    kernels = table("critical_path", capture, "kernels")
    assert kernels
    for row in kernels:
        assert top[row["device"], row["process"], row["kernel"]] == (row["instances"], row["total_ms"])


@needs_shared
def test_the_golden_figures_of_a_real_capture() -> None:
    # By a sweep in plain Python over the rows of the export (sqlite3), window first start to last end over both
    # devices (299,877,006 ns), collectives the kernels whose name begins with nccl, which are all SendRecv.
    envelope = ask("critical_path", SHARED / "captures" / "h100x2_nccl_2026.2.sqlite")
    assert [row[2:7] for row in envelope["rows"]] == GOLDEN_PARTS
    assert [row[-2:] for row in envelope["rows"]] == [["compute", 75.91], ["compute", 74.53]]
    assert [row[2:5] for row in envelope["tables"]["collectives"]["rows"]] == GOLDEN_COLLECTIVES
    assert len(dump_json(envelope)) < 6_000


GOLDEN_PARTS = [[299.877, 253.691, 17.173, 2.954, 26.059], [299.877, 256.096, 8.229, 2.951, 32.601]]
GOLDEN_COLLECTIVES = [["SendRecv", 33, 17.173], ["SendRecv", 33, 8.229]]


# What bounds a device, on the smallest inputs.


@pytest.mark.parametrize(
    ("capture", "bound", "margin"),
    [
        (Capture([kernel(0, 60), kernel(90, 100)]), "compute", 40.0),
        (Capture([kernel(0, 20), kernel(80, 100)]), "cpu", 20.0),
        (Capture([kernel(0, 10), kernel(5, 100, NCCL, stream=8)]), "comm", 80.0),
        (Capture([kernel(0, 10), kernel(60, 70)], [copy(10, 60)]), "copy", 42.86),
        (Capture([kernel(0, 40), kernel(85, 100)]), "compute", 10.0),
    ],
    ids=["compute", "host", "exposed communication", "copies", "ten points"],
)
def test_bound_is_the_largest_part_and_margin_its_lead_in_points(capture: Capture, bound: str, margin: float) -> None:
    [row] = rows_of(ask("critical_path", written(capture)))
    assert (row["bound"], row["margin_pct"]) == (bound, margin)


@pytest.mark.parametrize(("busy", "bound"), [(5249, "mixed"), (5250, "mixed"), (5251, "compute"), (4749, "cpu")])
def test_two_parts_within_five_points_are_mixed_and_just_beyond_they_are_not(busy: int, bound: str) -> None:
    capture = written(Capture([kernel(0, busy - 1), kernel(9_999, 10_000)]))
    assert rows_of(ask("critical_path", capture))[0]["bound"] == bound


def test_communication_that_compute_hides_bounds_nothing() -> None:
    [row] = rows_of(ask("critical_path", written(Capture([kernel(0, 100), kernel(0, 100, NCCL, stream=8)]))))
    assert (row["compute_pct"], row["exposed_comm_pct"], row["bound"]) == (100.0, 0.0, "compute")


def test_a_copy_is_no_waiting_for_the_host() -> None:
    [row] = rows_of(ask("critical_path", written(Capture([kernel(0, 10), kernel(60, 70)], [copy(10, 60)]))))
    assert (row["host_pct"], row["copy_only_pct"]) == (0.0, 71.43)


def test_devices_are_judged_each_for_itself_and_the_totals_for_all() -> None:
    capture = written(Capture([kernel(0, 100), kernel(0, 10, device=1), kernel(20, 30, NCCL, device=1)]))
    envelope = ask("critical_path", capture)
    assert [(row["device"], row["bound"]) for row in rows_of(envelope)] == [(0, "compute"), (1, "cpu")]
    assert (envelope["totals"]["bound"], envelope["totals"]["margin_pct"]) == ("compute", 15.0)
    [alone] = rows_of(ask("critical_path", capture, device=1))
    assert (alone["host_ms"], alone["span_ms"]) == (0.08, 0.1)
    assert ask("critical_path", capture, device=1)["totals"]["bound"] == "cpu"


def test_a_device_that_is_idle_in_the_window_is_bound_by_the_host_and_lists_no_kernels() -> None:
    capture = written(Capture([kernel(1000, 1010), kernel(2000, 2010, device=1)]))
    envelope = ask("critical_path", capture, trim=["0.001", "0.00101"])
    assert [(row["device"], row["bound"]) for row in rows_of(envelope)] == [(0, "compute"), (1, "cpu")]
    assert [row["device"] for row in rows_of(envelope, "kernels")] == [0]


def test_a_page_has_its_rows_and_the_totals_of_all() -> None:
    capture = written(Capture([kernel(0, 10, device=device) for device in range(3)]))
    first, whole = ask("critical_path", capture, max_rows=1, offset=1), ask("critical_path", capture)
    assert first["rows"] == whole["rows"][1:2]
    assert first["totals"] == whole["totals"]
    assert first["truncation"] == {"total_rows": 3, "shown_rows": 1, "next_offset": 2}


# What is missing.


def test_a_whole_graph_counts_as_compute_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(10 * US, 60 * US, 0, 1, 8, None, 101, 1)
    envelope = ask("critical_path", written(Capture([kernel(0, 10)], graph_launches=[graph])))
    [row] = rows_of(envelope)
    assert (envelope["status"], row["compute_ms"], row["bound"]) == ("partial", 0.06, "compute")
    assert any("1 CUDA graph" in note for note in envelope["notes"])


def test_without_kernels_it_abstains_and_names_the_flags() -> None:
    for capture in (Capture(copies=[copy(0, 10)]), Capture(calls=[Call(0, 10, 101, 101, "cudaMalloc")])):
        envelope = ask("critical_path", written(capture))
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
        assert "--trace=cuda" in envelope["capture_hint"]


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("critical_path", written(Capture([kernel(0, 10)])), device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
