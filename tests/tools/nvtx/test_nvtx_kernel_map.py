from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Copy, Domain, GraphLaunch, Kernel, Range
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.result import Result
from tests.oracle import Report, exact, exact_rows, with_reports
from tests.strategies import (
    Span,
    call_of,
    captures,
    containing_ranges,
    ends,
    generated,
    gpu_span,
    has_length,
    shown_range,
    trims,
)
from tests.support import ask, rows_of, written
from tests.tools.slow_busy import as_window, halves

US = 1_000
NO_RANGE = "(no range)"
COLUMNS = ("NVTX Inst", "Kern Inst", "Total Time (ns)")

Figures = tuple[int, int, int, int]
"""ranges, kernels, self and inclusive ns."""


# Against nsys stats.


@with_reports("nvtx_kern_sum")
def test_summed_over_paths_every_range_and_kernel_agrees_with_nsys_stats_to_the_nanosecond(
    capture: Path, report: Report
) -> None:
    expected: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in report:
        for place, name in enumerate(COLUMNS):
            expected[row["NVTX Range"], row["Kernel Name"]][place] += int(row[name])
    names = exact("nvtx_kernel_map", capture, normalize=False).names
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for ours in exact_rows("nvtx_kernel_map", capture, normalize=False):
        last = "" if ours["path"] == NO_RANGE else ours["path"].split(" > ")[-1]
        for place, name in enumerate(("ranges", "kernels", "inclusive_ms")):
            found[last, names[ours["kernel"]]][place] += ours[name]
    assert found == expected


@with_reports("nvtx_kern_sum")
def test_cutting_counters_joins_rows_and_changes_no_sum(capture: Path, report: Report) -> None:
    plain, recorded = (exact_rows("nvtx_kernel_map", capture, normalize=flag) for flag in (True, False))
    assert len(plain) <= len(recorded)
    for name in ("ranges", "kernels", "self_ms", "inclusive_ms"):
        assert sum(row[name] for row in plain) == sum(row[name] for row in recorded)
    kernels = exact("top_kernels", capture).totals
    assert sum(row["self_ms"] for row in plain) == kernels["total_ms"]
    assert sum(row["kernels"] for row in plain if " > " not in row["path"]) == kernels["instances"]


# Against the slow and obvious method.


def stack_of(capture: Capture, kernel: Kernel) -> list[Range]:
    """The ranges that contain the launch, outermost first; twins in the order of the table."""
    ranges = containing_ranges(capture, call_of(capture, kernel))
    return sorted(ranges, key=lambda r: (ends(r)[0], -ends(r)[1], r.domain, shown_range(r).encode()))


def slow_rows(capture: Capture, window: Span) -> dict[tuple[str, str], Figures]:
    instances: dict[tuple[str, str], set[int]] = defaultdict(set)
    figures: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    place = {id(r): number for number, r in enumerate(capture.ranges)}
    for kernel in capture.kernels:
        if not window.has(kernel):
            continue
        stack = stack_of(capture, kernel)
        for depth in range(1, len(stack) + 1):
            key = " > ".join(shown_range(r) for r in stack[:depth]), kernel.name
            instances[key].add(place[id(stack[depth - 1])])
            figures[key][0] += 1
            figures[key][1] += window.part(kernel) * (depth == len(stack))
            figures[key][2] += window.part(kernel)
        if not stack:
            part = window.part(kernel)
            for index, value in enumerate((1, part, part)):
                figures[NO_RANGE, kernel.name][index] += value
    return {key: (len(instances.get(key, ())), *values) for key, values in figures.items()}  # type: ignore[misc]


def found_rows(result: Result) -> dict[tuple[str, str], Figures]:
    rows = {(str(row[0]), result.names[str(row[1])]): tuple(row[2:]) for row in result.rows}
    assert len(rows) == len(result.rows)
    return rows  # type: ignore[return-value]


def windowed(data: st.DataObject, capture: Capture) -> Span:
    return data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else gpu_span(capture)


with_everything = captures(min_launches=2).filter(lambda c: bool(c.kernels and c.calls and c.ranges))


