from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Range, Set
from nsys_evidence.ingest.synthetic.truth import gaps, length
from tests.oracle import exact, exact_rows
from tests.strategies import (
    Span,
    all_work,
    call_of,
    captures,
    device_key,
    duration,
    ends,
    generated,
    has_length,
    shown_range,
    trims,
)
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, clipped, graph_key, slow_parts, with_graphs, work_span

US = 1_000
CLASSES = ("sync", "alloc", "module_load", "copy_call", "launch", "other_cuda", "no_cuda_call")
CLASS_OF = {
    "cudaDeviceSynchronize": "sync",
    "cudaDeviceSynchronize_v3020": "sync",
    "cudaMalloc": "alloc",
    "cuModuleLoadData": "module_load",
    "cudaMemcpyAsync": "copy_call",
    "cudaLaunchKernel": "launch",
    "cudaLaunchKernel_v7000": "launch",
    "cuLaunchKernel": "launch",
    "cudaGetDevice": "other_cuda",
}
DIRECTIONS = {1: "h2d", 2: "d2h", 8: "d2d", 9: "h2h", 10: "p2p", 11: "um_h2d", 12: "um_d2h", 13: "um_d2d"}
Work = Kernel | Copy | Set | GraphLaunch


@st.composite
def with_busy_hosts(draw: st.DrawFn) -> Capture:
    """A generated capture with further calls of all classes on its threads, overlapping as they like."""
    capture = draw(with_graphs())
    known = [*all_work(capture), *capture.calls, *capture.ranges]
    first, last = min(ends(event)[0] for event in known), max(ends(event)[1] for event in known)
    threads = sorted({(call.pid, call.tid) for call in capture.calls}) or [(101, 101)]
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(first, last))
        end = draw(st.integers(start, last))
        capture.calls.append(Call(start, end, *draw(st.sampled_from(threads)), draw(st.sampled_from(sorted(CLASS_OF)))))
    return capture


# The slow and obvious method.


def work_of(capture: Capture) -> list[Work]:
    return [*capture.kernels, *capture.graph_launches, *capture.copies, *capture.sets]


def key_of(capture: Capture, work: Work) -> tuple[int, int | None]:
    return graph_key(capture, work) if isinstance(work, GraphLaunch) else device_key(capture, work)


def called(work: Work) -> str:
    """The work as a row names it, a kernel by its full name."""
    if isinstance(work, Kernel):
        return work.name
    if isinstance(work, GraphLaunch):
        return "[graph]"
    return f"[memcpy {DIRECTIONS.get(work.kind, 'other')}]" if isinstance(work, Copy) else "[memset]"


def launcher(capture: Capture, work: Work) -> tuple[int, int] | None:
    call = None if isinstance(work, GraphLaunch) else call_of(capture, work)
    return None if call is None else (call.pid, call.tid)


@dataclass(frozen=True)
class Host:
    threads: set[tuple[int, int]]
    calls: list[Call]

    def covered(self, host_class: str, gap: Span) -> int:
        chosen = (call for call in self.calls if CLASS_OF[call.name] == host_class)
        return length(clipped(chosen, gap))

    def most(self, gap: Span) -> str:
        lengths = {name: self.covered(name, gap) for name in CLASSES[:-1]}
        lengths["no_cuda_call"] = gap.end - gap.start - length(clipped(self.calls, gap))
        return max(CLASSES, key=lambda name: (lengths[name], -CLASSES.index(name)))

    def longest(self, host_class: str, gap: Span) -> str | None:
        chosen = [call for call in self.calls if CLASS_OF[call.name] == host_class]
        found = max(chosen, key=lambda call: (gap.part(call), -ends(call)[0], _later(call.name)), default=None)
        return None if found is None else found.name.split("_v")[0]


def _later(name: str) -> tuple[int, ...]:
    """A key under which the first name in the order of bytes is the greatest."""
    return (*(-byte for byte in name.split("_v")[0].encode()), 1)


def host_of(capture: Capture, key: tuple[int, int | None]) -> Host:
    threads = {
        thread for work in work_of(capture) if key_of(capture, work) == key if (thread := launcher(capture, work))
    }
    return Host(threads, [call for call in capture.calls if (call.pid, call.tid) in threads])


def open_at(capture: Capture, thread: tuple[int, int], instant: int) -> str | None:
    mine = [r for r in capture.ranges if (r.pid, r.tid) == thread and ends(r)[0] <= instant < ends(r)[1]]
    best = max(mine, key=lambda r: (ends(r)[0], -ends(r)[1], r.domain, shown_range(r).encode()), default=None)
    return None if best is None else shown_range(best)


