from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, GraphLaunch, Kernel, Layout
from nsys_evidence.tools.run import Envelope
from tests import strategies as plain
from tests.oracle import Report, exact, exact_rows, with_reports
from tests.strategies import Span, captures, generated, gpu_span, has_length, trims
from tests.support import ask, rows_of, workspace, written

ALL: dict[str, Any] = {"min_launches": 1, "max_avg_kernel_us": 0}


def kernel(start: int, end: int, correlation: int, name: str = "void k()", pid: int = 101, device: int = 0) -> Kernel:
    return Kernel(start, end, device, 1, 7, correlation, pid, name)


def launch(start: int, end: int, correlation: int, pid: int = 101, api: str = "cudaLaunchKernel_v7000") -> Call:
    return Call(start, end, pid, pid, api, correlation)


# Against nsys stats, whose groups are finer: by thread and API name too.


@with_reports("cuda_kern_exec_sum")
def test_sums_of_launches_and_queues_agree_with_nsys_stats(capture: Path, report: Report) -> None:
    result = exact("kernel_launch_overhead", capture, **ALL)
    rows = exact_rows("kernel_launch_overhead", capture, **ALL)
    expected: dict[tuple[int, str], list[dict[str, str]]] = defaultdict(list)
    for line in report:
        expected[int(line["DevId"]), line["Kernel Name"]].append(line)
    assert {(row["device"], result.names[row["kernel"]]) for row in rows} == expected.keys()
    for row in rows:
        lines = expected[row["device"], result.names[row["kernel"]]]
        assert row["launches"] == sum(int(line["Count"]) for line in lines)
        assert row["queue_count"] == sum(int(line["QCount"]) for line in lines)
        assert row["api_max_us"] == max(int(line["AMax (ns)"]) for line in lines)
        queued = [int(line["QMax (ns)"]) for line in lines if line["QMax (ns)"]]
        assert row["queue_max_us"] == max(queued, default=None)
        if len(lines) == 1:
            assert row["api_med_us"] == Fraction(lines[0]["AMed (ns)"])
            assert row["queue_med_us"] == (Fraction(lines[0]["QMed (ns)"]) if lines[0]["QMed (ns)"] else None)
        for column, average in (("api_avg_us", "AAvg (ns)"), ("kernel_avg_us", "KAvg (ns)")):
            total = sum(float(line[average]) * int(line["Count"]) for line in lines)
            assert float(row[column]) == pytest.approx(total / row["launches"], abs=0.051)
    assert result.totals["launches"] == sum(int(line["Count"]) for line in report)
    assert result.totals["queue_count"] == sum(int(line["QCount"]) for line in report)


# Against the launches as they were generated.


@generated
@given(st.data())
def test_rows_and_totals_agree_with_each_launch_looked_at_by_itself(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda c: bool(c.kernels and c.calls)))
    path = written(capture)
    span = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else None
    scope: dict[str, Any] = {"trim": span.trim} if span else {}
    check(ask("kernel_launch_overhead", path, max_rows=200, **ALL, **scope), capture, span or gpu_span(capture))
    filtered = ask("kernel_launch_overhead", path, max_rows=200, min_launches=2, max_avg_kernel_us=0.01, **scope)
    check(filtered, capture, span or gpu_span(capture), min_launches=2, max_avg_ns=10)


