"""Launches, stacks and busy time of whole captures, against what plain Python finds in the events."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given

from nsys_evidence.ingest.stacks import plain_names
from nsys_evidence.ingest.synthetic import Call, Capture, Kernel, Range, demo_capture
from nsys_evidence.ingest.synthetic.truth import COMM_PREFIXES, intersection, union
from tests.ingest.profiles import Built, build, stack_names
from tests.strategies import (
    all_work,
    call_of,
    captures,
    containing_ranges,
    device_key,
    ends,
    generated,
    shown_range,
    stream_label,
)

PID = 42


def nested_names(capture: Capture, call: Call | None) -> tuple[str, ...]:
    """The names of the ranges around a call, outermost first: by start, then falling end, then domain and name."""
    ranges = containing_ranges(capture, call)
    ordered = sorted(ranges, key=lambda r: (ends(r)[0], -ends(r)[1], r.domain, shown_range(r)))
    return tuple(shown_range(r) for r in ordered)


def api_of(call: Call | None) -> str | None:
    return None if call is None else call.name.removesuffix("_v7000").removesuffix("_v3020")


def check(capture: Capture, built: Built) -> None:
    """Every piece of work has the launch and the stack that the events say."""
    names = stack_names(built)
    tids = {None: None} | {row["thread"]: row["tid"] for row in built.rows("threads")}
    pids = {row["process"]: row["pid"] for row in built.rows("processes")}
    for table, work in (("kernels", capture.kernels), ("copies", capture.copies), ("sets", capture.sets)):
        found = Counter(
            (start, end, pids[process], correlation, begin, finish, tids[thread], api, names[stack])
            for start, end, process, correlation, begin, finish, thread, api, stack in built.named(
                table, "start", "end", "process", "correlation", "call_start", "call_end", "thread", "api", "stack"
            )
        )
        expected: Counter[tuple[object, ...]] = Counter()
        for event in work:
            call = call_of(capture, event)
            launch = (None, None, None) if call is None else (call.start, call.end, call.tid)
            key = (*ends(event), event.pid, event.correlation, *launch, api_of(call), nested_names(capture, call))
            expected[key] += 1
        assert found == expected


@generated
@given(capture=captures())
def test_work_is_attributed_to_its_call_and_to_every_range_around_that_call(capture: Capture) -> None:
    check(capture, build(capture))


def test_work_of_the_demo_is_attributed_as_planned() -> None:
    capture = demo_capture()[0]
    built = build(capture)
    stacks = stack_names(built)
    of_layers = [stacks[stack] for (stack,) in built.named("kernels", "stack")]
    assert sum(names[-1:] == () for names in of_layers) == 6  # launched before the recording
    assert any(names == ("iteration 0", "forward", "layer 3") for names in of_layers)
    assert any(names == ("iteration 7", "backward", "NCCL:ncclAllReduce") for names in of_layers)


@generated
@given(capture=captures())
def test_busy_time_of_devices_and_streams_is_the_union_of_their_work(capture: Capture) -> None:
    built = build(capture)
    devices = {d.gpu: (d.device, d.process) for d in built.manifest.devices}
    work: dict[tuple[object, str], list[tuple[int, int]]] = defaultdict(list)
    streams: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for event in all_work(capture):
        device = device_key(capture, event)
        kinds = {"work"}
        if isinstance(event, Kernel):
            kinds |= {"kernel", "comm" if event.name.startswith(COMM_PREFIXES) else "compute"}
        for kind in kinds:
            work[device, kind].append(ends(event))
        streams[device, event.pid, stream_label(capture, event)].append(ends(event))
    found: dict[tuple[object, str], list[tuple[int, int]]] = defaultdict(list)
    for row in built.rows("busy"):
        found[devices[row["gpu"]], row["kind"]].append((row["start"], row["end"]))
    copies: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for event in (*capture.copies, *capture.sets):
        copies[device_key(capture, event)].append(ends(event))
    for device, moved in copies.items():
        work[device, "compute_copy"] = intersection(union(work[device, "compute"]), union(moved))
    assert found == {key: merged for key, intervals in work.items() if (merged := union(intervals))}
    pids = {row["process"]: row["pid"] for row in built.rows("processes")}
    labels = {row["stream"]: (devices[row["gpu"]], pids[row["process"]], row["label"]) for row in built.rows("streams")}
    per_stream: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for row in built.rows("stream_busy"):
        per_stream[labels[row["stream"]]].append((row["start"], row["end"]))
    assert per_stream == {key: merged for key, intervals in streams.items() if (merged := union(intervals))}
    for table, by in (("busy", ("gpu", "kind")), ("stream_busy", ("gpu", "stream"))):
        previous: dict[tuple[object, ...], int | None] = defaultdict(lambda: None)
        for row in built.rows(table):
            key = tuple(row[name] for name in by)
            assert row["previous_end"] == previous[key]
            previous[key] = row["end"]


@generated
@given(capture=captures())
def test_parents_and_depths_are_those_of_the_thread_and_domain(capture: Capture) -> None:
    rows = build(capture).rows("nvtx_ranges")
    for place, row in enumerate(rows):
        thread = [(p, r) for p, r in enumerate(rows[:place]) if r["thread"] == row["thread"] and r["end"] >= row["end"]]
        own = [(p, r) for p, r in thread if r["domain"] == row["domain"]]
        assert row["outer"] == max((p for p, _ in thread), default=None)
        assert row["parent"] == max((p for p, _ in own), default=None)
        assert row["depth"] == (0 if row["parent"] is None else rows[row["parent"]]["depth"] + 1)
    keys = [(r["thread"], r["start"], -r["end"], r["domain"], r["name"]) for r in rows]
    assert keys == sorted(keys)


def test_a_call_is_in_a_range_of_its_own_thread_only() -> None:
    capture = Capture(
        kernels=[Kernel(100, 200, 0, 1, 7, n, PID, "k()") for n in (1, 2)],
        calls=[Call(50, 60, PID, 7, "cudaLaunchKernel", 1), Call(50, 60, PID, 8, "cudaLaunchKernel", 2)],
        ranges=[
            Range(0, 99, PID, 7, "seven"),
            Range(0, 55, PID, 8, "too short"),
            Range(0, 500, 43, 8, "other process"),
        ],
    )
    built = build(capture)
    names = stack_names(built)
    assert sorted(names[stack] for (stack,) in built.named("kernels", "stack")) == [(), ("seven",)]


def test_a_range_contains_the_call_at_both_of_its_edges() -> None:
    ranges = [
        Range(50, 60, PID, PID, "exactly"),
        Range(50, 59, PID, PID, "ends early"),
        Range(51, 60, PID, PID, "late"),
    ]
    capture = Capture(
        kernels=[Kernel(100, 200, 0, 1, 7, 1, PID, "k()")],
        calls=[Call(50, 60, PID, PID, "cudaLaunchKernel", 1)],
        ranges=ranges,
    )
    check(capture, build(capture))
    assert nested_names(capture, capture.calls[0]) == ("exactly",)


def test_the_kernel_may_run_long_after_its_range_has_ended() -> None:
    capture = Capture(
        kernels=[Kernel(10_000, 20_000, 0, 1, 7, 1, PID, "k()")],
        calls=[Call(50, 60, PID, PID, "cudaLaunchKernel", 1)],
        ranges=[Range(40, 70, PID, PID, "launched here"), Range(9_000, 21_000, PID, PID, "ran here")],
    )
    built = build(capture)
    assert stack_names(built)[built.rows("kernels")[0]["stack"]] == ("launched here",)


def test_equal_names_under_different_parents_are_different_paths() -> None:
    ranges = [
        Range(0, 100, PID, PID, "forward"),
        Range(10, 50, PID, PID, "layer"),
        Range(200, 300, PID, PID, "backward"),
        Range(210, 250, PID, PID, "layer"),
        Range(400, 500, PID, PID, "forward"),
        Range(410, 450, PID, PID, "layer"),
    ]
    starts = (20, 220, 420)
    capture = Capture(
        kernels=[Kernel(start + 1000, start + 1001, 0, 1, 7, start, PID, "k()") for start in starts],
        calls=[Call(start, start + 5, PID, PID, "cudaLaunchKernel", start) for start in starts],
        ranges=ranges,
    )
    built = build(capture)
    paths = {row["node"]: row["path"] for row in built.rows("stacks")}
    first, second, third = (paths[stack] for (stack,) in built.named("kernels", "stack"))
    assert first == third != second
    assert len(built.rows("stacks")) == 6
    assert len(built.rows("paths")) == 4


def test_pytorch_counters_are_cut_from_plain_paths_and_steps_keep_their_numbers() -> None:
    names = [
        "aten::mm, seq = 12, op_id = 345, sizes = [[2, 3], [3, 4]]",
        "aten::mm, op_id = 7",
        "iteration 3",
        "layer 12",
    ]
    assert plain_names(names) == ["aten::mm", "aten::mm", "iteration 3", "layer 12"]
    starts = (20, 220)
    capture = Capture(
        kernels=[Kernel(start + 1000, start + 1001, 0, 1, 7, start, PID, "k()") for start in starts],
        calls=[Call(start, start + 5, PID, PID, "cudaLaunchKernel", start) for start in starts],
        ranges=[Range(start - 5, start + 9, PID, PID, f"aten::mm, seq = {start}, op_id = 3") for start in starts],
    )
    built = build(capture)
    assert len({row["path"] for row in built.rows("stacks")}) == 2
    assert len({row["plain_path"] for row in built.rows("stacks")}) == 1
    texts = built.strings()
    assert [texts[row["name"]] for row in built.rows("plain_paths")] == ["aten::mm"]


@pytest.mark.parametrize("levels", [3, 400])
def test_deep_stacks_keep_every_level(levels: int) -> None:
    capture = Capture(
        kernels=[Kernel(9_000, 9_001, 0, 1, 7, 1, PID, "k()")],
        calls=[Call(4_000, 4_001, PID, PID, "cudaLaunchKernel", 1)],
        ranges=[Range(n, 8_000 - n, PID, PID, f"level {n}") for n in range(levels)],
    )
    built = build(capture)
    names = stack_names(built)[built.rows("kernels")[0]["stack"]]
    assert names == tuple(f"level {n}" for n in range(levels))
