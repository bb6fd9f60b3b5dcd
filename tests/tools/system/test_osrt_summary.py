from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, OsrtCall
from tests.oracle import Report, assert_names_agree, exact, exact_rows, with_reports
from tests.strategies import Timed, generated, has_length, trims
from tests.support import ask, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import Name, by_name, capture_span, check, host_captures

US = 1_000


def events(capture: Capture) -> list[tuple[Name, Timed]]:
    return [((one.name,), one) for one in capture.osrt_calls]


@with_reports("osrt_sum")
def test_every_function_agrees_with_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    assert_names_agree(exact_rows("osrt_summary", capture), ["function"], "calls", report)
    totals = exact("osrt_summary", capture).totals
    assert totals == {
        "functions": len(report),
        "calls": sum(int(line["Num Calls"]) for line in report),
        "total_ms": sum(int(line["Total Time (ns)"]) for line in report),
        "clipped": 0,
    }


@generated
@given(st.data())
def test_rows_and_totals_agree_with_sums_in_plain_python(data: st.DataObject) -> None:
    capture = data.draw(host_captures().filter(lambda c: bool(c.osrt_calls)))
    path, whole = written(capture), capture_span(capture)
    check(ask("osrt_summary", path), by_name(events(capture), whole), whole, "functions", "calls")
    if has_length(capture):
        span = data.draw(trims(capture))
        envelope = ask("osrt_summary", path, trim=span.trim)
        check(envelope, by_name(events(capture), span), span, "functions", "calls")


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(host_captures().filter(lambda c: bool(c.osrt_calls) and has_length(c)))
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("osrt_summary", path, as_window(window)).totals["total_ms"] for window in windows]
    assert totals[0] == totals[1] + totals[2]  # type: ignore[operator]


def test_the_marks_of_nsys_that_profiling_started_and_finished_are_no_calls() -> None:
    noted = [OsrtCall(0, 9 * US, 101, 101, "", event_class) for event_class in (31, 32)]
    envelope = ask("osrt_summary", written(Capture(osrt_calls=[*noted, OsrtCall(US, 3 * US, 101, 101, "poll")])))
    assert [row["function"] for row in rows_of(envelope)] == ["poll"]
    assert envelope["totals"]["total_ms"] == 0.002
    only_noted = ask("osrt_summary", written(Capture(osrt_calls=noted)))
    assert (only_noted["status"], only_noted["rows"]) == ("empty", [])


def test_a_capture_without_the_os_runtime_abstains_and_says_what_to_record() -> None:
    envelope = ask("osrt_summary", written(Capture(calls=[Call(0, 10, 101, 101, "cudaMalloc")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["osrt"])
    assert "osrt" in envelope["capture_hint"]
