"""Calls run beside the event loop, a few at a time, and stop when their time is up or nobody waits for them."""

import threading

import anyio
import duckdb
import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.server.calls import Calls
from nsys_evidence.server.limits import Limits, limits_from_environment

ENDLESS = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b"


def endless_query(interrupt: Interrupt, stopped: threading.Event) -> None:
    connection = duckdb.connect(config={"threads": 1})
    try:
        with interrupt.track(connection):
            connection.execute(ENDLESS).fetchall()
    finally:
        connection.close()
        stopped.set()


async def test_the_value_of_the_work_comes_back_and_its_error_too() -> None:
    calls = Calls(Limits())
    assert await calls.run(lambda interrupt: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await calls.run(lambda interrupt: 1 // 0)


async def test_work_does_not_hold_up_the_event_loop() -> None:
    calls, go = Calls(Limits()), threading.Event()
    went: list[bool] = []

    async def ask() -> None:
        went.append(await calls.run(lambda interrupt: go.wait(20)))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.sleep(0)
        go.set()  # which a loop that is held up does not come to before the wait is over
    assert went == [True]


async def test_the_deadline_stops_a_running_query() -> None:
    stopped = threading.Event()
    with pytest.raises(EvidenceError) as caught:
        await Calls(Limits(deadline_s=0.2, grace_s=20)).run(lambda interrupt: endless_query(interrupt, stopped))
    assert caught.value.code is ErrorCode.TIMEOUT
    assert stopped.is_set()


async def test_cancelling_a_call_stops_its_query_before_the_cancellation_goes_on() -> None:
    running, stopped = anyio.Event(), threading.Event()

    def work(interrupt: Interrupt) -> None:
        anyio.from_thread.run_sync(running.set)
        endless_query(interrupt, stopped)

    async with anyio.create_task_group() as group:
        group.start_soon(Calls(Limits(grace_s=20)).run, work)
        await running.wait()
        group.cancel_scope.cancel()
    assert stopped.is_set()


async def test_work_that_does_not_stop_is_left_behind_and_keeps_its_slot_until_it_does() -> None:
    calls, release = Calls(Limits(deadline_s=0.1, calls=1, grace_s=0)), threading.Event()
    with pytest.raises(EvidenceError, match="out of time"):
        await calls.run(lambda interrupt: release.wait(20))
    with pytest.raises(EvidenceError) as caught:
        await calls.run(lambda interrupt: None)
    assert caught.value.code is ErrorCode.BUSY
    release.set()
    patient = Calls(Limits(deadline_s=20, calls=1))
    patient._slots = calls._slots
    assert await patient.run(lambda interrupt: "free again") == "free again"


async def test_a_call_waits_for_its_turn() -> None:
    calls, go, order = Calls(Limits(calls=1)), threading.Event(), []

    async def call(name: str, wait: bool) -> None:
        def work(interrupt: Interrupt) -> None:
            if wait:
                go.wait(20)
            order.append(name)

        await calls.run(work)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "first", True)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(call, "second", False)
        await anyio.wait_all_tasks_blocked()
        assert order == []
        go.set()
    assert order == ["first", "second"]


async def test_a_call_cancelled_before_it_began_never_runs_and_frees_its_slot() -> None:
    calls, ran = Calls(Limits(calls=1)), []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await calls.run(lambda interrupt: ran.append("work"))
    assert await calls.run(lambda interrupt: "next") == "next"
    assert ran == []


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "soon"])
def test_a_deadline_that_is_no_positive_number_leaves_the_default(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_DEADLINE_S", text)
    assert limits_from_environment() == Limits()


def test_the_deadline_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_DEADLINE_S", "2.5")
    assert limits_from_environment().deadline_s == 2.5
