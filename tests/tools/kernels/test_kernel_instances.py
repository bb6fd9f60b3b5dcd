from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.columns import columns_of
from nsys_evidence.contracts.wire import MAX_TEXT
from nsys_evidence.ingest.synthetic import Call, Capture, Domain, GraphLaunch, Kernel, Layout, Range
from nsys_evidence.ingest.tables import TABLES
from nsys_evidence.tools.kernels.kernel_instances import TIES, KernelNameRow
from nsys_evidence.tools.run import Envelope
from nsys_evidence.tools.utility.get_evidence import NameRow
from tests import strategies as plain
from tests.oracle import Report, exact_rows, walk, with_reports
from tests.strategies import KERNEL_NAMES, Span, captures, generated, gpu_span, has_length, trims
from tests.support import ask, rows_of, written

SCALE = "void scale<float>(float *, int)"


def kernel(start: int, end: int, name: str = SCALE, correlation: int | None = None, device: int = 0) -> Kernel:
    return Kernel(start, end, device, 1, 7, correlation, 101, name, grid=(4, 2, 1), block=(64, 2, 1), registers=40)


# Against nsys stats.


@with_reports("cuda_gpu_kern_sum")
def test_single_launches_add_up_to_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    rows, names = walk("kernel_instances", capture)
    durations: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        durations[names[row["kernel"]]].append(round(row["duration_us"] * 1000))
    assert {name: (len(group), sum(group), min(group), max(group)) for name, group in durations.items()} == {
        row["Name"]: tuple(int(row[c]) for c in ("Instances", "Total Time (ns)", "Min (ns)", "Max (ns)"))
        for row in report
    }


@with_reports("cuda_gpu_kern_sum")
def test_pages_of_longest_first_never_repeat_or_skip_a_launch(capture: Path, report: Report) -> None:
    rows, _ = walk("kernel_instances", capture)
    at_once = exact_rows("kernel_instances", capture)
    assert [(row["kernel"], row["device"], int(row["start_ns"])) for row in rows] == [
        (row["kernel"], row["device"], row["start_ns"]) for row in at_once
    ]
    assert [row["duration_us"] for row in at_once] == sorted((row["duration_us"] for row in at_once), reverse=True)


# Against the rows as they were generated.


@generated
@given(st.data())
def test_each_row_is_a_launch_of_the_capture_with_its_range_and_thread(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda c: bool(c.kernels)))
    path = written(capture)
    span = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else None
    scope: dict[str, Any] = {"trim": span.trim} if span else {}
    for order in ("duration", "start"):
        envelope = ask("kernel_instances", path, max_rows=200, order=order, **scope)
        check(envelope, capture, capture.kernels, span or gpu_span(capture), order)
    part = data.draw(st.sampled_from(("scale", "<float>", "nccl", "Scale", "_f32_")))
    shortest = data.draw(st.sampled_from([plain.duration(k) for k in capture.kernels]))
    chosen = [k for k in capture.kernels if part in k.name and plain.duration(k) >= shortest]
    envelope = ask("kernel_instances", path, max_rows=200, name=part, min_us=shortest / 1000, **scope)
    check(envelope, capture, chosen, span or gpu_span(capture), "duration")


def check(envelope: Envelope, capture: Capture, kernels: Sequence[Kernel], span: Span, order: str) -> None:
    chosen = [k for k in kernels if span.has(k)]
    demangled = {row["kernel"]: row["demangled"] for row in rows_of(envelope, "names")}
    rows = rows_of(envelope)
    assert envelope["status"] == ("ok" if chosen else "empty")
    assert envelope["totals"] == {
        "kernels": len({k.name for k in chosen}),
        "instances": len(chosen),
        "total_ms": plain.ms(sum(map(span.part, chosen))),
        "clipped": sum(map(span.cuts, chosen)),
    }
    assert demangled.keys() == {row["kernel"] for row in rows}
    places = [(int(row["start_ns"]), round(row["duration_us"] * 1000)) for row in rows]
    by_order = {"duration": lambda p: (-p[1], p[0]), "start": lambda p: (p[0], -p[1])}[order]
    assert places == sorted(((plain.ends(k)[0], plain.duration(k)) for k in chosen), key=by_order)
    ranges: dict[str, list[set[str | None]]] = defaultdict(list)
    for k in chosen:
        ranges[repr(described(capture, k))].append(
            {*plain.innermost_names(capture, plain.call_of(capture, k))} or {None}
        )
    found: dict[str, list[str | None]] = defaultdict(list)
    for row in rows:
        name = row.pop("nvtx")
        found[repr({**row, "kernel": demangled[row["kernel"]]})].append(name)
    assert {key: len(group) for key, group in found.items()} == {key: len(group) for key, group in ranges.items()}
    for key, names in found.items():
        assert set(names) <= set().union(*ranges[key])


