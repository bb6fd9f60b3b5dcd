from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, Domain, GraphLaunch, Kernel, Layout, Range
from nsys_evidence.tools.communication import nccl_compile_context_breakdown as skill_module
from tests.oracle import exact, exact_rows
from tests.strategies import Span, call_of, containing_ranges, ends, generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.communication.collective_captures import NAMES, some_window, with_collectives
from tests.tools.slow_busy import as_window, halves

US = 1_000
ALL_REDUCE, _, _, REDUCE_SCATTER, SEND = NAMES
CONTEXTS = ("eager", "inductor_captured", "temporal_only", "none")
SAYS = {
    "c10d::allreduce_": "eager",
    "nccl:all_reduce, seq = 7": "eager",
    "record_param_comms": "eager",
    "Torch-Compiled Region: 0/0": "inductor_captured",
    "CompiledFunctionBackward": "inductor_captured",
    "## Call CompiledFxGraph fabc ##": "inductor_captured",
    "forward": "temporal_only",
    "ncclAllReduce": None,
    "ncclGroupEnd": None,
}
"""What a range says by its name; None for those of NCCL itself, which say nothing."""


# Against the slow and obvious method.


@st.composite
def annotated(draw: st.DrawFn) -> Capture:
    """A generated capture with calls, whose ranges bear the names above."""
    capture = draw(with_collectives().filter(lambda found: bool(found.calls) and bool(found.ranges)))
    capture.ranges[:] = [replace(r, text=draw(st.sampled_from(list(SAYS)))) for r in capture.ranges]
    return capture


def slow_contexts(capture: Capture, kernel: Kernel) -> set[str]:
    """The contexts that a kernel may have: several where ranges around its launch are twins."""
    around = containing_ranges(capture, call_of(capture, kernel))
    telling = [r for r in around if SAYS[str(r.text)] is not None]
    best = min(((-ends(r)[0], ends(r)[1]) for r in telling), default=None)
    return {str(SAYS[str(r.text)]) for r in telling if (-ends(r)[0], ends(r)[1]) == best} or {"none"}


@generated
@given(st.data())
def test_every_count_and_time_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(annotated())
    path, window = written(capture), some_window(data, capture)
    rows = {row["collective"]: row for row in exact_rows("nccl_compile_context_breakdown", path, as_window(window))}
    mine: dict[str, list[tuple[set[str], Kernel]]] = {}
    for k in capture.kernels:
        if k.name in NAMES and window.has(k):
            mine.setdefault(NAMES[k.name][0], []).append((slow_contexts(capture, k), k))
    assert rows.keys() == mine.keys()
    for collective, members in mine.items():
        row = rows[collective]
        assert (row["count"], row["total_ms"]) == (len(members), sum(window.part(k) for _, k in members))
        for context in CONTEXTS:
            surely = [k for contexts, k in members if contexts == {context}]
            perhaps = [k for contexts, k in members if context in contexts]
            assert len(surely) <= row[context] <= len(perhaps)
            assert sum(map(window.part, surely)) <= row[f"{context}_ms"] <= sum(map(window.part, perhaps))
        assert sum(row[context] for context in CONTEXTS) == row["count"]
        assert sum(row[f"{context}_ms"] for context in CONTEXTS) == row["total_ms"]


