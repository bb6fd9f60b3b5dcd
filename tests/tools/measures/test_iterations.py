from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call as ApiCall
from nsys_evidence.ingest.synthetic import Capture, Domain, Kernel, Range, demo_capture
from nsys_evidence.tools.call import Call
from nsys_evidence.tools.measures.iterations import Iterations, find_iterations
from nsys_evidence.tools.measures.marker_names import marker_name
from nsys_evidence.tools.registry import NoParams
from tests.strategies import generated
from tests.support import CAPTURES, ask, needs_shared, rows_of, workspace, written
from tests.tools.slow_iterations import slow_choice, with_steps

US = 1_000


def find(path: Path, marker: str | None = None) -> Iterations | None:
    profile = workspace().library.open(str(path))
    call: Call[Any] = Call(NoParams(), workspace(), profile, profile.capture_window, profile.devices, 20, 0)
    return find_iterations(call, marker)


def kernel(start: int, end: int, correlation: int, pid: int = 101) -> Kernel:
    return Kernel(start * US, end * US, 0, 1, 7, correlation, pid, "scale")


def call(start: int, end: int, correlation: int, pid: int = 101, tid: int | None = None) -> ApiCall:
    return ApiCall(start * US, end * US, pid, pid if tid is None else tid, "cudaLaunchKernel_v7000", correlation)


def named(start: int, end: int, text: str, domain: int = 0, pid: int = 101, tid: int | None = None) -> Range:
    return Range(start * US, end * US, pid, pid if tid is None else tid, text, domain)


def steps(count: int = 3, text: str = "step {}", pid: int = 101, kernel_us: int = 10) -> Capture:
    """Steps of 100 µs, each of which launches a kernel that begins 50 µs after the step has ended."""
    starts = [200 * n for n in range(count)]
    return Capture(
        [kernel(start + 150, start + 150 + kernel_us, n + 1, pid) for n, start in enumerate(starts)],
        calls=[call(start + 10, start + 20, n + 1, pid) for n, start in enumerate(starts)],
        ranges=[named(start, start + 100, text.format(n), pid=pid) for n, start in enumerate(starts)],
    )


def joined(*captures: Capture) -> Capture:
    return Capture(
        [event for capture in captures for event in capture.kernels],
        calls=[event for capture in captures for event in capture.calls],
        ranges=[event for capture in captures for event in capture.ranges],
    )


def error(path: Path, **arguments: object) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        ask("pipeline_bubble_metrics", path, **arguments)  # type: ignore[arg-type]
    return caught.value


# Names.


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("iteration 3", "iteration"),
        ("step_12", "step"),
        ("ProfilerStep#7", "ProfilerStep"),
        ("epoch: 3", "epoch"),
        ("layer.3.5", "layer"),
        ("batch (4/10)", "batch"),
        ("train[12]", "train"),
        ("Lib:iteration 3", "Lib:iteration"),
        ("Lib:3", "Lib:"),
        ("step 3 forward", "step 3 forward"),
        ("forward_", "forward_"),
        ("main()", "main()"),
        ("conv2d", "conv2d"),
        ("42", "42"),
        ("", ""),
        ("aten::mm, seq = 12, op_id = 7", "aten::mm"),
        ("aten::mm, op_id = 7, sizes = [[2, 3], []]", "aten::mm"),
        ("optimizer step 2, seq = 12", "optimizer step"),
    ],
)
def test_a_marker_is_the_name_without_counters_and_without_the_number_at_its_end(text: str, marker: str) -> None:
    assert marker_name(text) == marker


# Choosing.


@generated
@given(with_steps())
def test_the_marker_its_thread_and_its_windows_are_those_of_the_definition(capture: Capture) -> None:
    expected = slow_choice(capture)
    found = find(written(capture))
    if expected is None:  # there is GPU work, and no marker launches most of it
        assert found is None or found.source == "kernel sequence"
        return
    assert found is not None
    windows = [(window.start_ns, window.end_ns) for window in found.windows]
    assert (found.name, found.process, found.tid, windows) == expected
    assert [window.by for window in found.windows] == [f"iteration {n} of {found.name}" for n in range(len(windows))]


def test_an_iteration_reaches_to_the_end_of_the_gpu_work_that_it_launched() -> None:
    capture = written(steps())
    envelope = ask("pipeline_bubble_metrics", capture, iteration=1)
    assert envelope["scope"] == {
        "devices": [0],
        "start_s": 0.0002,
        "end_s": 0.00036,
        "span_ms": 0.16,
        "by": "iteration 1 of step",
    }
    assert rows_of(envelope)[0]["busy_ms"] == 0.01
    assert any("3 NVTX ranges step of process 101, thread 101" in note for note in envelope["notes"])


