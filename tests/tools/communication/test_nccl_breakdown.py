from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.units import sample_stddev
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Capture, Copy, CudaDevice, Gpu, GraphLaunch, Kernel, Layout
from nsys_evidence.ingest.synthetic.truth import intersection, length
from tests.oracle import exact, exact_rows
from tests.strategies import Span, device_key, duration, generated, has_length, mean, middle, stream_label, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.communication.collective_captures import NAMES, STORAGE, is_collective, some_window, with_collectives
from tests.tools.slow_busy import as_window, clipped, graph_key, halves, slow_parts

US = 1_000
ALL_REDUCE, TREE, MAX, REDUCE_SCATTER, SEND = NAMES


def kernel(start: int, end: int, name: str = ALL_REDUCE, stream: int = 7, device: int = 0, pid: int = 101) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, None, pid, name)


# Against the slow and obvious method.


def slow_rows(capture: Capture, window: Span) -> list[dict[str, object]]:
    groups: dict[tuple[object, ...], list[Kernel]] = {}
    for k in capture.kernels:
        if is_collective(k) and window.has(k):
            key = (*device_key(capture, k), stream_label(capture, k), *NAMES[k.name])
            groups.setdefault(key, []).append(k)
    rows = []
    parts = slow_parts(capture, window)
    for (device, process, stream, collective, variant), members in groups.items():
        here = (device, process)
        others = [k for k in capture.kernels if not is_collective(k) and device_key(capture, k) == here]
        compute = clipped([*others, *(g for g in capture.graph_launches if graph_key(capture, g) == here)], window)
        mine = clipped(members, window)
        times = [duration(k) for k in members]
        spread = sample_stddev(len(times), sum(times), sum(t * t for t in times))
        comm = parts[here].comm  # type: ignore[index]
        rows.append(
            {
                "device": device,
                "process": process,
                "stream": stream,
                "collective": collective,
                "variant": variant,
                "count": len(members),
                "total_ms": sum(map(window.part, members)),
                "busy_ms": length(mine),
                "share_pct": Fraction(length(mine), comm) if comm else None,
                "avg_us": mean(times),
                "med_us": middle(times),
                "min_us": min(times),
                "max_us": max(times),
                "cv": spread / mean(times) if spread is not None and sum(times) else None,
                "exposed_ms": length(mine) - length(intersection(mine, compute)),
            }
        )
    return rows


def by_key(rows: list[dict[str, object]]) -> dict[tuple[object, ...], dict[str, object]]:
    found = {tuple(row[c] for c in ("device", "process", "stream", "collective", "variant")): row for row in rows}
    assert len(found) == len(rows)
    return found


@generated
@given(st.data())
def test_every_figure_of_every_row_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_collectives())
    path, window = written(capture), some_window(data, capture)
    rows = exact_rows("nccl_breakdown", path, as_window(window))
    assert by_key(rows) == by_key(slow_rows(capture, window))
    assert [row["total_ms"] for row in rows] == sorted((row["total_ms"] for row in rows), reverse=True)


@generated
@given(st.data())
def test_totals_cover_all_rows_and_are_those_of_overlap_breakdown(data: st.DataObject) -> None:
    capture = data.draw(with_collectives())
    path, window = written(capture), as_window(some_window(data, capture))
    totals, rows = exact("nccl_breakdown", path, window).totals, exact_rows("nccl_breakdown", path, window)
    overlap = exact("overlap_breakdown", path, window).totals
    assert (totals["busy_ms"], totals["exposed_ms"]) == (overlap["comm_ms"], overlap["exposed_comm_ms"])
    assert totals["count"] == sum(row["count"] for row in rows)
    assert totals["total_ms"] == sum(row["total_ms"] for row in rows)
    assert totals["streams"] == len({(row["device"], row["process"], row["stream"]) for row in rows})
    assert totals["devices"] == len({(row["device"], row["process"]) for row in rows})


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_collectives().filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    of_whole, first, second = (by_key(exact_rows("nccl_breakdown", path, as_window(w))) for w in (whole, *parts))
    for key, row in of_whole.items():
        for name in ("total_ms", "busy_ms", "exposed_ms"):
            assert row[name] == sum(part[key][name] for part in (first, second) if key in part), name  # type: ignore[misc]