def check(envelope: Envelope, capture: Capture, span: Span, min_launches: int = 1, max_avg_ns: int = 0) -> None:
    kernels = [k for k in capture.kernels if span.has(k)]
    # A launch of a row: the API call, and the row's kernels that it launched, some of them in the window.
    groups: dict[tuple[int, int | None, str], dict[int, list[Kernel]]] = defaultdict(lambda: defaultdict(list))
    launches: dict[int, list[Kernel]] = defaultdict(list)
    calls: dict[int, Call] = {}
    for k in capture.kernels:
        if (call := plain.call_of(capture, k)) is not None:
            groups[*plain.device_key(capture, k), k.name][id(call)].append(k)
            launches[id(call)].append(k)
            calls[id(call)] = call
    launches = in_scope(launches, span)
    kept = workspace().ledger.get(envelope["evidence"])
    assert kept is not None
    found = {(row["device"], row["process"], kept[1][row["kernel"]]): row for row in rows_of(envelope)}
    matched = 0
    for key, whole in groups.items():
        group = in_scope(whole, span)
        members = [k for launched in group.values() for k in launched if span.has(k)]
        if not members:
            continue
        matched += len(members)
        average = plain.mean([plain.duration(k) for k in members])
        if len(group) < min_launches or (max_avg_ns and average > max_avg_ns):
            assert key not in found
            continue
        api = [plain.duration(calls[call]) for call in group]
        queue = queues(calls, group)
        bound = [plain.duration(calls[c]) > sum(map(plain.duration, group[c])) for c in group]
        row = found.pop(key)
        assert row["launches"] == len(group)
        assert row["api_avg_us"] == plain.us(plain.mean(api))
        assert row["api_med_us"] == plain.us(plain.middle(api))
        assert row["api_max_us"] == plain.us(max(api))
        assert row["queue_count"] == len(queue)
        assert row["queue_avg_us"] == (plain.us(plain.mean(queue)) if queue else None)
        assert row["queue_med_us"] == (plain.us(plain.middle(queue)) if queue else None)
        assert row["queue_max_us"] == (plain.us(max(queue)) if queue else None)
        assert row["kernel_avg_us"] == plain.us(average)
        assert row["launch_bound_pct"] == plain.pct(sum(bound), len(group))
    assert not found
    every_bound = [plain.duration(calls[c]) > sum(map(plain.duration, launches[c])) for c in launches]
    assert envelope["totals"] == {
        "launches": len(launches),
        "api_ms": plain.ms(sum(plain.duration(calls[c]) for c in launches)),
        "queue_count": len(queues(calls, launches)),
        "launch_bound_pct": plain.pct(sum(every_bound), len(launches)),
        "kernels": matched,
        "unmatched": len(kernels) - matched,
        "clipped": sum(map(span.cuts, kernels)),
    }


def in_scope(launches: dict[int, list[Kernel]], span: Span) -> dict[int, list[Kernel]]:
    """The launches, whole, of which some kernel is in the window."""
    return {call: launched for call, launched in launches.items() if any(map(span.has, launched))}


def queues(calls: dict[int, Call], launches: dict[int, list[Kernel]]) -> Sequence[int]:
    """First GPU start less API end of each launch, where positive."""
    waits = [min(plain.ends(k)[0] for k in launches[c]) - plain.ends(calls[c])[1] for c in launches]
    return [wait for wait in waits if wait > 0]


# What a launch is.


def test_a_graph_launch_counts_once_in_each_row_and_once_in_totals() -> None:
    nodes = [
        Kernel(1000 + 100 * i, 1050 + 100 * i, 0, 1, 7, 1, 101, name, graph_node=i + 1)
        for i, name in enumerate(("void a()", "void a()", "void b()"))
    ]
    capture = Capture(kernels=nodes, calls=[launch(500, 620, 1, api="cudaGraphLaunch_v10000")])
    envelope = ask("kernel_launch_overhead", written(capture), **ALL)
    rows = {row["kernel"]: row for row in rows_of(envelope)}
    assert {name: row["launches"] for name, row in rows.items()} == {"a": 1, "b": 1}
    assert rows["a"]["queue_max_us"] == 0.38
    assert rows["b"]["queue_max_us"] == 0.58
    assert (rows["a"]["kernel_avg_us"], rows["a"]["launch_bound_pct"], rows["b"]["launch_bound_pct"]) == (
        0.05,
        100,
        100,
    )
    assert envelope["totals"]["launches"] == envelope["totals"]["queue_count"] == 1
    assert envelope["totals"]["launch_bound_pct"] == 0.0
    assert envelope["totals"]["kernels"] == 3


