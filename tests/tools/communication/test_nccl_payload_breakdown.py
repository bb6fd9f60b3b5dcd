from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Layout, NcclPayload, Range, demo_capture
from tests.oracle import exact
from tests.strategies import Span, generated, middle, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import capture_span, users_of
from tests.tools.slow_nccl import OPERATIONS, message_calls, nccl_captures, payload_of, shown_communicator, starting


def call(start: int, payload: NcclPayload | bytes, name: str = "ncclSend", pid: int = 101) -> Range:
    return Range(start, start + 10, pid, pid, name, 1, payload=payload)


def expected(capture: Capture, span: Span, pids: set[int] | None = None) -> list[dict[str, Any]]:
    calls = [one for one in message_calls(capture, pids) if span.has(one)]
    rows = []
    for key in {(one.text, payload_of(one).communicator) for one in calls}:
        mine = [one for one in calls if (one.text, payload_of(one).communicator) == key]
        sizes = [payload_of(one).bytes or 0 for one in mine]
        peers = sorted({peer for one in mine if (peer := payload_of(one).peer) is not None})
        rows.append(
            {
                "collective": OPERATIONS[str(key[0])],
                "communicator": shown_communicator(key[1]),
                "calls": len(mine),
                "bytes_total": sum(payload_of(one).bytes or 0 for one in starting(mine, span)),
                "bytes_min": min(sizes),
                "bytes_med": round(middle(sizes)),
                "bytes_max": max(sizes),
                "peers": peers,
            }
        )
    return sorted(rows, key=lambda row: (-row["bytes_total"], row["collective"], row["communicator"] or ""))


def check(envelope: dict[str, Any], rows: list[dict[str, Any]], calls: list[Range], span: Span) -> None:
    shown = rows_of(envelope)
    for row in shown:
        parts = [part.split("-") for part in (row["peers"] or "").split(", ") if part]
        row["peers"] = [rank for part in parts for rank in range(int(part[0]), int(part[-1]) + 1)]
    assert shown == rows
    assert envelope["totals"] == {
        "calls": sum(row["calls"] for row in rows),
        "communicators": len({row["communicator"] for row in rows} - {None}),
        "bytes_total": sum(row["bytes_total"] for row in rows),
        "clipped": sum(map(span.cuts, calls)),
    }
    assert envelope["status"] == ("ok" if rows else "empty")


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(nccl_captures())
    path, whole = written(capture), capture_span(capture)
    for span in (whole, data.draw(trims(capture))):
        trim = {} if span is whole else {"trim": span.trim}
        check(ask("nccl_payload_breakdown", path, **trim), expected(capture, span), message_calls(capture), span)  # type: ignore[arg-type]
    if 1 in {kernel.device for kernel in capture.kernels}:
        pids = users_of(capture, 1)
        asked = ask("nccl_payload_breakdown", path, device=1)
        check(asked, expected(capture, whole, pids), message_calls(capture, pids), whole)


@generated
@given(st.data())
def test_bytes_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(nccl_captures())
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("nccl_payload_breakdown", path, as_window(window)).totals["bytes_total"] for window in windows]
    assert totals[0] == totals[1] + totals[2]  # type: ignore[operator]


def test_peers_are_listed_in_short_and_creations_of_communicators_are_no_calls() -> None:
    calls = [call(100 + 20 * peer, NcclPayload(5, 8, peer=peer)) for peer in (0, 1, 2, 7, 9)]
    created = call(50, NcclPayload(5, ranks=10, rank=3), "ncclCommInitRank")
    [row] = rows_of(ask("nccl_payload_breakdown", written(Capture(ranges=[created, *calls]))))
    assert (row["calls"], row["peers"]) == (5, "0-2, 7, 9")


def test_the_planted_sizes_of_the_demo_are_found() -> None:
    rows = rows_of(ask("nccl_payload_breakdown", written(demo_capture()[0])))
    assert [(row["collective"], row["calls"], row["bytes_total"], row["bytes_med"]) for row in rows] == [
        ("ReduceScatter", 32, 32 * (48 << 20), 48 << 20),
        ("AllReduce", 16, 16 * (64 << 20), 64 << 20),
    ]


def test_a_payload_that_cannot_be_decoded_makes_the_answer_partial() -> None:
    capture = Capture(ranges=[call(100, NcclPayload(5, 8)), call(200, b"\xff\xfe")])
    envelope = ask("nccl_payload_breakdown", written(capture))
    assert (envelope["status"], envelope["totals"]["calls"]) == ("partial", 1)
    assert any(note.startswith("1 NCCL calls have a payload") for note in envelope["notes"])


@pytest.mark.parametrize("skill", ["nccl_payload_breakdown", "nccl_communicator_analysis"])
def test_it_abstains_and_tells_an_export_without_payloads_from_a_capture_without_them(skill: str) -> None:
    without = ask(skill, written(Capture(calls=[Call(1, 10, 101, 101, "cudaMalloc")])))
    dropped = Layout(drop_columns={"NVTX_EVENTS": frozenset({"binaryData"})})
    left_out = ask(skill, written(Capture(ranges=[call(100, NcclPayload(5, 8))]), dropped))
    for envelope in (without, left_out):
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["nccl_calls"])
        assert "--include-blobs=true" in envelope["capture_hint"]
    assert "not recorded" in without["reason"]
    assert "EXPORT_PARAM_INCLUDE_BLOBS=false" in left_out["reason"]


@needs_shared
@pytest.mark.parametrize("skill", ["nccl_payload_breakdown", "nccl_communicator_analysis"])
def test_real_captures_with_schemas_and_no_payloads_say_that_the_export_left_them_out(skill: str) -> None:
    for capture in CAPTURES:
        envelope = ask(skill, capture)
        assert envelope["status"] == "abstained"
        assert ("leaves out" in envelope["reason"]) == capture.stem.startswith("h100x2_")
