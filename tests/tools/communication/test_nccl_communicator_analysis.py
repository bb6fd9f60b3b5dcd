from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Kernel, NcclPayload, Range, demo_capture
from nsys_evidence.tools.communication.bandwidth import bus_factor, moved_bytes
from tests.oracle import exact, exact_rows
from tests.strategies import Span, duration, generated, trims
from tests.support import ask, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import capture_span, users_of
from tests.tools.slow_nccl import (
    NCCL_KERNEL,
    OPERATIONS,
    collectives_of,
    message_calls,
    nccl_captures,
    payload_of,
    shown_communicator,
    starting,
)

MS = 1_000_000


def expected(
    capture: Capture, span: Span, pids: set[int] | None = None, device: int | None = None
) -> tuple[dict[tuple[str | None, str], dict[str, Any]], int]:
    """The figures of each row by communicator and operation, in ns; and how many calls have no kernel."""
    sizes: dict[int | None, set[int]] = {}
    for r in capture.ranges:
        if r.text == "ncclCommInitRank":
            sizes.setdefault(payload_of(r).communicator, set()).add(payload_of(r).ranks or 0)
    kernels = {id(c): collectives_of(capture, c) for c in message_calls(capture)}
    here = {key: [k for k in found if device in (None, k.device)] for key, found in kernels.items()}
    calls = [c for c in message_calls(capture, pids) if here[id(c)] or not kernels[id(c)]]
    rows, timeless = {}, 0
    for text, communicator in {(c.text, payload_of(c).communicator) for c in calls}:
        mine = [c for c in calls if (c.text, payload_of(c).communicator) == (text, communicator)]
        all_kernels = [k for c in mine for k in here[id(c)]]
        if not any(map(span.has, (*mine, *all_kernels))):
            continue
        ranks = sizes.get(communicator, set())
        n = next(iter(ranks)) if len(ranks) == 1 else None
        timed = [c for c in starting(mine, span) if here[id(c)]]
        whole = sum(duration(k) for c in timed for k in here[id(c)])
        moved = sum(payload_of(c).bytes or 0 for c in timed)
        operation = OPERATIONS[str(text)]
        algorithm = Fraction(moved, whole) if whole else None
        factor: Fraction | None = Fraction(1)
        if operation in ("AllGather", "AllToAll"):
            algorithm = algorithm * n if algorithm is not None and n else None
            factor = Fraction(n - 1, n) if n else None
        if operation == "AllReduce":
            factor = Fraction(2 * (n - 1), n) if n else None
        timeless += len(starting(mine, span)) - len(timed)
        rows[shown_communicator(communicator), operation] = {
            "ranks": n,
            "calls": sum(map(span.has, mine)),
            "bytes": sum(payload_of(c).bytes or 0 for c in starting(mine, span)),
            "time_ms": sum(map(span.part, all_kernels)) if all_kernels else None,
            "algbw_gb_per_s": algorithm,
            "busbw_gb_per_s": None if algorithm is None or factor is None else algorithm * factor,
        }
    return rows, timeless


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(nccl_captures())
    path, whole = written(capture), capture_span(capture)
    for span in (whole, data.draw(trims(capture))):
        rows, timeless = expected(capture, span)
        result = exact("nccl_communicator_analysis", path, as_window(span))
        found = exact_rows("nccl_communicator_analysis", path, as_window(span))
        keys = [(row.pop("communicator"), row.pop("collective")) for row in found]
        assert dict(zip(keys, found, strict=True)) == rows
        assert keys == sorted(keys, key=lambda key: (-(rows[key]["time_ms"] or 0), key[0] or "", key[1]))
        times = [row["time_ms"] for row in rows.values() if row["time_ms"] is not None]
        assert result.totals == {
            "communicators": len({key[0] for key in rows} - {None}),
            "calls": sum(row["calls"] for row in rows.values()),
            "bytes": sum(row["bytes"] for row in rows.values()),
            "time_ms": sum(times) if times else None,
            "calls_without_kernel": timeless,
        }


@generated
@given(st.data())
def test_with_a_device_its_kernels_and_the_calls_of_its_processes_count(data: st.DataObject) -> None:
    capture = data.draw(nccl_captures().filter(lambda c: any(k.device == 1 for k in c.kernels)))
    whole = capture_span(capture)
    envelope = ask("nccl_communicator_analysis", written(capture), device=1, max_rows=200)
    rows, timeless = expected(capture, whole, users_of(capture, 1), 1)
    shown = {(row["communicator"], row["collective"]): row for row in rows_of(envelope)}
    assert shown.keys() == rows.keys()
    for key, row in rows.items():
        assert (shown[key]["calls"], shown[key]["bytes"]) == (row["calls"], row["bytes"])
        assert (shown[key]["time_ms"] is None) == (row["time_ms"] is None)
        assert shown[key]["time_ms"] == pytest.approx(row["time_ms"] and row["time_ms"] / MS, abs=0.00051)
    assert envelope["totals"]["calls_without_kernel"] == timeless