def described(capture: Capture, k: Kernel) -> Mapping[str, object]:
    """The row of a launch but for its range, with the full name."""
    call = plain.call_of(capture, k)
    device, process = plain.device_key(capture, k)
    return {
        "kernel": k.name,
        "device": device,
        "process": process,
        "stream": plain.stream_label(capture, k),
        "start_ns": plain.ns(plain.ends(k)[0]),
        "duration_us": plain.us(plain.duration(k)),
        "grid": ",".join(map(str, k.grid)),
        "block": ",".join(map(str, k.block)),
        "registers": k.registers,
        "shared_bytes": k.static_shared + k.dynamic_shared,
        "tid": call.tid if call else None,
    }


@generated
@given(captures().filter(lambda c: bool(c.kernels)), st.integers(0, 2**16))
def test_the_order_of_rows_in_the_source_leaves_no_trace(capture: Capture, seed: int) -> None:
    one, other = (ask("kernel_instances", written(capture, layout)) for layout in (Layout(), Layout(shuffle=seed)))
    assert one["evidence"] == other["evidence"]
    assert one["rows"] == other["rows"]


def test_launches_that_differ_in_one_column_alone_have_an_order_that_names_it() -> None:
    read_by_others = {"comm", "call_start", "call_end", "api"}  # of a name, and of a call, that the order names
    columns = {*TABLES["kernels"].names} - read_by_others
    assert set(re.findall(r"\w+", TIES)) == columns - {"start", "end"}


# Ranges and launches.


def test_the_innermost_range_is_of_any_domain_and_contains_the_call_not_the_kernel() -> None:
    capture = Capture(
        kernels=[kernel(1000, 1100, correlation=1)],
        calls=[Call(200, 250, 101, 102, "cudaLaunchKernel_v7000", 1)],
        ranges=[
            Range(100, 400, 101, 102, "outer"),
            Range(150, 300, 101, 102, "inner", domain=3),
            Range(210, 240, 101, 102, "inside the call"),
            Range(190, 260, 101, 103, "another thread"),
            Range(900, 1200, 101, 102, "around the kernel"),
        ],
        domains=[Domain(101, 3, "Lib")],
    )
    [row] = rows_of(ask("kernel_instances", written(capture)))
    assert (row["nvtx"], row["tid"]) == ("Lib:inner", 102)


def test_a_launch_outside_any_range_has_no_range_and_one_without_a_call_no_thread() -> None:
    capture = Capture(
        kernels=[kernel(1000, 1100, correlation=1), kernel(2000, 2050, correlation=2)],
        calls=[Call(200, 250, 101, 102, "cudaLaunchKernel_v7000", 1)],
    )
    rows = rows_of(ask("kernel_instances", written(capture)))
    assert [(row["nvtx"], row["tid"]) for row in rows] == [(None, 102), (None, None)]


def test_equal_correlation_ids_of_two_processes_are_two_launches() -> None:
    twin = Kernel(1000, 1050, 0, 1, 7, 1, 102, SCALE)
    capture = Capture(
        kernels=[kernel(1000, 1100, correlation=1), twin],
        calls=[
            Call(200, 250, 101, 201, "cudaLaunchKernel_v7000", 1),
            Call(300, 350, 102, 202, "cudaLaunchKernel_v7000", 1),
        ],
    )
    rows = rows_of(ask("kernel_instances", written(capture)))
    assert [(row["device"], row["process"], row["tid"]) for row in rows] == [(0, 101, 201), (0, 102, 202)]


