from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout, Set
from nsys_evidence.ingest.synthetic.truth import gaps
from tests.oracle import exact, exact_rows
from tests.strategies import Span, all_work, call_of, device_key, duration, ends, generated, has_length, mean, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, clipped, graph_key, with_graphs, work_span

US = 1_000
LONG, LATE = 10_000, 10_000
Work = Kernel | Copy | Set | GraphLaunch
Thread = tuple[int, int]


def kernel(start: int, end: int, correlation: int | None, node: int | None = None, device: int = 0) -> Kernel:
    return Kernel(start * US, end * US, device, 1, 7, correlation, 101, "scale", graph_node=node)


def launch(start: int, end: int, correlation: int, tid: int = 101, api: str = "cudaLaunchKernel_v7000") -> Call:
    return Call(start * US, end * US, 101, tid, api, correlation)


def gap_totals(capture: Capture, **scope: Any) -> dict[str, tuple[int, float]]:
    """How many gaps there are of each kind, and how long they are together, ms."""
    totals = ask("cpu_gpu_pipeline", written(capture), **scope)["totals"]
    found = {kind: (totals[f"{kind}_gaps"], totals[f"{kind}_ms"]) for kind in ("starved", "queued", "other")}
    assert totals["gaps"] == sum(count for count, _ in found.values())
    return found


# The slow and obvious method.


def work_of(capture: Capture) -> list[Work]:
    return [*capture.kernels, *capture.graph_launches, *capture.copies, *capture.sets]


def key_of(capture: Capture, work: Work) -> tuple[int, int | None]:
    return graph_key(capture, work) if isinstance(work, GraphLaunch) else device_key(capture, work)


def launch_of(capture: Capture, work: Work) -> Call | None:
    return None if isinstance(work, GraphLaunch) else call_of(capture, work)


def long_gaps(capture: Capture, window: Span) -> Iterator[tuple[str, Thread | None, int]]:
    """Kind, thread and length of each device gap of 10 µs and more."""
    for key in {device_key(capture, work) for work in all_work(capture)}:
        here = [work for work in work_of(capture) if key_of(capture, work) == key]
        for start, end in gaps(clipped(here, window), (window.start, window.end)):
            if end - start < LONG:
                continue
            begun = [work for work in here if ends(work)[0] == end and duration(work)]
            first = min(begun, key=lambda work: order(capture, work), default=None)
            call = None if first is None or end == window.end else launch_of(capture, first)
            if call is None:
                yield "other", None, end - start
                continue
            together = [work for work in here if launch_of(capture, work) is call]
            if min(ends(work)[0] for work in together) < end:
                yield "other", None, end - start
            elif end - ends(call)[1] < LATE:
                yield "starved", (call.pid, call.tid), end - start
            else:
                yield "queued", None, end - start


def order(capture: Capture, work: Work) -> tuple[Any, ...]:
    """Kind, stream, name or direction, then thread and call."""
    kind = [Kernel, GraphLaunch, Copy, Set].index(type(work))
    what = work.name.encode() if isinstance(work, Kernel) else getattr(work, "kind", 0)
    call = launch_of(capture, work)
    launched = (1,) if call is None else (0, call.tid, ends(call)[1], call.correlation)
    return (kind, work.pid, work.context, work.stream, what, *launched)


def percentile(values: list[int], percent: int) -> Fraction:
    """Interpolated linearly between neighbours."""
    place = Fraction((len(values) - 1) * percent, 100)
    low = sorted(values)[int(place)]
    high = sorted(values)[min(int(place) + 1, len(values) - 1)]
    return low + (place - int(place)) * (high - low)


