from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Domain, Kernel, Layout, Mark, Range
from tests.oracle import Report, assert_names_agree, exact, exact_rows, with_reports
from tests.strategies import Timed, generated, has_length, shown_range, trims
from tests.support import ask, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_by_name import Name, by_name, capture_span, check, host_captures, users_of

US = 1_000
STYLES = {"pushpop": "PushPop", "startend": "StartEnd"}


def span(start: int, end: int | None, text: str = "load", pid: int = 101, domain: int = 0) -> Range:
    return Range(start * US, None if end is None else end * US, pid, pid, text, domain)


def events(capture: Capture) -> list[tuple[Name, Timed]]:
    return [((shown_range(one), STYLES[one.style]), one) for one in capture.ranges]


# Against nsys stats.


@with_reports("nvtx_sum")
def test_every_range_and_style_agrees_with_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    assert_names_agree(exact_rows("nvtx_summary", capture), ["range", "style"], "instances", report)
    totals = exact("nvtx_summary", capture).totals
    assert totals == {
        "ranges": len(report),
        "instances": sum(int(line["Instances"]) for line in report),
        "total_ms": sum(int(line["Total Time (ns)"]) for line in report),
        "clipped": 0,
    }


@with_reports("nvtx_pushpop_sum")
def test_push_pop_ranges_agree_with_the_report_on_them_alone(capture: Path, report: Report) -> None:
    rows = [row for row in exact_rows("nvtx_summary", capture) if row["style"] == "PushPop"]
    assert_names_agree(rows, ["range"], "instances", report)


# Against sums in plain Python.


@generated
@given(st.data())
def test_rows_and_totals_agree_with_sums_in_plain_python(data: st.DataObject) -> None:
    capture = data.draw(host_captures().filter(lambda c: bool(c.ranges)))
    path, whole = written(capture), capture_span(capture)
    check(ask("nvtx_summary", path), by_name(events(capture), whole), whole, "ranges", "instances")
    if has_length(capture):
        window = data.draw(trims(capture))
        envelope = ask("nvtx_summary", path, trim=window.trim)
        check(envelope, by_name(events(capture), window), window, "ranges", "instances")
    device = data.draw(st.sampled_from(sorted({kernel.device for kernel in capture.kernels} or {None})))
    if device is not None:
        users = users_of(capture, device)
        mine = [(name, one) for name, one in events(capture) if one.pid in users]  # type: ignore[attr-defined]
        check(ask("nvtx_summary", path, device=device), by_name(mine, whole), whole, "ranges", "instances")


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(host_captures().filter(lambda c: bool(c.ranges) and has_length(c)))
    path, whole = written(capture), capture_span(capture)
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    totals = [exact("nvtx_summary", path, as_window(window)).totals["total_ms"] for window in windows]
    assert totals[0] == totals[1] + totals[2]  # type: ignore[operator]


# Names and styles.


def test_one_name_in_both_styles_is_two_rows_in_a_fixed_order() -> None:
    both = [span(0, 5), Range(0, 5 * US, 101, 101, "load", style="startend")]
    rows = rows_of(ask("nvtx_summary", written(Capture(ranges=both))))
    assert [(row["range"], row["style"]) for row in rows] == [("load", "PushPop"), ("load", "StartEnd")]
    pages = [ask("nvtx_summary", written(Capture(ranges=both)), max_rows=1, offset=place) for place in (0, 1)]
    assert [page["rows"][0][1] for page in pages] == ["PushPop", "StartEnd"]


def test_a_named_domain_stands_before_the_name_and_the_default_one_does_not() -> None:
    capture = Capture(ranges=[span(0, 5), span(0, 4, domain=3)], domains=[Domain(101, 3, "NCCL")])
    assert [row["range"] for row in rows_of(ask("nvtx_summary", written(capture)))] == ["load", "NCCL:load"]


@pytest.mark.parametrize("text", ["ids", "inline"])
def test_a_name_is_the_same_whether_it_is_registered_or_not(text: str) -> None:
    path = written(Capture(ranges=[span(0, 5), span(6, 8)]), Layout(text=text))  # type: ignore[arg-type]
    [row] = rows_of(ask("nvtx_summary", path))
    assert (row["range"], row["instances"], row["total_ms"]) == ("load", 2, 0.007)


def test_a_start_end_range_is_that_of_the_thread_that_started_it() -> None:
    kernels = [Kernel(0, US, device, 1, 7, None, pid, "k") for device, pid in ((0, 101), (1, 102))]
    crossing = Range(0, 5 * US, 101, 101, "whole run", style="startend", end_tid=109)
    path = written(Capture(kernels, ranges=[crossing]))
    assert ask("nvtx_summary", path, device=0)["totals"]["ranges"] == 1
    other = ask("nvtx_summary", path, device=1)
    assert (other["status"], other["totals"]["ranges"]) == ("empty", 0)
    assert other["notes"] == ["only of processes that use the device: 102"]


# What has no duration.


def test_marks_and_ranges_that_never_ended_are_left_out_and_said() -> None:
    capture = Capture(ranges=[span(0, 5), span(1, None)], marks=[Mark(2 * US, 101, 101, "here")])
    envelope = ask("nvtx_summary", written(capture))
    assert [row["range"] for row in rows_of(envelope)] == ["load"]
    assert envelope["totals"]["instances"] == 1
    assert envelope["notes"] == ["1 ranges of the capture never ended and are left out"]


def test_marks_alone_are_no_ranges_and_the_abstention_names_them() -> None:
    envelope = ask("nvtx_summary", written(Capture(marks=[Mark(2 * US, 101, 101, "here")], ranges=[span(1, None)])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["nvtx"])
    assert "1 marks and 1 ranges that never ended" in envelope["reason"]


def test_start_end_ranges_alone_are_an_answer() -> None:
    ranges = [Range(0, 5 * US, 101, 101, "whole run", style="startend")]
    envelope = ask("nvtx_summary", written(Capture(ranges=ranges)))
    assert (envelope["status"], rows_of(envelope)[0]["style"]) == ("ok", "StartEnd")


def test_a_range_of_no_length_is_an_instance_without_time() -> None:
    [row] = rows_of(ask("nvtx_summary", written(Capture(ranges=[span(3, 3)], calls=[Call(0, 9 * US, 101, 101, "c")]))))
    assert (row["instances"], row["total_ms"], row["stddev_us"]) == (1, 0.0, None)


def test_a_capture_without_nvtx_abstains_and_says_what_to_record() -> None:
    envelope = ask("nvtx_summary", written(Capture(calls=[Call(0, 10, 101, 101, "cudaMalloc")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["nvtx"])
    assert "nvtx" in envelope["capture_hint"]
    assert "marks" not in envelope["reason"]
