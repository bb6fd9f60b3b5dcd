from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout
from tests.oracle import exact, exact_rows
from tests.strategies import device_key, generated, has_length, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves, slow_parts, with_graphs, work_span

US = 1_000
PARTS = ("compute_ms", "exposed_comm_ms", "copy_only_ms", "idle_ms")
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def kernel(start: int, end: int, name: str = "scale", stream: int = 7, device: int = 0) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, None, 101, name)


@generated
@given(st.data())
def test_every_figure_of_every_device_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    truth = slow_parts(capture, window)
    rows = exact_rows("overlap_breakdown", path, as_window(window))
    assert [(row["device"], row["process"]) for row in rows] == list(truth)
    for row, parts in zip(rows, truth.values(), strict=True):
        assert (row["span_ms"], row["compute_ms"], row["comm_ms"]) == (parts.span, parts.compute, parts.comm)
        assert (row["overlap_ms"], row["exposed_comm_ms"]) == (parts.overlap, parts.exposed)
        assert (row["copy_only_ms"], row["idle_ms"]) == (parts.copy_only, parts.idle)
        assert sum(row[name] for name in PARTS) == row["span_ms"]


@generated
@given(st.data())
def test_a_stream_is_shared_when_both_kinds_of_kernel_are_in_the_window(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    for row in exact_rows("overlap_breakdown", path, as_window(window)):
        here = [k for k in capture.kernels if device_key(capture, k) == (row["device"], row["process"])]
        kinds = {(k.pid, k.device, k.context, k.stream, k.name.startswith("nccl")) for k in here if window.has(k)}
        streams = {tuple(stream) for *stream, _ in kinds}
        assert row["shared_streams"] == len(kinds) - len(streams)


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda found: bool(found.kernels) and has_length(found)))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    rows = [exact_rows("overlap_breakdown", path, as_window(window)) for window in (whole, *parts)]
    for of_whole, first, second in zip(*rows, strict=True):
        for name in (*PARTS, "span_ms", "comm_ms", "overlap_ms"):
            assert of_whole[name] == first[name] + second[name], name


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_parts_of_a_real_capture_add_up_to_the_span_to_the_nanosecond(capture: Path) -> None:
    envelope = ask("overlap_breakdown", capture)
    if envelope["status"] == "abstained":
        assert envelope["missing"] == ["kernels"]
        return
    result = exact_rows("overlap_breakdown", capture)
    assert result
    for row in result:
        assert sum(row[name] for name in PARTS) == row["span_ms"]
        assert row["overlap_ms"] + row["exposed_comm_ms"] == row["comm_ms"]
    totals = exact("overlap_breakdown", capture).totals
    assert sum(totals[name] for name in PARTS) == totals["span_ms"]  # type: ignore[misc]


def test_overlap_is_counted_once_and_copies_alone_are_neither_compute_nor_idle() -> None:
    copies = [Copy(30 * US, 50 * US, 0, 1, 9, None, 101, 4096, 1)]
    kernels = [kernel(0, 20), kernel(10, 40, NCCL, stream=8), kernel(45, 60)]
    [row] = rows_of(ask("overlap_breakdown", written(Capture(kernels, copies))))
    shown = {name: row[name] for name in ("compute_ms", "comm_ms", "overlap_ms", *PARTS[1:], "overlap_pct")}
    assert shown == {
        "compute_ms": 0.035,
        "comm_ms": 0.03,
        "overlap_ms": 0.01,
        "exposed_comm_ms": 0.02,
        "copy_only_ms": 0.005,
        "idle_ms": 0.0,
        "overlap_pct": 33.33,
    }
    assert row["shared_streams"] == 0


def test_without_communication_its_overlap_is_unknown_and_not_zero_percent() -> None:
    envelope = ask("overlap_breakdown", written(Capture([kernel(0, 20)])))
    assert rows_of(envelope)[0]["overlap_pct"] is None
    assert envelope["totals"]["overlap_pct"] is None
    assert not any("kernel names" in note for note in envelope["notes"])


def test_that_communication_is_told_by_names_is_said() -> None:
    notes = ask("overlap_breakdown", written(Capture([kernel(0, 20, NCCL)])))["notes"]
    assert any("kernel names" in note and "waiting for peers" in note for note in notes)


def test_a_kernel_that_packs_for_nccl_is_compute() -> None:
    [row] = rows_of(ask("overlap_breakdown", written(Capture([kernel(0, 20, "pack_for_nccl_bucket_kernel")]))))
    assert (row["compute_ms"], row["comm_ms"]) == (0.02, 0.0)


def test_an_idle_device_has_its_row() -> None:
    capture = written(Capture([kernel(1000, 1010), kernel(2000, 2010, device=3)]))
    rows = rows_of(ask("overlap_breakdown", capture, trim=["0.001", "0.00101"]))
    assert [(row["device"], row["idle_ms"], row["span_ms"]) for row in rows] == [(0, 0.0, 0.01), (3, 0.01, 0.01)]


def test_without_kernels_it_abstains_whether_the_exporter_wrote_an_empty_table_or_none() -> None:
    capture = Capture(copies=[Copy(0, 10 * US, 0, 1, 7, None, 101, 4096, 1)])
    for layout in (Layout(), Layout(empty_tables=True)):
        assert ask("overlap_breakdown", written(capture, layout))["missing"] == ["kernels"]


def test_a_whole_graph_counts_as_compute_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(5 * US, 30 * US, 0, 1, 8, None, 101, 1)
    envelope = ask("overlap_breakdown", written(Capture([kernel(0, 10, NCCL)], graph_launches=[graph])))
    [row] = rows_of(envelope)
    assert envelope["status"] == "partial"
    assert (row["compute_ms"], row["overlap_ms"], row["exposed_comm_ms"]) == (0.025, 0.005, 0.005)


def test_a_graph_outside_the_window_leaves_the_answer_whole() -> None:
    graph = GraphLaunch(50 * US, 60 * US, 0, 1, 8, None, 101, 1)
    capture = written(Capture([kernel(0, 10)], graph_launches=[graph], calls=[Call(0, 5, 101, 101, "cudaMalloc")]))
    assert ask("overlap_breakdown", capture, trim=[0, "0.00001"])["status"] == "ok"


def test_graphs_without_a_kernel_table_tell_no_communication_and_it_abstains() -> None:
    graph = GraphLaunch(0, 30 * US, 0, 1, 8, None, 101, 1)
    assert ask("overlap_breakdown", written(Capture(graph_launches=[graph])))["missing"] == ["kernels"]