@generated
@given(st.data())
def test_rows_and_totals_are_those_of_each_launch_and_each_gap_looked_at_by_itself(data: st.DataObject) -> None:
    capture = data.draw(with_graphs().filter(lambda c: bool(c.kernels and c.calls)))
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    result = exact("cpu_gpu_pipeline", path, as_window(window))
    found = list(long_gaps(capture, window))
    launches: dict[Thread, dict[int, tuple[Call, list[Kernel]]]] = defaultdict(dict)
    for one in filter(window.has, capture.kernels):
        if (call := call_of(capture, one)) is not None:
            launches[call.pid, call.tid].setdefault(id(call), (call, []))[1].append(one)
    starved: dict[Thread, list[int]] = defaultdict(list)
    for _, thread, size in found:
        if thread is not None:
            starved[thread].append(size)
    every = sum(map(len, launches.values()))
    threads = sorted({*launches, *starved}, key=lambda thread: (-len(launches[thread]), thread))
    assert [row[:2] for row in result.rows] == threads
    for row, thread in zip(result.rows, threads, strict=True):
        mine = list(launches[thread].values())
        kernels = [one for _, launched in mine for one in launched]
        leads = [first_start(capture, call) - ends(call)[1] for call, _ in mine]
        assert row[2:] == (
            len(mine),
            len(kernels),
            Fraction(len(mine), every) if every else None,
            percentile(leads, 50) if leads else None,
            percentile(leads, 5) if leads else None,
            len(starved[thread]),
            sum(starved[thread]),
            mean([duration(one) for one in kernels]) if kernels else None,
        )
    known = sum(len(launched) for of in launches.values() for _, launched in of.values())
    totals = {"threads": len(threads), "launches": every, "kernels": known}
    totals |= {"unmatched": sum(map(window.has, capture.kernels)) - known}
    totals |= {"gaps": len(found), "gap_ms": sum(size for *_, size in found)}
    for kind in ("starved", "queued", "other"):
        sizes = [size for told, _, size in found if told == kind]
        totals |= {f"{kind}_gaps": len(sizes), f"{kind}_ms": sum(sizes)}
    assert result.totals == totals


def first_start(capture: Capture, call: Call) -> int:
    """When the first kernel of a launch starts, in the window or not."""
    return min(ends(one)[0] for one in capture.kernels if call_of(capture, one) is call)


# Against the other skills, and figures of a real capture.


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_no_other_skill_says_otherwise_of_a_real_capture(capture: Path) -> None:
    envelope = ask("cpu_gpu_pipeline", capture)
    if envelope["status"] == "abstained":
        return
    totals = exact("cpu_gpu_pipeline", capture).totals
    overhead = exact("kernel_launch_overhead", capture, min_launches=1, max_avg_kernel_us=0).totals
    assert [totals[name] for name in ("launches", "kernels", "unmatched")] == [
        overhead[name] for name in ("launches", "kernels", "unmatched")
    ]
    idle = exact("gpu_idle_gaps", capture, min_gap_ns=10_000).totals
    assert (totals["gaps"], totals["gap_ms"]) == (idle["gaps"], idle["listed_ms"])
    rows = exact_rows("cpu_gpu_pipeline", capture)
    assert sum(row["starved_ms"] for row in rows) == totals["starved_ms"]
    assert sum(row["share_pct"] or 0 for row in rows) == 1
    assert len(dump_json(envelope)) < 6_000


@needs_shared
def test_the_golden_figures_of_a_real_capture() -> None:
    # By plain Python over the rows of the export (sqlite3): 18 kernels with a call each. Sorted by lead they begin with
    # -3150 and -2978 ns, and the two in the middle are -640 and -633; together they take 10,167,602 ns. Of the gaps in
    # the union of kernels, copies and sets 21 have 10 µs and more, 3,158,776,577 ns, all with a lead under it.
    envelope = ask("cpu_gpu_pipeline", SHARED / "captures" / "h200_cpu_bound_2025.1.sqlite")
    assert envelope["rows"] == [GOLDEN_ROW]
    assert (envelope["totals"]["gaps"], envelope["totals"]["gap_ms"]) == (21, 3158.777)


GOLDEN_ROW = [50556, 50556, 18, 18, 100.0, -0.636, -3.004, 21, 3158.777, 564.867]


# What a lead is.


def test_a_lead_keeps_its_sign_and_is_the_first_start_less_the_end_of_the_call() -> None:
    kernels = [kernel(10, 11, 1), kernel(30, 31, 2), kernel(60, 61, 3)]
    calls = [launch(5, 13, 1), launch(25, 28, 2), launch(32, 40, 3)]
    [row] = rows_of(ask("cpu_gpu_pipeline", written(Capture(kernels, calls=calls))))
    assert (row["lead_med_us"], row["lead_p05_us"]) == (2.0, -2.5)  # of -3, 2 and 20