def test_the_figures_of_a_launch_are_those_of_the_whole_launch_in_any_window_and_on_any_device() -> None:
    nodes = [
        Kernel(1000 + 1000 * i, 1050 + 1000 * i, 0, 1, 7, 1, 101, name, graph_node=i + 1)
        for i, name in enumerate(("void a()", "void b()", "void a()", "void b()"))
    ]
    nodes.append(Kernel(1040, 1060, 1, 1, 7, 1, 101, "void c()", graph_node=9))
    alone = [kernel(10_000, 10_001, 2), kernel(20_000, 20_001, 3)]
    calls = [launch(500, 700, 1, api="cudaGraphLaunch_v10000"), launch(1, 2, 2), launch(3, 4, 3)]
    for graph in (nodes, [replace(node, graph_node=None) for node in nodes]):
        path = written(Capture(kernels=[*graph, *alone], calls=calls))
        # The window begins after the first three nodes, and has only the last.
        envelope = ask("kernel_launch_overhead", path, trim=["0.000003500", "0.000005"], device=0, **ALL)
        [row] = rows_of(envelope)
        assert (row["kernel"], row["launches"], row["queue_max_us"], row["kernel_avg_us"]) == ("b", 1, 1.3, 0.05)
        assert row["launch_bound_pct"] == 100.0
        assert {name: envelope["totals"][name] for name in ("launches", "kernels", "queue_count")} == {
            "launches": 1,
            "kernels": 1,
            "queue_count": 1,
        }
        assert envelope["totals"]["launch_bound_pct"] == 0.0  # all of it takes 220 ns, its call 200


def test_several_kernels_of_one_call_are_one_launch_also_where_no_graph_node_says_so() -> None:
    kernels = [kernel(1000, 1010, 1), kernel(1020, 1030, 1), kernel(2000, 2010, 2)]
    capture = Capture(kernels=kernels, calls=[launch(500, 600, 1), launch(700, 800, 2)])
    [row] = rows_of(ask("kernel_launch_overhead", written(capture), **ALL))
    assert (row["launches"], row["kernel_avg_us"]) == (2, 0.01)


def test_a_runtime_call_and_the_driver_call_inside_it_are_one_launch_as_long_as_the_outer() -> None:
    inner = Call(520, 560, 101, 101, "cuLaunchKernel", 1, driver=True)
    capture = Capture(kernels=[kernel(1000, 1010, 1)], calls=[inner, launch(500, 600, 1)])
    [row] = rows_of(ask("kernel_launch_overhead", written(capture), **ALL))
    assert (row["launches"], row["api_max_us"], row["queue_max_us"]) == (1, 0.1, 0.4)


def test_equal_correlation_ids_of_two_processes_never_mix() -> None:
    capture = Capture(
        kernels=[kernel(1000, 1010, 1), kernel(1000, 1010, 1, pid=102, device=1)],
        calls=[launch(500, 600, 1), launch(900, 970, 1, pid=102)],
    )
    rows = {row["device"]: row for row in rows_of(ask("kernel_launch_overhead", written(capture), **ALL))}
    assert {device: row["api_max_us"] for device, row in rows.items()} == {0: 0.1, 1: 0.07}


def test_a_kernel_without_a_recorded_call_is_no_launch_and_is_counted_as_unmatched() -> None:
    capture = Capture(kernels=[kernel(1000, 1010, 1), kernel(2000, 2010, 2)], calls=[launch(500, 600, 1)])
    envelope = ask("kernel_launch_overhead", written(capture), **ALL)
    assert [row["launches"] for row in rows_of(envelope)] == [1]
    assert (envelope["totals"]["launches"], envelope["totals"]["unmatched"]) == (1, 1)
    assert any("1 kernel" in note for note in envelope["notes"])