def device_gaps(capture: Capture, window: Span) -> Iterator[tuple[tuple[int, int | None], Span]]:
    for key in {device_key(capture, work) for work in all_work(capture)}:
        busy = clipped((work for work in work_of(capture) if key_of(capture, work) == key), window)
        yield from ((key, Span(*gap)) for gap in gaps(busy, (window.start, window.end)))


def stream_of(work: Work) -> tuple[int, int, int, int]:
    return work.pid, work.device, work.context, work.stream


def windowed(data: st.DataObject, capture: Capture) -> Span:
    return data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)


# Against it.


@generated
@given(st.data())
def test_the_gaps_of_every_device_are_exactly_where_no_work_is(data: st.DataObject) -> None:
    capture = data.draw(with_graphs())
    path, window = written(capture), windowed(data, capture)
    shortest = data.draw(st.sampled_from((0, 1, 5_000, 10**6)))
    result = exact("gpu_idle_gaps", path, as_window(window), min_gap_ns=shortest)
    found = [((row[0], row[1]), row[3], row[4]) for row in result.rows]
    every = [(key, gap.start, gap.end - gap.start) for key, gap in device_gaps(capture, window)]
    assert sorted(found, key=str) == sorted((gap for gap in every if gap[2] >= shortest), key=str)
    assert [(-row[4], row[3]) for row in result.rows] == sorted((-row[4], row[3]) for row in result.rows)  # type: ignore[operator]
    assert result.totals["gaps"] == result.total_rows == len(found)
    assert result.totals["idle_ms"] == sum(size for *_, size in every)
    assert result.totals["listed_ms"] == sum(size for *_, size in found)
    assert result.totals["idle_ms"] == sum(parts.idle for parts in slow_parts(capture, window).values())
    edges = (0, 10**4, 10**5, 10**6, 10**7, 10**8, 2**63)
    for row, low, high in zip(result.tables["histogram"].rows, edges, edges[1:], strict=False):
        sizes = [size for *_, size in every if low <= size < high]
        assert list(row[1:]) == [len(sizes), sum(sizes)]


@generated
@given(st.data())
def test_the_work_at_both_ends_the_host_and_the_range_of_each_gap_are_those_of_the_obvious_method(
    data: st.DataObject,
) -> None:
    capture = data.draw(with_busy_hosts())
    path, window = written(capture), windowed(data, capture)
    result = exact("gpu_idle_gaps", path, as_window(window), min_gap_ns=0)
    for device, process, _, start, size, *borders, host, host_call, nvtx in result.rows:
        before, after = (result.names.get(str(label), label) for label in borders)
        gap = Span(start, start + size)  # type: ignore[arg-type, operator]
        here = [w for w in work_of(capture) if key_of(capture, w) == (device, process) and duration(w)]
        ended = {called(w) for w in here if ends(w)[1] == gap.start} if gap.start > window.start else set()
        begun = [w for w in here if ends(w)[0] == gap.end] if gap.end < window.end else []
        assert before in (ended or {None})
        assert after in ({called(w) for w in begun} or {None})
        following = {launcher(capture, w) for w in begun if called(w) == after}
        middle = (gap.start + gap.end) // 2
        assert nvtx in ({thread and open_at(capture, thread, middle) for thread in following} or {None})
        truth = host_of(capture, (device, process))  # type: ignore[arg-type]
        if not truth.threads:
            assert (host, host_call) == (None, None)
            continue
        assert host == truth.most(gap)
        assert host_call == (None if host == "no_cuda_call" else truth.longest(str(host), gap))


@generated
@given(st.data())
def test_the_gaps_of_every_stream_are_where_it_has_no_work_and_are_not_added_up(data: st.DataObject) -> None:
    capture = data.draw(captures())
    path, window = written(capture), windowed(data, capture)
    result = exact("gpu_idle_gaps", path, as_window(window), min_gap_ns=0, level="stream")
    found = sorted((str(row[0]), str(row[2]).split(":")[-1], row[3], row[4]) for row in result.rows)
    every = []
    for stream in {stream_of(work) for work in all_work(capture)}:
        busy = clipped((work for work in all_work(capture) if stream_of(work) == stream), window)
        where = (str(stream[1]), str(stream[3]))
        every += [(*where, start, end - start) for start, end in gaps(busy, (window.start, window.end))]
    assert found == sorted(every)
    assert result.totals["gaps"] == len(found)
    assert [result.totals[name] for name in ("idle_ms", "listed_ms", "idle_pct")] == [None, None, None]
    assert {row[2] for row in result.tables["histogram"].rows} == {None}