@generated
@given(st.data())
def test_times_and_bytes_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(nccl_captures())
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("nccl_communicator_analysis", path, as_window(window)).totals for window in windows]
    for key in ("time_ms", "bytes"):
        assert (totals[0][key] or 0) == (totals[1][key] or 0) + (totals[2][key] or 0)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("operation", "moved", "factor"),
    [
        ("AllReduce", 100, Fraction(14, 8)),
        ("AllGather", 800, Fraction(7, 8)),
        ("ReduceScatter", 800, Fraction(7, 8)),
        ("AllToAll", 800, Fraction(7, 8)),
        ("Gather", 800, Fraction(7, 8)),
        ("Scatter", 800, Fraction(7, 8)),
        ("Broadcast", 100, 1),
        ("Reduce", 100, 1),
        ("Send", 100, 1),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(operation: str, moved: int, factor: Fraction) -> None:
    assert (moved_bytes(operation, 100, 8), bus_factor(operation, 8)) == (moved, factor)


def test_of_a_communicator_that_nobody_was_seen_to_create_the_ranks_are_unknown_and_not_one() -> None:
    assert bus_factor("AllReduce", None) is None
    assert moved_bytes("AllGather", 100, None) is None
    assert moved_bytes("AllReduce", 100, None) == 100
    capture = Capture(
        kernels=[Kernel(30, 1030, 0, 1, 7, 1, 101, NCCL_KERNEL)],
        calls=[Call(12, 15, 101, 101, "cudaLaunchKernel", 1)],
        ranges=[Range(10, 20, 101, 101, "ncclAllReduce", 1, payload=NcclPayload(5, 4000))],
    )
    envelope = ask("nccl_communicator_analysis", written(capture))
    [row] = rows_of(envelope)
    assert (row["ranks"], row["algbw_gb_per_s"], row["busbw_gb_per_s"]) == (None, 4.0, None)
    assert envelope["status"] == "partial"
    assert any("ranks of 1 communicators" in note for note in envelope["notes"])


def test_a_call_in_a_group_has_no_time_and_that_is_said() -> None:
    capture = Capture(
        kernels=[Kernel(40, 1040, 0, 1, 7, 1, 101, NCCL_KERNEL)],
        calls=[Call(32, 35, 101, 101, "cudaLaunchKernel", 1)],
        ranges=[
            Range(5, 8, 101, 101, "ncclCommInitRank", 1, payload=NcclPayload(5, ranks=2, rank=0)),
            Range(10, 20, 101, 101, "ncclAllReduce", 1, payload=NcclPayload(5, 4000)),
            Range(30, 38, 101, 101, "ncclGroupEnd", 1),
        ],
    )
    envelope = ask("nccl_communicator_analysis", written(capture))
    [row] = rows_of(envelope)
    assert (row["calls"], row["bytes"], row["time_ms"], row["algbw_gb_per_s"]) == (1, 4000, None, None)
    assert (envelope["status"], envelope["totals"]["calls_without_kernel"]) == ("partial", 1)
    assert any(note.startswith("1 calls launched no collective") for note in envelope["notes"])


def test_the_bandwidth_of_the_demo_is_that_of_its_planted_sizes_and_kernels() -> None:
    """The kernels of AllReduce take some time in all; 16 calls of 64 MiB by 2 ranks: factor 2(2-1)/2 = 1."""
    capture = demo_capture()[0]
    rows = {row["collective"]: row for row in exact_rows("nccl_communicator_analysis", written(capture))}
    time = sum(duration(k) for k in capture.kernels if "AllReduce" in k.name)
    assert rows["AllReduce"]["time_ms"] == time
    assert rows["AllReduce"]["busbw_gb_per_s"] == rows["AllReduce"]["algbw_gb_per_s"] == Fraction(16 * (64 << 20), time)
    time = sum(duration(k) for k in capture.kernels if "ReduceScatter" in k.name)
    assert rows["ReduceScatter"]["algbw_gb_per_s"] == Fraction(2 * 32 * (48 << 20), time)
    assert rows["ReduceScatter"]["busbw_gb_per_s"] == Fraction(32 * (48 << 20), time)