def test_one_graph_launch_of_three_nodes_is_one_launch_with_the_lead_of_its_first_kernel() -> None:
    nodes = [kernel(20, 21, 1, node=1), kernel(50, 51, 1, node=2), kernel(80, 81, 1, node=3)]
    capture = Capture([kernel(0, 1, None), *nodes], calls=[launch(2, 15, 1, api="cudaGraphLaunch_v10000")])
    [row] = rows_of(ask("cpu_gpu_pipeline", written(capture)))
    assert (row["launches"], row["kernels"], row["lead_med_us"]) == (1, 3, 5.0)
    # One gap is the host's; the two between the nodes are not, though each of them ends with a kernel of a late launch.
    assert gap_totals(capture) == {"starved": (1, 0.019), "queued": (0, 0.0), "other": (2, 0.058)}


def test_a_launch_is_looked_at_whole_in_any_window_and_on_any_device() -> None:
    nodes = [kernel(20, 21, 1, node=1), kernel(50, 51, 1, node=2), kernel(40, 41, 1, node=3, device=1)]
    path = written(Capture(nodes, calls=[launch(2, 15, 1, api="cudaGraphLaunch_v10000")]))
    for scope in ({"trim": ["0.000045", "0.000052"]}, {"device": 1}):
        [row] = rows_of(ask("cpu_gpu_pipeline", path, **scope))
        assert (row["launches"], row["kernels"], row["lead_med_us"]) == (1, 1, 5.0)


def test_equal_correlation_ids_of_two_processes_never_mix() -> None:
    kernels = [kernel(10, 11, 1), Kernel(10 * US, 11 * US, 1, 1, 7, 1, 102, "scale")]
    calls = [launch(0, 4, 1), Call(0, 9 * US, 102, 102, "cudaLaunchKernel", 1)]
    rows = rows_of(ask("cpu_gpu_pipeline", written(Capture(kernels, calls=calls))))
    assert [(row["process"], row["lead_med_us"], row["share_pct"]) for row in rows] == [(101, 6, 50), (102, 1, 50)]


# What starves the device.


@pytest.mark.parametrize(
    ("call_end", "gap_end", "kind"),
    [
        (101, 110, "starved"),  # a lead of 9 µs
        (100, 110, "queued"),  # of 10
        (115, 110, "starved"),  # of -5
        (10, 110, "queued"),
        (9, 10, None),  # a gap of 9 µs
        (10, 11, "starved"),  # of 10
    ],
)
def test_a_gap_of_ten_microseconds_is_starved_by_a_lead_under_ten(
    call_end: int, gap_end: int, kind: str | None
) -> None:
    capture = Capture([kernel(0, 1, None), kernel(gap_end, gap_end + 1, 1)], calls=[launch(0, call_end, 1)])
    expected = {
        name: ((1, (gap_end - 1) / 1000) if name == kind else (0, 0.0)) for name in ("starved", "queued", "other")
    }
    assert gap_totals(capture) == expected


def test_a_gap_between_streams_is_none_where_the_device_works() -> None:
    copy = Copy(1 * US, 100 * US, 0, 1, 9, None, 101, 4096, 1)
    capture = Capture([kernel(0, 1, None), kernel(100, 101, 1)], [copy], calls=[launch(90, 99, 1)])
    assert gap_totals(capture)["starved"] == (0, 0.0)


def test_a_copy_ends_a_gap_for_the_thread_that_called_it_though_it_launches_no_kernel() -> None:
    copy = Copy(50 * US, 60 * US, 0, 1, 9, 2, 101, 4096, 1)
    calls = [launch(0, 1, 1), launch(45, 70, 2, tid=102, api="cudaMemcpy_v3020")]
    envelope = ask("cpu_gpu_pipeline", written(Capture([kernel(5, 6, 1)], [copy], calls=calls)))
    first, second = rows_of(envelope)
    assert (first["tid"], first["launches"], first["starved_gaps"]) == (101, 1, 0)
    assert second == {
        **{"process": 101, "tid": 102, "launches": 0, "kernels": 0, "share_pct": 0.0, "lead_med_us": None},
        **{"lead_p05_us": None, "starved_gaps": 1, "starved_ms": 0.044, "kernel_avg_us": None},
    }
    assert envelope["totals"]["launches"] == 1