@generated
@given(st.data())
def test_every_path_and_kernel_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_everything)
    window = windowed(data, capture)
    result = exact("nvtx_kernel_map", written(capture), as_window(window), normalize=False)
    expected = slow_rows(capture, window)
    assert found_rows(result) == expected
    inclusive = [row[5] for row in result.rows]
    assert inclusive == sorted(inclusive, reverse=True)  # type: ignore[type-var]
    kernels = [kernel for kernel in capture.kernels if window.has(kernel)]
    time = sum(window.part(kernel) for kernel in kernels)
    inside = sum(window.part(kernel) for kernel in kernels if stack_of(capture, kernel))
    totals = result.totals
    assert (totals["kernels"], totals["kernel_ms"]) == (len(kernels), time)
    assert totals["attributed_pct"] == (None if time == 0 else pytest.approx(inside / time))
    assert totals["paths"] == len({path for path, _ in expected} - {NO_RANGE})
    assert totals["clipped"] == sum(window.cuts(kernel) for kernel in kernels)
    unknown = sum(call_of(capture, kernel) is None for kernel in kernels)
    assert any(f"{unknown} kernels have no" in note for note in result.notes) == bool(unknown)


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_everything.filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    rows = [found_rows(exact("nvtx_kernel_map", path, as_window(window))) for window in windows]
    nothing: Figures = (0, 0, 0, 0)
    for key in rows[0].keys() | rows[1].keys() | rows[2].keys():
        of_whole, first, second = (part.get(key, nothing) for part in rows)
        assert of_whole[2:] == (first[2] + second[2], first[3] + second[3]), key


@generated
@given(st.data())
def test_the_instances_are_the_first_kernels_in_time_with_their_innermost_range(data: st.DataObject) -> None:
    capture = data.draw(with_everything)
    window = windowed(data, capture)
    result = exact("nvtx_kernel_map", written(capture), as_window(window), detail="instances")
    shown = [(path, result.names[str(label)], *rest) for path, label, *rest in result.tables["instances"].rows]
    expected = []
    for kernel in (kernel for kernel in capture.kernels if window.has(kernel)):
        path = " > ".join(shown_range(r) for r in stack_of(capture, kernel)) or NO_RANGE
        expected.append((path, kernel.name, kernel.device, *ends(kernel)))
    assert sorted((row[0], row[1], row[2], row[4], row[5]) for row in shown) == sorted(expected)
    assert [row[4:] for row in shown] == sorted(row[4:] for row in shown)


# By hand.


def kernel(start: int, end: int, correlation: int | None, name: str = "scale", pid: int = 101) -> Kernel:
    return Kernel(start * US, end * US, 0, 1, 7, correlation, pid, name)


def call(start: int, end: int, correlation: int, pid: int = 101, tid: int = 101) -> Call:
    return Call(start * US, end * US, pid, tid, "cudaLaunchKernel_v7000", correlation)


def named(start: int, end: int, text: str, domain: int = 0, tid: int = 101, pid: int = 101) -> Range:
    return Range(start * US, end * US, pid, tid, text, domain)


def shown(capture: Capture, **arguments: object) -> Mapping[tuple[str, str], tuple[object, ...]]:
    rows = rows_of(ask("nvtx_kernel_map", written(capture), **arguments))  # type: ignore[arg-type]
    figures = ("ranges", "kernels", "self_ms", "inclusive_ms")
    return {(row["path"], row["kernel"]): tuple(row[name] for name in figures) for row in rows}


def test_a_kernel_belongs_to_the_ranges_around_its_launch_however_late_it_runs() -> None:
    ranges = [named(0, 100, "step"), named(10, 20, "forward"), named(500, 600, "later")]
    capture = Capture([kernel(550, 560, 1)], calls=[call(12, 15, 1)], ranges=ranges)
    assert shown(capture) == {
        ("step", "scale"): (1, 1, 0.0, 0.01),
        ("step > forward", "scale"): (1, 1, 0.01, 0.01),
    }


