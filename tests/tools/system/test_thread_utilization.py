from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Kernel, Layout, Running, Sample, ThreadName
from tests.oracle import exact, exact_rows
from tests.strategies import Span, captures, generated, has_length, ms, pct, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import capture_span, users_of

US = 1_000
WORDS = {1: "running", 2: "interruptible", 5: "terminated", 77: "state 77"}


@st.composite
def busy_threads(draw: st.DrawFn) -> Capture:
    """A generated capture with threads that run and are sampled, with and without names, also in idle processes."""
    capture = draw(captures())
    first, last = capture_span(capture).start, capture_span(capture).end
    step = max(1, (last - first) // 20)
    for pid in (101, 102, 103):
        for tid in (pid, pid + 1):
            now = first
            for _ in range(draw(st.integers(0, 4))):
                now += draw(st.integers(0, 3)) * step
                end = now + draw(st.integers(1, 4)) * step
                capture.running.append(Running(now, end, pid, tid, state=draw(st.sampled_from((None, 2, 5, 77)))))
                now = end
            for _ in range(draw(st.integers(0, 3))):
                capture.samples.append(Sample(first + draw(st.integers(0, 20)) * step, pid, tid))
            if draw(st.booleans()):
                capture.thread_names.append(ThreadName(pid, tid, draw(st.sampled_from(("main", "worker")))))
    if draw(st.booleans()):
        capture.samples.clear()
    return capture


def slow(capture: Capture, span: Span, pids: set[int] | None = None) -> list[dict[str, Any]]:
    """The rows, before their order, in plain Python; figures in ns."""
    names = {(named.pid, named.tid): named.name for named in capture.thread_names}
    samples = [s for s in capture.samples if span.contains(s.start or 0) and (pids is None or s.pid in pids)]
    rows = []
    for pid, tid in sorted({(event.pid, event.tid) for event in (*capture.running, *capture.samples)}):
        if pids is not None and pid not in pids:
            continue
        runs = [run for run in capture.running if (run.pid, run.tid) == (pid, tid)]
        mine = [s for s in samples if (s.pid, s.tid) == (pid, tid)]
        if not mine and not any(map(span.has, runs)):
            continue
        ended = [run.state for run in runs if run.end is not None and span.contains(run.end)]
        seen = ended if capture.running else [s.state for s in mine]
        states = sorted(Counter(state for state in seen if state is not None).items(), key=lambda s: (-s[1], s[0]))
        rows.append(
            {
                "process": pid,
                "tid": tid,
                "thread": names.get((pid, tid)),
                "running": sum(map(span.part, runs)) if capture.running else None,
                "samples": len(mine) if capture.samples else None,
                "of": len(samples),
                "states": ", ".join(f"{WORDS[state]} {count}" for state, count in states) or None,
                "clipped": sum(map(span.cuts, runs)),
            }
        )
    return sorted(rows, key=lambda row: (-(row["running"] or 0), -(row["samples"] or 0), row["process"], row["tid"]))


def check(envelope: dict[str, Any], expected: list[dict[str, Any]], span: Span, recorded: Capture) -> None:
    length = span.end - span.start
    shown = [
        {
            "process": row["process"],
            "tid": row["tid"],
            "thread": row["thread"],
            "running_ms": None if row["running"] is None else ms(row["running"]),
            "running_pct": None if row["running"] is None else pct(row["running"], length),
            "samples": row["samples"],
            "samples_pct": None if row["samples"] is None else pct(row["samples"], row["of"]),
            "states": row["states"],
        }
        for row in expected
    ]
    assert rows_of(envelope) == shown[:10]
    running = sum(row["running"] or 0 for row in expected)
    totals = envelope["totals"]
    assert totals["threads"] == len(expected)
    assert totals["processes"] == len({row["process"] for row in expected})
    assert totals["running_ms"] == (ms(running) if recorded.running else None)
    assert totals["samples"] == (sum(row["samples"] or 0 for row in expected) if recorded.samples else None)
    assert totals["clipped"] == (sum(row["clipped"] for row in expected) if recorded.running else None)
    if recorded.running and length:
        assert totals["mean_running"] == pytest.approx(running / length, abs=0.000051)
    assert envelope["status"] == ("ok" if expected else "empty")


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(busy_threads().filter(lambda c: bool(c.running or c.samples)))
    path, whole = written(capture), capture_span(capture)
    check(ask("thread_utilization", path), slow(capture, whole), whole, capture)
    device = capture.kernels[0].device if capture.kernels else None
    span = data.draw(trims(capture)) if has_length(capture) else whole
    if has_length(capture):
        check(ask("thread_utilization", path, trim=span.trim), slow(capture, span), span, capture)
    if device is not None:
        asked = ask("thread_utilization", path, device=device)
        check(asked, slow(capture, whole, users_of(capture, device)), whole, capture)


@generated
@given(st.data())
def test_times_samples_and_states_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(busy_threads().filter(lambda c: bool(c.running and c.samples) and has_length(c)))
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("thread_utilization", path, as_window(window)).totals for window in windows]
    for key in ("running_ms", "samples"):
        assert totals[0][key] == totals[1][key] + totals[2][key]  # type: ignore[operator]
    counts = []
    for window in windows:
        texts = [row["states"] for row in exact_rows("thread_utilization", path, as_window(window)) if row["states"]]
        counts.append(sum(int(part.rpartition(" ")[2]) for text in texts for part in text.split(", ")))
    assert counts[0] == counts[1] + counts[2]