@generated
@given(st.data())
def test_idle_time_over_a_partition_of_the_window_adds_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    at = data.draw(st.integers(whole.start, whole.end))
    windows = (whole, replace(whole, end=at, includes_end=False), replace(whole, start=at))
    idle = [exact("gpu_idle_gaps", path, as_window(window)).totals["idle_ms"] for window in windows]
    assert idle[0] == idle[1] + idle[2]  # type: ignore[operator]


# By hand.


def kernel(start: int, end: int, stream: int = 7, device: int = 0, correlation: int | None = None) -> Kernel:
    return Kernel(start * US, end * US, device, 1, stream, correlation, 101, "scale")


def launch(
    start: int, end: int, correlation: int | None = None, name: str = "cudaLaunchKernel_v7000", tid: int = 101
) -> Call:
    return Call(start * US, end * US, 101, tid, name, correlation)


def one_gap(capture: Capture, **arguments: Any) -> dict[str, Any]:
    [row] = rows_of(ask("gpu_idle_gaps", written(capture), **arguments))
    return row


def test_a_gap_says_what_was_before_and_after_it_and_what_the_host_did() -> None:
    capture = Capture(
        [kernel(0, 10, correlation=1), kernel(2020, 2030, correlation=2)],
        [Copy(10 * US, 20 * US, 0, 1, 7, None, 101, 64, 1)],
        calls=[launch(0, 1, 1), launch(2015, 2018, 2), launch(15, 1600, name="cudaMalloc_v3020")],
        ranges=[Range(0, 3000 * US, 101, 101, "step 1"), Range(900 * US, 1100 * US, 101, 101, "data", 0)],
    )
    assert one_gap(capture) == {
        "device": 0,
        "process": None,
        "stream": None,
        "start_ns": 20_000,
        "gap_us": 2000.0,
        "before": "[memcpy h2d]",
        "after": "scale",
        "host": "alloc",
        "host_call": "cudaMalloc",
        "nvtx": "data",
    }


def test_idle_time_at_the_edges_of_the_window_is_idle_time_with_nothing_before_or_after() -> None:
    capture = written(Capture([kernel(2000, 2010), kernel(0, 5000, device=1)]))
    first, second = sorted(rows_of(ask("gpu_idle_gaps", capture)), key=lambda row: int(row["start_ns"]))
    assert (first["start_ns"], first["gap_us"], first["before"], first["after"]) == (0, 2000.0, None, "scale")
    assert (second["start_ns"], second["gap_us"], second["before"], second["after"]) == (
        2010_000,
        2990.0,
        "scale",
        None,
    )


def test_a_gap_cut_by_a_trim_has_nothing_at_the_cut() -> None:
    row = one_gap(Capture([kernel(0, 10), kernel(5000, 5010)]), trim=["0.001", "0.003"])
    assert (row["start_ns"], row["gap_us"], row["before"], row["after"]) == (1_000_000, 2000.0, None, None)


def test_work_of_no_length_interrupts_no_gap() -> None:
    row = one_gap(Capture([kernel(0, 10), kernel(500, 500), kernel(2010, 2020)]))
    assert (row["gap_us"], row["after"]) == (2000.0, "scale")


def test_a_device_gap_ends_where_any_stream_works_and_a_stream_gap_does_not() -> None:
    capture = Capture([kernel(0, 10), kernel(3000, 3010), kernel(5, 3005, stream=8)])
    envelope = ask("gpu_idle_gaps", written(capture))
    assert (envelope["status"], envelope["rows"], envelope["totals"]["idle_ms"]) == ("empty", [], 0.0)
    row = one_gap(capture, level="stream")
    assert (row["stream"], row["gap_us"], row["before"], row["after"]) == ("7", 2990.0, "scale", "scale")


def test_equal_classes_go_to_the_earlier_one_and_the_union_is_over_threads() -> None:
    kernels = [kernel(0, 10, correlation=1), kernel(2010, 2020, correlation=2)]
    launches = [launch(0, 1, 1), launch(2009, 2010, 2, tid=102)]
    waits = [launch(10, 1010, name="cudaMemcpy", tid=102), launch(1010, 2010, name="cudaStreamSynchronize")]
    assert one_gap(Capture(kernels, calls=launches + waits))["host"] == "sync"
    # Two threads in the same class at the same time cover it once: together less than the other class.
    both = [launch(10, 900, name="cudaMalloc"), launch(10, 900, name="cudaMalloc", tid=102)]
    assert (
        one_gap(Capture(kernels, calls=[*launches, *both, launch(900, 2000, name="cudaMemcpy")]))["host"] == "copy_call"
    )