def test_equal_correlation_ids_of_two_processes_and_ranges_of_another_thread_are_kept_apart() -> None:
    capture = Capture(
        [kernel(100, 110, 1), kernel(120, 150, 1, pid=202)],
        calls=[call(12, 15, 1), call(12, 15, 1, pid=202, tid=202)],
        ranges=[named(0, 50, "first"), named(0, 50, "second", pid=202, tid=202), named(0, 50, "idle", tid=103)],
    )
    assert shown(capture) == {("second", "scale"): (1, 1, 0.03, 0.03), ("first", "scale"): (1, 1, 0.01, 0.01)}


def test_ranges_counts_instances_that_launch_the_kernel_and_not_launches() -> None:
    steps = [named(100 * n, 100 * n + 90, "step") for n in range(4)]
    layers = [named(100 * n + 10, 100 * n + 80, "layer") for n in range(4)]
    calls = [call(100 * n + 20 + 10 * m, 100 * n + 25 + 10 * m, 10 * n + m) for n in range(3) for m in range(2)]
    kernels = [kernel(1000 + 10 * i, 1005 + 10 * i, c.correlation) for i, c in enumerate(calls)]
    capture = Capture(kernels, calls=calls, ranges=steps + layers)
    assert shown(capture) == {
        ("step", "scale"): (3, 6, 0.0, 0.03),
        ("step > layer", "scale"): (3, 6, 0.03, 0.03),
    }


def test_where_ranges_of_two_domains_cross_the_stack_is_that_of_the_launch() -> None:
    capture = Capture(
        [kernel(1000, 1001, 1), kernel(1010, 1012, 2), kernel(1020, 1024, 3)],
        calls=[call(25, 30, 1), call(45, 50, 2), call(5, 8, 3)],
        ranges=[named(0, 40, "a"), named(20, 60, "b", domain=1)],
        domains=[Domain(101, 1, "Lib")],
    )
    assert shown(capture) == {
        ("a", "scale"): (1, 2, 0.004, 0.005),
        ("a > Lib:b", "scale"): (1, 1, 0.001, 0.001),
        ("Lib:b", "scale"): (1, 1, 0.002, 0.002),
    }


def test_nested_ranges_of_one_name_are_two_of_them_as_nsys_counts() -> None:
    capture = Capture([kernel(100, 110, 1)], calls=[call(5, 6, 1)], ranges=[named(0, 20, "f"), named(1, 10, "f")])
    assert shown(capture) == {("f", "scale"): (1, 1, 0.0, 0.01), ("f > f", "scale"): (1, 1, 0.01, 0.01)}


def test_normalize_cuts_pytorchs_counters_and_leaves_steps_and_layers_their_numbers() -> None:
    texts = [
        "aten::mm, seq = 12, op_id = 7",
        "aten::mm, seq = 13, op_id = 9, sizes = [[2, 3], [3]]",
        "layer 3",
        "layer 4",
    ]
    ranges = [named(20 * n, 20 * n + 10, text) for n, text in enumerate(texts)]
    calls = [call(20 * n + 2, 20 * n + 4, n + 1) for n in range(4)]
    kernels = [kernel(1000 + 10 * n, 1001 + 10 * n, n + 1) for n in range(4)]
    capture = Capture(kernels, calls=calls, ranges=ranges)
    assert {path: figures[0] for (path, _), figures in shown(capture).items()} == {
        "aten::mm": 2,
        "layer 3": 1,
        "layer 4": 1,
    }
    assert {path for path, _ in shown(capture, normalize=False)} == set(texts)


def test_kernels_without_a_known_call_are_in_no_range_and_that_is_said() -> None:
    capture = Capture([kernel(10, 20, None), kernel(30, 40, 2)], calls=[call(5, 6, 2)], ranges=[named(0, 50, "step")])
    assert shown(capture) == {("step", "scale"): (1, 1, 0.01, 0.01), (NO_RANGE, "scale"): (0, 1, 0.01, 0.01)}
    envelope = ask("nvtx_kernel_map", written(capture))
    assert envelope["status"] == "ok"
    assert envelope["totals"]["attributed_pct"] == 50.0
    assert any("1 kernels have no recorded launching call" in note for note in envelope["notes"])