@generated
@given(st.data())
def test_totals_are_sums_of_rows_and_agree_with_nccl_breakdown(data: st.DataObject) -> None:
    capture = data.draw(annotated())
    path, window = written(capture), as_window(some_window(data, capture))
    rows = exact_rows("nccl_compile_context_breakdown", path, window)
    totals = exact("nccl_compile_context_breakdown", path, window).totals
    names = ("count", "total_ms", *CONTEXTS, *(f"{context}_ms" for context in CONTEXTS))
    assert {name: totals[name] for name in names} == {name: sum(row[name] for row in rows) for name in names}
    assert totals["collectives"] == len(rows)
    breakdown = exact("nccl_breakdown", path, window).totals
    assert all(totals[name] == breakdown[name] for name in ("count", "total_ms", "clipped"))


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(annotated().filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    parts = halves(whole, data.draw(st.integers(whole.start, whole.end)))
    of_whole, first, second = (_times(path, window) for window in (whole, *parts))
    assert of_whole == {name: first[name] + second[name] for name in of_whole}


def _times(path: Path, window: Span) -> dict[str, int]:
    totals = exact("nccl_compile_context_breakdown", path, as_window(window)).totals
    return {f"{context}_ms": totals[f"{context}_ms"] for context in CONTEXTS}  # type: ignore[misc]


# Real captures.


@needs_shared
def test_a_real_capture_says_what_its_tables_say() -> None:
    # By SQL, calls joined to kernels by process and correlation id: 64 of the 66 collectives have a call, within, from
    # the innermost range out, ncclGroupEnd, nccl:all_to_all, record_param_comms, c10d::alltoall_base_, AllToAll4D; they
    # take 25179513 ns of 25401752. Two have no call.
    capture = SHARED / "captures" / "h100x2_nccl_2026.2.sqlite"
    [row] = exact_rows("nccl_compile_context_breakdown", capture)
    assert (row["collective"], row["count"], row["total_ms"]) == ("SendRecv", 66, 25_401_752)
    assert (row["eager"], row["eager_ms"], row["none"], row["none_ms"]) == (64, 25_179_513, 2, 222_239)
    envelope = ask("nccl_compile_context_breakdown", capture)
    assert envelope["totals"]["without_call"] == 2
    assert any("2 collectives have no recorded launching call" in note for note in envelope["notes"])
    assert len(dump_json(envelope)) < 6_000


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_real_capture_without_ranges_abstains_and_one_without_collectives_is_empty(capture: Path) -> None:
    envelope = ask("nccl_compile_context_breakdown", capture)
    if envelope["status"] == "abstained":
        assert envelope["missing"]
        assert set(envelope["missing"]) <= {"kernels", "calls", "nvtx"}
        return
    count = exact("nccl_breakdown", capture).totals["count"]
    assert envelope["totals"]["count"] == count
    assert envelope["status"] == ("ok" if count else "empty")


# Words.


def launched(*ranges: str, name: str = ALL_REDUCE, domains: tuple[str, ...] = ()) -> Capture:
    """A collective launched inside these ranges, outermost first; those in `domains` are in NCCL's domain."""
    opened = [
        Range(place * US, (200 - place) * US, 101, 101, text, int(text in domains))
        for place, text in enumerate(ranges, start=1)
    ]
    return Capture(
        [Kernel(300 * US, 310 * US, 0, 1, 7, 1, 101, name)],
        calls=[Call(100 * US, 110 * US, 101, 101, "cuLaunchKernelEx", 1)],
        ranges=opened or [Range(1, 2, 101, 101, "elsewhere")],
        domains=[Domain(101, 1, "NCCL")] if domains else [],
    )


def context_of(capture: Capture) -> str:
    [row] = rows_of(ask("nccl_compile_context_breakdown", written(capture)))
    [context] = [name for name in CONTEXTS if row[name]]
    assert row[f"{context}_ms"] == row["total_ms"] == 0.01
    return context


@pytest.mark.parametrize(
    ("ranges", "context"),
    [
        (["c10d::allreduce_"], "eager"),
        (["_c10d_functional::all_reduce"], "eager"),
        (["nccl:all_reduce"], "eager"),
        (["CompiledFunction"], "inductor_captured"),
        (["inductor_region"], "inductor_captured"),
        (["Torch-Compiled Region: 3/0"], "inductor_captured"),
        (["triton_poi_fused_add_0"], "inductor_captured"),
        (["Torch-Compiled Region: 0/0", "nccl:all_reduce"], "eager"),
        (["nccl:all_reduce", "Torch-Compiled Region: 0/0"], "inductor_captured"),
        (["nccl:all_reduce", "copy bucket"], "temporal_only"),
        (["step 1", "forward"], "temporal_only"),
        (["step 1", "NCCLX"], "temporal_only"),
        ([], "none"),
    ],
)
def test_the_innermost_range_around_the_launch_decides(ranges: list[str], context: str) -> None:
    assert context_of(launched(*ranges)) == context


def test_ranges_of_nccl_itself_stand_around_every_launch_and_are_passed_over() -> None:
    assert context_of(launched("nccl:all_reduce", "ncclAllReduce", "ncclGroupEnd")) == "eager"
    assert context_of(launched("nccl:all_reduce", "ncclAllReduce", domains=("ncclAllReduce",))) == "eager"
    assert context_of(launched("step 1", "ncclAllReduce")) == "temporal_only"
    assert context_of(launched("ncclAllReduce")) == "none"


def test_a_range_that_is_open_when_the_kernel_runs_but_not_around_its_launch_does_not_count() -> None:
    capture = launched("step 1")
    capture.ranges.append(Range(290 * US, 320 * US, 101, 101, "nccl:all_reduce"))
    assert context_of(capture) == "temporal_only"


def test_a_range_of_another_thread_does_not_count() -> None:
    capture = launched()
    capture.ranges.append(Range(50 * US, 150 * US, 101, 102, "nccl:all_reduce"))
    assert context_of(capture) == "none"


def test_a_collective_without_a_recorded_call_counts_as_none_and_is_said() -> None:
    capture = launched("nccl:all_reduce")
    capture.kernels.append(Kernel(400 * US, 420 * US, 0, 1, 7, None, 101, SEND))
    envelope = ask("nccl_compile_context_breakdown", written(capture))
    assert [(row["collective"], row["eager"], row["none"]) for row in rows_of(envelope)] == [
        ("SendRecv", 0, 1),
        ("AllReduce", 1, 0),
    ]
    assert envelope["totals"]["without_call"] == 1
    assert any("1 collectives have no recorded launching call" in note for note in envelope["notes"])
    outside = ask("nccl_compile_context_breakdown", written(launched()))["totals"]
    assert (outside["none"], outside["without_call"]) == (1, 0)


# What may be missing.


def test_a_window_and_kernels_without_collectives_are_empty() -> None:
    assert ask("nccl_compile_context_breakdown", written(launched("step 1", name="scale")))["status"] == "empty"
    early = launched("step 1")
    early.kernels.append(Kernel(10 * US, 20 * US, 0, 1, 7, None, 101, "scale"))
    assert ask("nccl_compile_context_breakdown", written(early), trim=[0, "0.00005"])["status"] == "empty"


def test_a_graph_traced_as_a_whole_hides_collectives_and_makes_the_answer_partial() -> None:
    capture = launched("nccl:all_reduce")
    capture.graph_launches.append(GraphLaunch(300 * US, 330 * US, 0, 1, 8, None, 101, 1))
    assert ask("nccl_compile_context_breakdown", written(capture))["status"] == "partial"


def test_without_kernels_calls_or_ranges_it_abstains_and_an_absent_device_is_refused() -> None:
    copies = [Copy(0, 10 * US, 0, 1, 7, None, 101, 4096, 1)]
    for layout in (Layout(), Layout(empty_tables=True)):
        envelope = ask("nccl_compile_context_breakdown", written(Capture(copies=copies), layout))
        assert (envelope["status"], set(envelope["missing"])) == ("abstained", {"kernels", "calls", "nvtx"})
        assert envelope["capture_hint"].startswith("nsys profile")
    whole = launched("step 1")
    without_ranges = Capture(whole.kernels, calls=whole.calls)
    assert ask("nccl_compile_context_breakdown", written(without_ranges))["missing"] == ["nvtx"]
    with pytest.raises(EvidenceError) as refused:
        ask("nccl_compile_context_breakdown", written(whole), device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_every_pattern_of_the_table_of_ranges_of_nccl_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = [Range(100, 900, 101, 101, "c10d::allreduce_"), Range(200, 800, 101, 101, "OurNccl: launch")]
    calls = [Call(300, 400, 101, 101, "cuLaunchKernelEx", 1)]
    capture = written(Capture([Kernel(500, 600, 0, 1, 7, 1, 101, ALL_REDUCE)], calls=calls, ranges=ranges))
    assert ask("nccl_compile_context_breakdown", capture)["totals"]["temporal_only"] == 1
    rows = (*skill_module.NCCL_RANGES.rows, ("^OurNccl:", "ours"))
    monkeypatch.setattr(skill_module, "NCCL_RANGES", SimpleNamespace(rows=rows))
    assert ask("nccl_compile_context_breakdown", capture)["totals"]["eager"] == 1