def test_of_a_kernel_and_a_copy_that_end_a_gap_together_the_kernel_counts() -> None:
    copy = Copy(50 * US, 60 * US, 0, 1, 3, 2, 101, 4096, 1)
    calls = [launch(10, 20, 1), launch(45, 49, 2, tid=102, api="cudaMemcpyAsync_v3020")]
    capture = Capture([kernel(0, 1, None), kernel(50, 51, 1)], [copy], calls=calls)
    assert gap_totals(capture) == {"starved": (0, 0.0), "queued": (1, 0.049), "other": (0, 0.0)}


def test_a_gap_that_the_window_ends_is_nobodys_and_one_that_it_begins_is_cut() -> None:
    capture = Capture([kernel(0, 1, None), kernel(100, 101, 1), kernel(200, 201, 2)], calls=[launch(95, 99, 1)])
    assert gap_totals(capture, trim=["0.00008", "0.00015"]) == {
        "starved": (1, 0.02),
        "queued": (0, 0.0),
        "other": (1, 0.049),
    }


def test_gaps_of_a_thread_that_feeds_two_devices_are_added_up_and_each_device_has_its_own() -> None:
    kernels = [kernel(0, 1, None), kernel(0, 1, None, device=1), kernel(50, 51, 1), kernel(80, 81, 2, device=1)]
    path = written(Capture(kernels, calls=[launch(40, 49, 1), launch(70, 79, 2)]))
    [row] = rows_of(ask("cpu_gpu_pipeline", path))
    assert (row["launches"], row["starved_gaps"], row["starved_ms"]) == (2, 2, 0.128)
    [row] = rows_of(ask("cpu_gpu_pipeline", path, device=1))
    assert (row["launches"], row["starved_gaps"], row["starved_ms"]) == (1, 1, 0.079)


# Scope, and what may be missing.


def test_a_window_without_launches_is_empty_with_its_gap() -> None:
    path = written(Capture([kernel(0, 1, 1), kernel(100, 101, 2)], calls=[launch(0, 1, 1), launch(98, 99, 2)]))
    envelope = ask("cpu_gpu_pipeline", path, trim=["0.00002", "0.00004"])
    assert (envelope["status"], envelope["rows"], envelope["totals"]["other_ms"]) == ("empty", [], 0.02)


def test_a_page_has_its_rows_and_the_totals_of_all() -> None:
    calls = [launch(0, 1, place, tid=101 + place) for place in range(3)]
    path = written(Capture([kernel(5, 6, place) for place in range(3)], calls=calls))
    page, whole = ask("cpu_gpu_pipeline", path, max_rows=1, offset=1), ask("cpu_gpu_pipeline", path)
    assert (page["rows"], page["totals"]) == (whole["rows"][1:2], whole["totals"])


def test_graphs_traced_as_a_whole_make_the_answer_partial_and_may_end_a_gap() -> None:
    graph = GraphLaunch(50 * US, 90 * US, 0, 1, 7, 5, 101, 1)
    calls = [launch(0, 1, 1), launch(40, 48, 5, api="cudaGraphLaunch_v10000")]
    envelope = ask("cpu_gpu_pipeline", written(Capture([kernel(5, 6, 1)], calls=calls, graph_launches=[graph])))
    [row] = rows_of(envelope)
    assert (envelope["status"], row["launches"], row["starved_gaps"]) == ("partial", 1, 1)


@pytest.mark.parametrize("missing", ["kernels", "calls"])
def test_without_kernels_or_calls_it_abstains_and_says_what_to_record(missing: str) -> None:
    capture = Capture([kernel(10, 11, 1)], calls=[launch(5, 6, 1)])
    table = {"kernels": "CUPTI_ACTIVITY_KIND_KERNEL", "calls": "CUPTI_ACTIVITY_KIND_RUNTIME"}[missing]
    envelope = ask("cpu_gpu_pipeline", written(capture, Layout(drop_tables=frozenset({table}))))
    assert (envelope["status"], envelope["missing"]) == ("abstained", [missing])
    assert "--trace=cuda" in envelope["capture_hint"]


def test_a_device_that_the_capture_lacks_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("cpu_gpu_pipeline", written(Capture([kernel(10, 11, 1)], calls=[launch(5, 6, 1)])), device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