def on_one_comm_stream(capture: Capture) -> Capture:
    """The same capture with the collectives of a device one after the other on a stream of their own."""
    origin = min(k.start for k in capture.kernels if k.start is not None)
    now = dict.fromkeys({k.device for k in capture.kernels}, origin)
    placed = []
    for k in capture.kernels:
        if is_collective(k):
            start, end = now[k.device], now[k.device] + duration(k)
            now[k.device] = end
            k = Kernel(start, end, k.device, 1, 99, None, 101, k.name)
        placed.append(k)
    capture.kernels[:] = placed
    return capture


@generated
@given(with_collectives())
def test_where_collectives_run_on_one_stream_exposed_times_add_up_to_that_of_overlap_breakdown(drawn: Capture) -> None:
    capture = on_one_comm_stream(drawn)
    path = written(capture)
    rows = exact_rows("nccl_breakdown", path)
    for device in exact_rows("overlap_breakdown", path):
        mine = [row for row in rows if (row["device"], row["process"]) == (device["device"], device["process"])]
        assert sum(row["exposed_ms"] for row in mine) == device["exposed_comm_ms"]
        assert sum(row["busy_ms"] for row in mine) == device["comm_ms"]
        assert sum(row["share_pct"] or 0 for row in mine) == (1 if device["comm_ms"] else 0)


# A real capture.


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_totals_of_a_real_capture_are_those_of_overlap_breakdown(capture: Path) -> None:
    if ask("overlap_breakdown", capture)["status"] == "abstained":
        assert ask("nccl_breakdown", capture)["missing"] == ["kernels"]
        return
    totals, overlap = exact("nccl_breakdown", capture).totals, exact("overlap_breakdown", capture).totals
    assert (totals["busy_ms"], totals["exposed_ms"]) == (overlap["comm_ms"], overlap["exposed_comm_ms"])


@needs_shared
def test_a_real_capture_says_what_its_kernel_table_says() -> None:
    # SELECT deviceId, streamId, count(*), sum(end-start), min(end-start), max(end-start) FROM the kernel table, names
    # that begin with nccl: 0|7|33|17172652|99808|3603569 and 1|15|33|8229100|89440|1825243; the 17th of the 33 sorted
    # durations is 168224 and 128703; no other kernel of the device overlaps any of them.
    envelope = ask("nccl_breakdown", SHARED / "captures" / "h100x2_nccl_2026.2.sqlite")
    assert envelope["rows"] == [
        [0, None, "7", "SendRecv", None, 33, 17.173, 17.173, 100.0, 520.383, 168.224, 99.808, 3603.569, 1.5788, 17.173],
        [1, None, "15", "SendRecv", None, 33, 8.229, 8.229, 100.0, 249.367, 128.703, 89.44, 1825.243, 1.2856, 8.229],
    ]
    assert len(dump_json(envelope)) < 6_000


# Words.


def test_reduce_scatter_is_no_reduce_and_protocols_of_one_collective_are_one_row() -> None:
    kernels = [kernel(0, 10), kernel(20, 30, TREE), kernel(40, 45, REDUCE_SCATTER), kernel(50, 52, MAX)]
    rows = rows_of(ask("nccl_breakdown", written(Capture(kernels))))
    assert [(row["collective"], row["variant"], row["count"]) for row in rows] == [
        ("AllReduce", "Sum_bf16", 2),
        ("ReduceScatter", "Sum_bf16", 1),
        ("AllReduce", "Max_f32", 1),
    ]


def test_a_collective_that_the_name_does_not_tell_stays_visible_and_a_packing_kernel_is_none() -> None:
    kernels = [kernel(0, 10, f"ncclDevKernel_Generic_1{STORAGE}"), kernel(20, 30, "pack_for_nccl_bucket_kernel")]
    envelope = ask("nccl_breakdown", written(Capture(kernels)))
    [row] = rows_of(envelope)
    assert (row["collective"], row["variant"], row["cv"], row["share_pct"]) == ("Generic", None, None, 100.0)
    assert any("kernel names" in note and "waiting for peers" in note for note in envelope["notes"])


