"""When threads ran, where samples found them, and what they are called."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.manifest import Coverage
from nsys_evidence.ingest.synthetic import Capture, Kernel, Layout, Process, Running, Sample, ThreadName
from tests.ingest.profiles import Built, build, build_file
from tests.parquet_export import write_parquetdir
from tests.support import written

PID = 42
Stretch = tuple[int, int, int, int, int | None]


def ran(built: Built) -> list[Stretch]:
    tids = {row["thread"]: row["tid"] for row in built.rows("threads")}
    return [(row["start"], row["end"], tids[row["thread"]], row["cpu"], row["state"]) for row in built.rows("running")]


def stretches(events: list[Running]) -> tuple[list[Stretch], int]:
    """The slow and obvious method: walk through each thread's events in order of time."""
    found, alone = [], 0
    for key in sorted({(event.pid, event.tid) for event in events}):
        mine = [event for event in events if (event.pid, event.tid) == key]
        ends = [(e.start, True, e.cpu, e.state) for e in mine if e.start is not None]
        ends += [(e.end, False, e.cpu, e.state) for e in mine if e.end is not None]
        begun: tuple[int, int] | None = None
        for at, on, cpu, state in sorted(ends, key=lambda end: end[:2]):
            if on:
                alone += begun is not None
                begun = (at, cpu)
            elif begun is None:
                alone += 1
            else:
                found.append((begun[0], at, key[1], begun[1], state))
                begun = None
        alone += begun is not None
    return sorted(found), alone


@st.composite
def schedules(draw: st.DrawFn) -> list[Running]:
    """Stretches of two threads that follow each other, some touching, some with one end alone; ends never tie alike."""
    events = []
    for tid in (PID, PID + 1):
        now = 5
        for _ in range(draw(st.integers(0, 8))):
            now += draw(st.integers(0, 4))
            length = draw(st.integers(1, 6))
            start, end = draw(st.sampled_from(((True, True), (True, True), (True, False), (False, True))))
            cpu, state = draw(st.integers(0, 3)), draw(st.sampled_from((None, 2, 5)))
            events.append(Running(now if start else None, now + length if end else None, PID, tid, cpu, state))
            now += length + (not (start and end))
    return events


@settings(max_examples=40, deadline=None, derandomize=True)
@given(events=schedules(), seed=st.integers(0, 99))
def test_a_thread_runs_from_the_event_that_puts_it_on_a_cpu_to_the_next_when_that_takes_it_off(
    events: list[Running], seed: int
) -> None:
    expected, alone = stretches(events)
    built = build(Capture(kernels=[Kernel(5, 6, 0, 1, 7, 1, PID, "k()")], running=events), Layout(shuffle=seed))
    assert sorted(ran(built)) == expected
    assert built.manifest.quarantined.get("sched", 0) == alone
    assert built.manifest.coverage["sched"] is (Coverage.RECORDED if expected else Coverage.NOT_RECORDED)


def test_stretches_that_touch_are_two_and_threads_of_twin_processes_stay_apart() -> None:
    twins = [Process(PID, vm=1), Process(PID, vm=2)]
    running = [Running(at, at + 10, twin.global_pid, 7, 3, 2) for twin in twins for at in (10, 20)]
    built = build(Capture(processes=twins, running=running))
    assert ran(built) == [(10, 20, 7, 3, 2)] * 2 + [(20, 30, 7, 3, 2)] * 2
    assert built.manifest.rows["threads"] == built.manifest.rows["processes"] == 2


def test_what_puts_one_thread_on_a_cpu_is_no_start_of_a_stretch_of_another() -> None:
    built = build(Capture(running=[Running(10, None, PID, 7), Running(None, 20, PID, 8), Running(30, 40, PID, 9)]))
    assert ran(built) == [(30, 40, 9, 0, None)]
    assert built.manifest.quarantined == {"sched": 2}


def test_events_of_no_thread_no_time_or_no_direction_are_set_aside() -> None:
    good: dict[str, object] = {"start": 10, "cpu": 1, "isSchedIn": 1, "globalTid": Process(PID).global_tid(7)}
    rows = [good, {**good, "start": 20, "isSchedIn": 0}]
    bad = [{**good, name: None} for name in ("start", "isSchedIn", "globalTid")]
    built = build(Capture(extra_tables={"SCHED_EVENTS": [*rows, *bad]}))
    assert ran(built) == [(10, 20, 7, 1, None)]
    assert built.manifest.quarantined == {"sched": 3}


@pytest.mark.parametrize("column", ["start", "isSchedIn", "globalTid"])
def test_a_table_that_lacks_what_makes_an_event_counts_as_not_recorded(column: str) -> None:
    capture = Capture(kernels=[Kernel(5, 6, 0, 1, 7, 1, PID, "k()")], running=[Running(10, 20, PID, 7)])
    layout = Layout(drop_columns={"SCHED_EVENTS": frozenset({column})})
    assert build(capture, layout).manifest.coverage["sched"] is Coverage.NOT_RECORDED


def test_samples_keep_their_instant_thread_cpu_and_state() -> None:
    samples = [Sample(30, PID, 8, 2, None), Sample(10, PID, 7, 1, 1), Sample(10, PID, 7, 1, 1), Sample(None, PID, 7)]
    built = build(Capture(samples=samples))
    rows = [(row["start"], row["thread"], row["cpu"], row["state"]) for row in built.rows("samples")]
    assert rows == [(10, 0, 1, 1), (10, 0, 1, 1), (30, 1, 2, None)]
    assert built.manifest.quarantined == {"samples": 1}
    assert built.manifest.capture == (10, 30)


def test_both_forms_of_an_export_and_the_columns_of_2021_give_the_same_rows() -> None:
    capture = Capture(
        kernels=[Kernel(5, 6, 0, 1, 7, 1, PID, "k()")],
        running=[Running(10, 20, PID, 7, 3), Running(25, None, PID, 7, 3)],
        samples=[Sample(12, PID, 7, 3)],
        thread_names=[ThreadName(PID, 7, "worker")],
    )
    export = written(capture)
    one = build_file(export)
    other = build_file(write_parquetdir(export, export.parent / "parquet", seed=5))
    old = build(capture, Layout(old_schema=True, shuffle=4))
    assert one.manifest == other.manifest == old.manifest
    assert one.bytes() == other.bytes() == old.bytes()


def test_only_names_of_threads_with_events_enter_and_the_lowest_priority_number_holds() -> None:
    named = [("system", 20, 7), ("given", 0, 7), ("library", 10, 7), ("elsewhere", 0, 99), ("b", 20, 8), ("a", 20, 8)]
    names = [ThreadName(PID, tid, name, priority) for name, priority, tid in named]
    capture = Capture(running=[Running(10, 20, PID, tid) for tid in (7, 8, 9)], thread_names=names)
    for seed in range(3):
        built = build(capture, Layout(shuffle=seed))
        assert built.named("threads", "tid", "name") == [(7, "given"), (8, "a"), (9, None)]
        assert [text for text in built.strings().values() if text] == ["a", "given"]
