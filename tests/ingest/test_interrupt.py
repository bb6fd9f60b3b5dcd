"""One flag stops a running query and a running ingest, with the code that says why."""

import threading

import duckdb
import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.interrupt import Interrupt

ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range * b.range % 7 = 3"


def test_nothing_happens_before_it_is_set() -> None:
    interrupt = Interrupt()
    interrupt.check()
    with interrupt.track(duckdb.connect()):
        pass


@pytest.mark.parametrize("code", [ErrorCode.CANCELLED, ErrorCode.TIMEOUT])
def test_a_running_query_is_stopped_with_the_code(code: ErrorCode) -> None:
    interrupt, connection = Interrupt(), duckdb.connect()
    waiting = threading.Timer(0.05, interrupt.set, [code])
    waiting.start()
    with pytest.raises(EvidenceError) as caught, interrupt.track(connection):
        connection.execute(ENDLESS)
    assert caught.value.code is code
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_query_that_is_only_about_to_start_is_stopped_too() -> None:
    interrupt, connection = Interrupt(), duckdb.connect()

    def begin() -> None:
        interrupt.set()
        connection.execute(ENDLESS)

    with pytest.raises(EvidenceError), interrupt.track(connection):
        begin()


def test_once_set_it_stays_set_with_its_first_code() -> None:
    interrupt = Interrupt()
    interrupt.set(ErrorCode.TIMEOUT)
    interrupt.set(ErrorCode.CANCELLED)
    for _ in range(2):
        with pytest.raises(EvidenceError) as caught:
            interrupt.check()
        assert caught.value.code is ErrorCode.TIMEOUT
    with pytest.raises(EvidenceError), interrupt.track(duckdb.connect()):
        raise AssertionError("a stopped call starts no query")


def test_an_interrupted_query_of_somebody_else_is_no_cancellation() -> None:
    with pytest.raises(duckdb.InterruptException), Interrupt().track(duckdb.connect()):
        raise duckdb.InterruptException("from outside")


def test_a_query_that_has_ended_is_no_longer_interrupted() -> None:
    interrupt, connection = Interrupt(), duckdb.connect()
    with interrupt.track(connection):
        connection.execute("SELECT 1")
    interrupt.set()
    assert connection.execute("SELECT 2").fetchone() == (2,)


def test_a_stopped_call_promises_nothing_that_is_not_so() -> None:
    interrupt = Interrupt()
    interrupt.set(ErrorCode.TIMEOUT)
    with pytest.raises(EvidenceError) as caught:
        interrupt.check()
    assert "not lost" not in caught.value.hint  # an ingest that is stopped keeps nothing