def test_an_api_call_as_long_as_its_kernel_does_not_outlast_it() -> None:
    capture = Capture(
        kernels=[kernel(1000, 1100, 1), kernel(2000, 2099, 2)], calls=[launch(1, 101, 1), launch(1, 101, 2)]
    )
    [row] = rows_of(ask("kernel_launch_overhead", written(capture), **ALL))
    assert row["launch_bound_pct"] == 50.0


def test_a_kernel_that_starts_before_its_call_ends_did_not_queue() -> None:
    capture = Capture(
        kernels=[kernel(550, 700, 1), kernel(600, 700, 2)], calls=[launch(500, 600, 1), launch(500, 600, 2)]
    )
    [row] = rows_of(ask("kernel_launch_overhead", written(capture), **ALL))
    assert (row["queue_count"], row["queue_avg_us"], row["queue_max_us"]) == (0, None, None)


# Filters and scope.


def test_the_default_filters_list_small_and_frequent_kernels_only() -> None:
    small = [kernel(10**6 * i, 10**6 * i + 10_000, i, "void small()") for i in range(1, 21)]
    large = [kernel(10**6 * i, 10**6 * i + 10_001, i, "void large()") for i in range(21, 41)]
    rare = [kernel(10**6 * i, 10**6 * i + 10, i, "void rare()") for i in range(41, 60)]
    kernels = [*small, *large, *rare]
    calls = [launch(int(k.start or 0) - 5000, int(k.start or 0) - 1000, int(k.correlation or 0)) for k in kernels]
    path = written(Capture(kernels=kernels, calls=calls))
    listed = ask("kernel_launch_overhead", path)
    assert [row["kernel"] for row in rows_of(listed)] == ["small"]
    assert listed["totals"]["launches"] == 59
    assert ask("kernel_launch_overhead", path, **ALL)["totals"] == listed["totals"]
    nothing = ask("kernel_launch_overhead", path, min_launches=1000)
    assert (nothing["status"], nothing["rows"], nothing["totals"]["launches"]) == ("empty", [], 59)
    assert any("3 rows without" in note for note in nothing["notes"])


def test_a_device_without_work_is_refused() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("kernel_launch_overhead", written(Capture(kernels=[kernel(1, 2, 1)], calls=[launch(0, 1, 1)])), device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


@pytest.mark.parametrize("missing", ["kernels", "calls"])
def test_without_kernels_or_calls_it_abstains_and_says_what_to_record(missing: str) -> None:
    capture = Capture(kernels=[kernel(1000, 1010, 1)], calls=[launch(500, 600, 1)])
    table = {"kernels": "CUPTI_ACTIVITY_KIND_KERNEL", "calls": "CUPTI_ACTIVITY_KIND_RUNTIME"}[missing]
    envelope = ask("kernel_launch_overhead", written(capture, Layout(drop_tables=frozenset({table}))))
    assert (envelope["status"], envelope["missing"]) == ("abstained", [missing])
    assert "--trace=cuda" in envelope["capture_hint"]


def test_a_window_without_kernels_is_empty_with_no_share_of_nothing() -> None:
    second = 10**9
    capture = Capture(
        kernels=[kernel(second, second + 10, 1), kernel(9 * second, 9 * second + 10, 2)],
        calls=[launch(second - 500, second - 400, 1)],
    )
    envelope = ask("kernel_launch_overhead", written(capture), trim=[3, 4], **ALL)
    assert (envelope["status"], envelope["totals"]["launches"]) == ("empty", 0)
    assert envelope["totals"]["launch_bound_pct"] is None


def test_graphs_traced_as_a_whole_make_the_answer_partial() -> None:
    graph = GraphLaunch(1500, 1900, 0, 1, 7, 5, 101, 1)
    capture = Capture(kernels=[kernel(1000, 1010, 1)], calls=[launch(500, 600, 1)], graph_launches=[graph])
    envelope = ask("kernel_launch_overhead", written(capture), **ALL)
    assert (envelope["status"], envelope["totals"]["launches"]) == ("partial", 1)