@needs_shared
def test_the_threads_of_a_known_capture_are_these() -> None:
    """By SQL on the export: each in-event with the next event of the thread, times summed by thread.

    SELECT globalTid & 0xFFFFFF, sum(next - start) FROM (SELECT globalTid, start, isSchedIn, lead(start) OVER w AS next
    FROM SCHED_EVENTS WINDOW w AS (PARTITION BY globalTid ORDER BY start)) WHERE isSchedIn GROUP BY 1 ORDER BY 2 DESC;
    SELECT globalTid & 0xFFFFFF, count(*) FROM COMPOSITE_EVENTS GROUP BY 1
    """
    path = SHARED / "captures" / "cpu_samples_2023.4.sqlite"
    rows = exact_rows("thread_utilization", path)
    assert [(row["tid"], row["thread"], row["running_ms"], row["samples"]) for row in rows[:4]] == [
        (23_939, "raiderstream", 9_185_374_903, 34_854),
        (23_932, "run.sh", 7_714_391, 9),
        (23_947, "cuda-EvtHandlr", 3_792_142, 0),
        (23_944, "CUPTI worker thread", 3_238_470, 1),
    ]
    assert [row["states"] for row in rows] == [None] * 8  # this nsys did not record the state at the end of a stretch
    totals = ask("thread_utilization", path)["totals"]
    assert (totals["threads"], totals["processes"], totals["samples"]) == (8, 2, 34_867)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_no_thread_of_a_real_capture_runs_longer_than_the_window(capture: Path) -> None:
    envelope = ask("thread_utilization", capture, max_rows=200)
    if envelope["status"] == "abstained":
        assert envelope["missing"] == ["sched", "samples"]
        return
    assert all(row["running_ms"] <= envelope["scope"]["span_ms"] for row in rows_of(envelope))
    assert len(dump_json(ask("thread_utilization", capture))) < 6000
    first, last = envelope["scope"]["start_s"], envelope["scope"]["end_s"]
    middle = ask("thread_utilization", capture, trim=[first, (first + last) / 2], max_rows=1)
    assert middle["totals"]["running_ms"] <= envelope["totals"]["running_ms"]


def test_a_thread_that_never_leaves_the_cpu_ran_for_the_whole_window_and_two_at_once_are_not_200_percent() -> None:
    capture = Capture(running=[Running(10 * US, 20 * US, 101, tid) for tid in (101, 102)])
    envelope = ask("thread_utilization", written(capture), trim=["0.00001", "0.000015"])
    assert [(row["running_ms"], row["running_pct"]) for row in rows_of(envelope)] == [(0.005, 100.0)] * 2
    assert (envelope["totals"]["running_ms"], envelope["totals"]["mean_running"]) == (0.01, 2.0)


def test_samples_alone_give_shares_of_samples_and_no_time() -> None:
    samples = [Sample(at, 101, tid) for at, tid in ((1, 101), (2, 101), (3, 101), (4, 102))]
    envelope = ask("thread_utilization", written(Capture(samples=samples)))
    assert [(row["tid"], row["samples_pct"], row["states"]) for row in rows_of(envelope)] == [
        (101, 75.0, "running 3"),
        (102, 25.0, "running 1"),
    ]
    assert all(row["running_ms"] is None and row["running_pct"] is None for row in rows_of(envelope))
    assert (envelope["totals"]["running_ms"], envelope["totals"]["clipped"]) == (None, None)
    assert any("not of time" in note for note in envelope["notes"])


def test_a_thread_that_only_samples_know_ran_for_no_recorded_time() -> None:
    capture = Capture(running=[Running(1, 11, 101, 101)], samples=[Sample(5, 101, 102)])
    rows = rows_of(ask("thread_utilization", written(capture)))
    assert [(row["tid"], row["running_ms"], row["samples"]) for row in rows] == [(101, 0.0, 0), (102, 0.0, 1)]


def test_scheduler_events_without_a_counterpart_make_the_answer_partial_and_are_counted() -> None:
    running = [Running(5 * US, 15 * US, 101, 101), Running(20 * US, None, 101, 101), Running(None, 5 * US, 101, 102)]
    envelope = ask("thread_utilization", written(Capture(running=running)))
    assert (envelope["status"], envelope["totals"]["running_ms"]) == ("partial", 0.01)
    assert any(note.startswith("2 scheduler events have no counterpart") for note in envelope["notes"])


def test_with_a_device_only_threads_of_its_processes_count() -> None:
    kernels = [Kernel(0, 10, device, 1, 7, None, pid, "k()") for device, pid in ((0, 101), (1, 102))]
    capture = written(Capture(kernels, running=[Running(1, 10, pid, pid) for pid in (101, 102, 103)]))
    envelope = ask("thread_utilization", capture, device=1)
    assert [row["process"] for row in rows_of(envelope)] == [102]
    assert any("102" in note for note in envelope["notes"])


def test_a_window_in_which_nothing_ran_is_empty() -> None:
    capture = Capture(running=[Running(1, 10, 101, 101), Running(90, 100, 101, 101)])
    envelope = ask("thread_utilization", written(capture), trim=["0.00000002", "0.00000005"])
    assert (envelope["status"], envelope["rows"], envelope["totals"]["running_ms"]) == ("empty", [], 0.0)


def test_without_either_it_abstains_and_says_what_to_record() -> None:
    capture = Capture(calls=[Call(0, 10, 101, 101, "cudaMalloc")])
    for layout in (Layout(), Layout(empty_tables=True)):
        envelope = ask("thread_utilization", written(capture, layout))
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["sched", "samples"])
        assert "--cpuctxsw" in envelope["capture_hint"]