def test_copies_are_no_kernels() -> None:
    copy = Copy(50 * US, 60 * US, 0, 1, 7, 2, 101, 64, 1)
    calls = [call(5, 6, 1), call(7, 8, 2)]
    capture = Capture([kernel(10, 20, 1)], [copy], calls=calls, ranges=[named(0, 40, "step")])
    assert ask("nvtx_kernel_map", written(capture))["totals"]["kernels"] == 1


def test_a_deep_path_keeps_its_innermost_names_when_it_is_too_long_to_show() -> None:
    ranges = [named(n, 200 - n, f"{n:03d}" + "x" * 90) for n in range(60)]
    capture = Capture([kernel(1000, 1010, 1)], calls=[call(100, 101, 1)], ranges=ranges)
    paths = [path for path, _ in shown(capture, max_rows=200)]
    longest = max(paths, key=len)
    assert len(longest) <= 2000
    deepest = [row for row in exact_rows("nvtx_kernel_map", written(capture)) if row["self_ms"]]
    assert deepest[0]["path"].startswith("… > ")
    assert deepest[0]["path"].endswith("059" + "x" * 90)


def test_instances_are_a_table_of_their_own_and_the_rows_stay_the_same() -> None:
    kernels = [kernel(30, 40, 2), kernel(10, 20, 1), kernel(50, 60, None)]
    capture = written(Capture(kernels, calls=[call(1, 2, 1), call(3, 4, 2)], ranges=[named(0, 9, "step")]))
    envelope = ask("nvtx_kernel_map", capture, detail="instances", max_rows=2)
    assert envelope["rows"] == ask("nvtx_kernel_map", capture, max_rows=2)["rows"]
    assert rows_of(envelope, "instances") == [
        {"range": "step", "kernel": "scale", "device": 0, "process": None, "start_ns": 10_000, "end_ns": 20_000},
        {"range": "step", "kernel": "scale", "device": 0, "process": None, "start_ns": 30_000, "end_ns": 40_000},
    ]
    assert envelope["tables"]["instances"]["truncation"] == {"total_rows": 3, "shown_rows": 2, "next_offset": None}
    reading = " ".join(all_skills()["nvtx_kernel_map"].reading.split())
    assert "kernel_instances with order=start pages" in reading
    assert "instances" not in ask("nvtx_kernel_map", capture)["tables"]


def test_a_window_without_kernels_is_empty_and_its_share_unknown() -> None:
    capture = Capture(
        [kernel(1000, 1010, 1), kernel(3000, 3010, 1)], calls=[call(5, 6, 1)], ranges=[named(0, 9, "step")]
    )
    envelope = ask("nvtx_kernel_map", written(capture), trim=["0.0015", "0.002"])
    assert (envelope["status"], envelope["rows"], envelope["totals"]["attributed_pct"]) == ("empty", [], None)


def test_graphs_traced_as_a_whole_make_the_answer_partial() -> None:
    graph = GraphLaunch(20 * US, 30 * US, 0, 1, 7, None, 101, 1)
    capture = Capture([kernel(10, 20, 1)], calls=[call(5, 6, 1)], ranges=[named(0, 9, "step")], graph_launches=[graph])
    assert ask("nvtx_kernel_map", written(capture))["status"] == "partial"


@pytest.mark.parametrize("missing", ["kernels", "calls", "nvtx"])
def test_it_abstains_when_kernels_calls_or_ranges_were_not_recorded(missing: str) -> None:
    capture = Capture(
        [] if missing == "kernels" else [kernel(10, 20, 1)],
        calls=[] if missing == "calls" else [call(5, 6, 1)],
        ranges=[] if missing == "nvtx" else [named(0, 9, "step")],
    )
    envelope = ask("nvtx_kernel_map", written(capture))
    assert (envelope["status"], envelope["missing"]) == ("abstained", [missing])