def test_the_last_iteration_includes_the_end_of_the_capture() -> None:
    found = find(written(steps()))
    assert found is not None
    assert [window.includes_end for window in found.windows] == [False, False, True]
    assert found.windows[-1] == found.windows[2] == list(found.windows)[2]
    assert found.windows[1:] == [found.windows[1], found.windows[2]]


def test_iterations_do_not_depend_on_the_device_asked_about() -> None:
    capture = steps()
    capture.kernels.append(Kernel(0, 10, 1, 1, 7, None, 101, "scale"))
    path = written(capture)
    scopes = [ask("pipeline_bubble_metrics", path, iteration=2, device=device)["scope"] for device in (0, 1)]
    assert scopes[0] == {**scopes[1], "devices": [0]}


def test_of_several_markers_the_one_with_most_gpu_time_counts_then_the_outermost_then_the_first_by_name() -> None:
    inner = [named(200 * n + 5, 200 * n + 50, "forward") for n in range(3)]
    more = joined(steps(kernel_us=10), Capture(ranges=inner))
    assert getattr(find(written(more)), "name", None) == "step"
    outside = [named(200 * n, 200 * n + 120, "zone") for n in range(3)]
    assert getattr(find(written(joined(more, Capture(ranges=outside)))), "name", None) == "zone"
    other = Capture(
        [kernel(1000 + 10 * n, 1009 + 10 * n, 11 + n) for n in range(4)],
        calls=[call(700 + 20 * n, 702 + 20 * n, 11 + n) for n in range(4)],
        ranges=[named(700 + 20 * n, 710 + 20 * n, "eval") for n in range(4)],
    )
    assert getattr(find(written(joined(more, other))), "name", None) == "eval"


def test_two_instances_or_overlapping_ones_mark_no_iterations() -> None:
    assert find(written(steps(count=2))) is None
    nested = Capture(ranges=[named(0, 100, "f"), named(1, 50, "f"), named(60, 70, "f"), named(200, 210, "f")])
    assert find(written(nested)) is None


def test_of_two_ranks_with_one_marker_the_one_with_most_gpu_time_is_taken_and_the_other_is_said() -> None:
    capture = written(joined(steps(pid=101), steps(pid=202, kernel_us=20)))
    envelope = ask("pipeline_bubble_metrics", capture, iteration=0)
    assert any("process 202, thread 202" in note and "1 other threads" in note for note in envelope["notes"])


def test_ranges_without_gpu_work_may_mark_iterations_the_outermost_first() -> None:
    ranges = [named(200 * n, 200 * n + 100, "step") for n in range(3)]
    ranges += [named(200 * n + 10, 200 * n + 50, "a", domain=1) for n in range(3)]
    found = find(written(Capture(ranges=ranges, domains=[Domain(101, 1, "Lib")])))
    assert found is not None
    assert (found.name, len(found.windows)) == ("step", 3)


def test_a_marker_that_launches_no_gpu_time_is_not_taken_unasked_where_there_is_gpu_work() -> None:
    ranges = [named(200 * n, 200 * n + 100, "poll") for n in range(3)]
    at_once = Kernel(150 * US, 150 * US, 0, 1, 7, 1, 101, "scale")
    for work in ([kernel(150, 160, 2)], [kernel(150, 160, 2), at_once]):
        path = written(Capture(work, calls=[call(10, 20, 1)], ranges=ranges))
        assert find(path) is None
        refused = error(path, iteration=0)
        assert refused.code is ErrorCode.ITERATION_OUT_OF_RANGE
        assert "no NVTX range that repeats" in refused.message
        asked = find(path, "poll")
        assert asked is not None
        assert len(asked.windows) == 3
        assert error(path, iteration=0, marker="pol").facts["markers"] == ["poll"]


def test_other_threads_of_a_marker_are_the_same_number_whether_it_was_found_or_asked_for() -> None:
    idle = [named(200 * n, 200 * n + 100, f"step {n}", tid=102) for n in range(3)]
    twice = [named(200 * n, 200 * n + 100, f"step {n}", tid=103) for n in range(2)]
    overlapping = [named(200 * n, 200 * n + 300, f"step {n}", tid=104) for n in range(3)]
    launching = [named(200 * n, 200 * n + 100, f"step {n}", tid=105) for n in range(3)]
    more = Capture([kernel(150, 151, 9)], calls=[call(10, 20, 9, tid=105)])
    ranges = Capture(ranges=idle + twice + overlapping + launching)
    path = written(joined(steps(), more, ranges))
    found, asked = find(path), find(path, "step")
    assert found is not None
    assert asked is not None
    assert (found.tid, asked.tid) == (101, 101)
    assert found.elsewhere == asked.elsewhere == 2