def test_collectives_of_two_streams_at_once_are_said_not_to_add_up() -> None:
    envelope = ask("nccl_breakdown", written(Capture([kernel(0, 20), kernel(10, 30, stream=8)])))
    assert [row["busy_ms"] for row in rows_of(envelope)] == [0.02, 0.02]
    assert (envelope["totals"]["busy_ms"], envelope["totals"]["exposed_ms"]) == (0.03, 0.03)
    assert any("at once" in note for note in envelope["notes"])
    apart = ask("nccl_breakdown", written(Capture([kernel(0, 20), kernel(20, 30, stream=8)])))
    assert not any("at once" in note for note in apart["notes"])


def test_compute_of_another_device_hides_nothing_and_copies_do_not_either() -> None:
    copies = [Copy(0, 30 * US, 0, 1, 9, None, 101, 4096, 1)]
    kernels = [kernel(0, 20), kernel(0, 20, "scale", device=1), kernel(15, 30, "scale", stream=8)]
    [row] = rows_of(ask("nccl_breakdown", written(Capture(kernels, copies))))
    assert row["exposed_ms"] == 0.015


def test_collectives_of_two_processes_on_one_gpu_are_rows_of_their_own_streams() -> None:
    gpus, maps = [Gpu(0, "NVIDIA Test", "GT000", 10**12, 10**10, 100, 0)], [CudaDevice(0, 0, pid) for pid in (101, 102)]
    capture = Capture([kernel(0, 10), kernel(20, 25, pid=102)], gpus=gpus, cuda_devices=maps)
    rows = rows_of(ask("nccl_breakdown", written(capture)))
    assert [(row["process"], row["stream"], row["share_pct"]) for row in rows] == [
        (None, "101/1:7", 66.67),
        (None, "102/1:7", 33.33),
    ]


def test_a_page_has_its_rows_and_totals_of_all() -> None:
    capture = written(Capture([kernel(0, 10), kernel(20, 35, SEND), kernel(40, 45, MAX)]))
    envelope = ask("nccl_breakdown", capture, max_rows=1, offset=1)
    assert [row["variant"] for row in rows_of(envelope)] == ["Sum_bf16"]
    assert (envelope["totals"]["count"], envelope["truncation"]["total_rows"]) == (3, 3)


# What may be missing.


def test_kernels_without_collectives_are_found_to_be_nothing_and_that_is_said() -> None:
    envelope = ask("nccl_breakdown", written(Capture([kernel(0, 10, "scale")])))
    assert (envelope["status"], envelope["rows"], envelope["totals"]["count"]) == ("empty", [], 0)
    assert any("no kernel in scope is a collective" in note for note in envelope["notes"])


def test_a_window_and_a_device_without_collectives_are_empty() -> None:
    capture = written(Capture([kernel(0, 10, "scale", device=1), kernel(20, 30)]))
    assert ask("nccl_breakdown", capture, trim=[0, "0.00001"])["status"] == "empty"
    assert ask("nccl_breakdown", capture, device=1)["status"] == "empty"
    assert ask("nccl_breakdown", capture, device=0)["status"] == "ok"


def test_a_graph_traced_as_a_whole_hides_collectives_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(5 * US, 30 * US, 0, 1, 8, None, 101, 1)
    envelope = ask("nccl_breakdown", written(Capture([kernel(0, 10)], graph_launches=[graph])))
    assert envelope["status"] == "partial"
    assert rows_of(envelope)[0]["exposed_ms"] == 0.005
    assert any("hidden" in note for note in envelope["notes"])


def test_without_kernels_it_abstains_and_says_what_to_record() -> None:
    capture = Capture(copies=[Copy(0, 10 * US, 0, 1, 7, None, 101, 4096, 1)])
    for layout in (Layout(), Layout(empty_tables=True)):
        envelope = ask("nccl_breakdown", written(capture, layout))
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
        assert envelope["capture_hint"].startswith("nsys profile")


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("nccl_breakdown", written(Capture([kernel(0, 10)])), device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