# Parameters.


def test_a_percent_sign_in_the_name_is_text_and_no_pattern() -> None:
    path = written(Capture(kernels=[kernel(1000, 1100)]))
    assert ask("kernel_instances", path, name="%")["status"] == "empty"
    assert ask("kernel_instances", path, name="' OR 1=1 --")["status"] == "empty"
    assert len(ask("kernel_instances", path, name="scale<")["rows"]) == 1


def test_min_us_keeps_launches_of_exactly_that_duration() -> None:
    path = written(Capture(kernels=[kernel(1000, 2001), kernel(5000, 6000)]))
    assert [row["duration_us"] for row in rows_of(ask("kernel_instances", path, min_us=1.001))] == [1.001]
    assert len(ask("kernel_instances", path, min_us=1)["rows"]) == 2
    assert ask("kernel_instances", path, min_us=1e300)["status"] == "empty"


def test_a_launch_that_crosses_an_edge_shows_its_whole_duration_and_totals_are_clipped() -> None:
    path = written(Capture(kernels=[kernel(10**9, 3 * 10**9), kernel(9 * 10**9, 10**10)]))
    envelope = ask("kernel_instances", path, trim=[2, 4])
    assert [row["duration_us"] for row in rows_of(envelope)] == [2_000_000.0]
    assert envelope["totals"] == {"kernels": 1, "instances": 1, "total_ms": 1000.0, "clipped": 1}


def test_the_names_table_gives_the_full_name_of_every_kernel_shown_and_no_other() -> None:
    kernels = [kernel(1000, 1100, KERNEL_NAMES[2]), kernel(1000, 1300, KERNEL_NAMES[3]), kernel(1000, 1900, "other")]
    envelope = ask("kernel_instances", written(Capture(kernels=kernels)), name="scale")
    names = {row["demangled"] for row in rows_of(envelope, "names")}
    assert names == {KERNEL_NAMES[2], KERNEL_NAMES[3]}


def test_a_name_longer_than_any_text_of_a_result_is_cut_and_the_column_says_so() -> None:
    long = "void k<" + "x" * 3000 + ">()"
    envelope = ask("kernel_instances", written(Capture(kernels=[kernel(1000, 1100, long)])))
    [row] = rows_of(envelope, "names")
    assert len(row["demangled"]) == MAX_TEXT
    for model, name in ((KernelNameRow, "demangled"), (NameRow, "text")):
        [said] = [column.meaning for column in columns_of(model) if column.name == name]
        assert f"cut at {MAX_TEXT:,} characters" in said


# What may be missing.


def test_a_capture_without_kernels_abstains_and_says_what_to_record() -> None:
    envelope = ask("kernel_instances", written(Capture(calls=[Call(100, 200, 101, 101, "cudaMalloc_v3020")])))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
    assert "--trace=cuda" in envelope["capture_hint"]


def test_an_old_capture_without_ranges_or_calls_still_lists_its_launches() -> None:
    path = written(Capture(kernels=[kernel(1000, 1100, correlation=1)]), Layout(old_schema=True))
    [row] = rows_of(ask("kernel_instances", path))
    assert (row["grid"], row["block"], row["nvtx"], row["tid"]) == ("4,2,1", "64,2,1", None, None)


def test_columns_that_an_export_lacks_are_null_and_never_zero() -> None:
    gone = {"CUPTI_ACTIVITY_KIND_KERNEL": frozenset({"registersPerThread", "gridX", "dynamicSharedMemory"})}
    path = written(Capture(kernels=[kernel(1000, 1100)]), Layout(drop_columns=gone))
    [row] = rows_of(ask("kernel_instances", path))
    assert (row["registers"], row["grid"], row["shared_bytes"]) == (None, None, None)
    assert row["block"] == "64,2,1"


def test_graphs_traced_as_a_whole_make_the_answer_partial() -> None:
    graph = GraphLaunch(150, 400, 0, 1, 7, 5, 101, 1)
    envelope = ask("kernel_instances", written(Capture(kernels=[kernel(100, 200)], graph_launches=[graph])))
    assert (envelope["status"], len(envelope["rows"])) == ("partial", 1)