def test_no_query_grows_with_the_number_of_markers_that_do_not_qualify(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition for each name made captures of many names never answer."""
    asked: list[int] = []
    for method in ("sql", "arrow"):
        real = getattr(Call, method)

        def counted(self: Call[Any], query: str, parameters: Iterable[object] = (), real: Any = real) -> Any:
            given = list(parameters)
            asked.append(len(query) + sum(len(value) if isinstance(value, list) else 1 for value in given))
            return real(self, query, given)

        monkeypatch.setattr(Call, method, counted)
    capture = steps()
    for n in range(300):  # nested in themselves, each with more GPU time than the steps
        begin, correlation = 1000 + 100 * n, 1000 + n
        capture.ranges.extend(named(begin + deep, begin + 50 - deep, f"op{n}x") for deep in range(3))
        capture.calls.append(call(begin + 10, begin + 11, correlation))
        capture.kernels.append(kernel(begin + 20, begin + 90, correlation))
    found = find(written(capture))
    assert found is not None
    assert (found.name, len(found.windows)) == ("step", 3)
    assert len(asked) < 20
    assert max(asked) < 1000


def test_an_instance_without_gpu_work_is_an_iteration_too() -> None:
    capture = joined(steps(), Capture(ranges=[named(700, 750, "step 9")]))
    found = find(written(capture))
    assert found is not None
    assert (found.windows[3].start_ns, found.windows[3].end_ns) == (700_000, 750_000)


# A marker of one's own.


def test_a_marker_is_matched_by_its_name_without_the_number_or_by_a_full_name() -> None:
    capture = joined(steps(), Capture(ranges=[named(200 * n + 5, 200 * n + 50, "phase 2") for n in range(3)]))
    path = written(capture)
    for marker, name in (("step", "step"), ("phase", "phase"), ("phase 2", "phase 2")):
        found = find(path, marker)
        assert found is not None
        assert (found.name, len(found.windows)) == (name, 3)


@pytest.mark.parametrize("marker", ["ste", "step 1", "STEP", "%", "'; DROP TABLE strings; --"])
def test_a_marker_that_marks_nothing_is_refused_with_those_that_there_are(marker: str) -> None:
    refused = error(written(steps()), iteration=0, marker=marker)
    assert refused.code is ErrorCode.INVALID_ARGUMENT
    assert refused.facts["markers"] == ["step"]
    assert "step" in refused.hint


def test_a_marker_in_a_named_domain_carries_the_domain() -> None:
    capture = steps()
    ranges = [Range(r.start, r.end, r.pid, r.tid, r.text, 1) for r in capture.ranges]
    found = find(written(Capture(capture.kernels, calls=capture.calls, ranges=ranges, domains=[Domain(101, 1, "Lib")])))
    assert found is not None
    assert found.name == "Lib:step"


# Refusals.


def test_an_iteration_that_does_not_exist_is_refused_with_those_that_do() -> None:
    refused = error(written(steps()), iteration=3)
    assert refused.code is ErrorCode.ITERATION_OUT_OF_RANGE
    assert (refused.facts["first"], refused.facts["last"]) == (0, 2)
    assert "0 to 2" in refused.hint


def test_a_capture_in_which_nothing_repeats_says_so_and_names_trim_and_marker() -> None:
    refused = error(written(Capture([kernel(0, 10, 1)])), iteration=0)
    assert refused.code is ErrorCode.ITERATION_OUT_OF_RANGE
    assert "no NVTX range that repeats" in refused.message
    assert "no sequence of three or more kernels" in refused.message
    assert "trim" in refused.hint
    assert "marker" in refused.hint


def test_the_planted_iterations_of_the_demo_capture_are_found() -> None:
    capture, truth = demo_capture()
    found = find(written(capture))
    assert found is not None
    assert (found.name, len(found.windows)) == ("iteration", truth.iterations)
    assert (
        found.elsewhere == len({step.pid for step in capture.ranges if (step.text or "").startswith("iteration")}) - 1
    )


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_iterations_of_a_real_capture_lie_in_it_and_do_not_overlap_on_the_host(capture: Path) -> None:
    found = find(capture)
    if found is None:
        return
    window = workspace().library.open(str(capture)).capture_window
    assert window is not None
    assert len(found.windows) >= 3
    starts = [iteration.start_ns for iteration in found.windows]
    assert starts == sorted(starts)
    assert all(window.start_ns <= w.start_ns <= w.end_ns <= window.end_ns for w in found.windows)