def test_calls_of_threads_that_launch_nothing_on_the_device_do_not_count() -> None:
    kernels = [kernel(0, 10, correlation=1), kernel(2010, 2020, correlation=2)]
    calls = [launch(0, 1, 1), launch(2009, 2010, 2), launch(10, 2000, name="cudaDeviceSynchronize", tid=103)]
    row = one_gap(Capture(kernels, calls=calls))
    assert (row["host"], row["host_call"]) == ("no_cuda_call", None)


def test_without_recorded_calls_the_host_is_unknown_and_that_is_said() -> None:
    envelope = ask("gpu_idle_gaps", written(Capture([kernel(0, 10), kernel(2010, 2020)])))
    assert rows_of(envelope)[0]["host"] is None
    assert any("calls were not recorded" in note for note in envelope["notes"])


def test_with_calls_but_no_known_launch_the_host_is_unknown_and_that_is_said() -> None:
    capture = Capture([kernel(0, 10), kernel(2010, 2020)], calls=[launch(10, 2000, name="cudaMalloc")])
    envelope = ask("gpu_idle_gaps", written(capture))
    assert rows_of(envelope)[0]["host"] is None
    assert any("not known" in note for note in envelope["notes"])


def test_totals_and_the_histogram_cover_what_the_rows_leave_out() -> None:
    kernels = [kernel(0, 10), kernel(15, 20), kernel(70, 80), kernel(1080, 1090), kernel(3090, 3100)]
    envelope = ask("gpu_idle_gaps", written(Capture(kernels)), max_rows=1)
    assert envelope["totals"] == {"gaps": 2, "idle_ms": 3.055, "listed_ms": 3.0, "idle_pct": 98.55}
    assert envelope["truncation"] == {"total_rows": 2, "shown_rows": 1, "next_offset": 1}
    assert [row["gap_us"] for row in rows_of(envelope)] == [2000.0]
    assert [(row["gaps"], row["idle_ms"]) for row in rows_of(envelope, "histogram")] == [
        (1, 0.005),
        (1, 0.05),
        (0, 0.0),
        (2, 3.0),
        (0, 0.0),
        (0, 0.0),
    ]


def test_when_no_gap_is_long_enough_the_result_is_empty_and_says_where_the_idle_time_is() -> None:
    envelope = ask("gpu_idle_gaps", written(Capture([kernel(0, 10), kernel(20, 30)])))
    assert (envelope["status"], envelope["totals"]["idle_ms"]) == ("empty", 0.01)
    assert any("shorter" in note for note in envelope["notes"])


def test_a_range_is_half_open_at_mid_gap_and_twins_go_to_the_last_in_order() -> None:
    kernels = [kernel(0, 10, correlation=1), kernel(2010, 2020, correlation=2)]
    calls = [launch(0, 1, 1), launch(2009, 2010, 2)]
    middle = 1010 * US

    def range_at_middle(*ranges: tuple[int, int, str]) -> object:
        named = [Range(start, end, 101, 101, text) for start, end, text in ranges]
        return one_gap(Capture(kernels, calls=calls, ranges=named))["nvtx"]

    assert range_at_middle((0, middle, "ended"), (middle, middle, "instant")) is None
    assert range_at_middle((0, 2 * middle, "outer"), (middle, middle + 1, "begins")) == "begins"
    assert range_at_middle((0, 2 * middle, "a"), (0, 2 * middle, "b")) == "b"
    assert range_at_middle((0, 2 * middle, "outer"), *((t, t + 1, "short") for t in range(5000))) == "outer"


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_on_a_real_capture_all_gaps_add_up_to_the_idle_time_and_each_touches_work(capture: Path) -> None:
    if ask("gpu_idle_gaps", capture)["status"] == "abstained":
        return
    rows = exact_rows("gpu_idle_gaps", capture, min_gap_ns=0)
    totals = exact("gpu_idle_gaps", capture).totals
    window = ask("gpu_idle_gaps", capture)["scope"]
    assert sum(row["gap_us"] for row in rows) == totals["idle_ms"]
    inner = [row for row in rows if row["start_ns"] > round(window["start_s"] * 10**9)]
    assert all(row["before"] is not None for row in inner)
