from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.evidence import parse_address, resolve_address
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Range, demo_capture
from nsys_evidence.tools import registry
from nsys_evidence.tools.analysis.judging import JUDGES
from nsys_evidence.tools.analysis.patterns import PATTERNS
from tests.strategies import generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, workspace, written
from tests.tools.slow_busy import slow_parts, with_graphs

US, MS = 1_000, 1_000_000
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def kernel(start: float, end: float, correlation: int | None = 1, name: str = "scale", **where: int) -> Kernel:
    return Kernel(
        int(start * MS), int(end * MS), where.get("device", 0), 1, where.get("stream", 7), correlation, 101, name
    )


def call(start: float, end: float, name: str, correlation: int = 0) -> Call:
    return Call(int(start * MS), int(end * MS), 101, 101, name, correlation)


def two_kernels(*calls: Call, more: list[Kernel] | None = None) -> Capture:
    """Ten ms of kernel, eighty without, ten of kernel; both launched before the window."""
    launches = [call(-3, -2, "cudaLaunchKernel_v7000", 1), call(-2, -1, "cudaLaunchKernel_v7000", 2)]
    return Capture([kernel(0, 10, 1), kernel(90, 100, 2), *(more or [])], calls=[*launches, *calls])


def steps(*calls: Call) -> Capture:
    """Five steps of 10 ms, of which the first 5 are a kernel, and these calls."""
    kernels = [kernel(10 * n, 10 * n + 5, n + 1) for n in range(5)]
    launches = [call(10 * n - 0.3, 10 * n - 0.2, "cudaLaunchKernel_v7000", n + 1) for n in range(5)]
    ranges = [Range(int((10 * n - 0.5) * MS), int((10 * n + 9) * MS), 101, 101, f"step {n}") for n in range(5)]
    return Capture(kernels, calls=[*launches, *calls], ranges=ranges)


def copies(*times: tuple[float, float], kind: int = 1, src_kind: int = 0) -> list[Copy]:
    return [Copy(int(a * MS), int(b * MS), 0, 1, 8, None, 101, 1 << 20, kind, src_kind, 2) for a, b in times]


PLANTED: dict[str, Callable[[], Capture]] = {
    "idle_device": two_kernels,
    "host_sync": lambda: two_kernels(call(11, 89, "cudaDeviceSynchronize_v3020", 9)),
    "launch_bound": lambda: two_kernels(call(11, 89, "cudaLaunchKernel_v7000", 9)),
    "exposed_comm": lambda: Capture([kernel(0, 10), kernel(10, 40, name=NCCL, stream=21), kernel(40, 50)]),
    "serialised_comm": lambda: Capture([kernel(0, 10), kernel(10, 40, name=NCCL), kernel(40, 50)]),
    "exposed_copies": lambda: Capture([kernel(0, 10), kernel(40, 50)], copies((10, 40))),
    "kernel_hotspot": lambda: Capture([kernel(0, 10), kernel(10, 40, name="hot"), kernel(40, 50, name="other")]),
    "synchronous_copies": lambda: replace(two_kernels(call(11, 89, "cudaMemcpy_v3020", 9)), copies=copies((50, 50.5))),
    "steady_h2d": lambda: Capture(
        [kernel(5 * n, 5 * n + 3) for n in range(20)], copies(*((5 * n + 3, 5 * n + 5) for n in range(20)))
    ),
    "steady_module_loading": lambda: steps(call(35.1, 39, "cuModuleLoadData", 50)),
    "steady_allocation": lambda: steps(call(35.1, 39, "cudaMalloc_v3020", 50)),
    "tensor_cores_unused": lambda: Capture([kernel(0, 30, name="sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma")]),
    "rank_imbalance": lambda: Capture(
        [kernel(10 * d, 30, name=NCCL, device=d) for d in (0, 1)] + [kernel(30, 40, device=d) for d in (0, 1)]
    ),
}


def findings(capture: Capture, **scope: Any) -> dict[str, dict[str, Any]]:
    return {row["pattern"]: row for row in rows_of(ask("root_cause_matcher", written(capture), **scope))}


def assert_cells_hold(envelope: dict[str, Any]) -> None:
    """Every figure is what stands in the cell that it names, of a result that is kept."""
    for figure in rows_of(envelope, "figures"):
        address = parse_address(figure["cell"])
        kept = workspace().ledger.get(address.evidence)
        assert kept is not None
        assert resolve_address(address, kept[0]) == figure["value"], figure


# What is found.


@pytest.mark.parametrize("pattern", PLANTED)
def test_a_planted_pattern_is_found_with_figures_that_stand_in_the_cells_named(pattern: str) -> None:
    envelope = ask("root_cause_matcher", written(PLANTED[pattern]()))
    assert pattern in {row["pattern"] for row in rows_of(envelope)}
    assert any(row["found"] for row in rows_of(envelope, "figures") if row["pattern"] == pattern)
    assert_cells_hold(envelope)


@needs_shared
def test_the_profilers_own_work_is_found_where_it_took_two_fifths_of_the_capture() -> None:
    """42.88 % is what doctor reports of this capture: PROFILER_OVERHEAD within the capture window, by union.

    That says nothing of any window: it has no share there, no severity, and comes last.
    """
    envelope = ask("root_cause_matcher", SHARED / "captures" / "t4_no_kernels_osrt_2023.4.sqlite")
    finding = rows_of(envelope)[-1]
    assert (finding["pattern"], finding["share_pct"], finding["recoverable_ms"]) == ("profiler_overhead", None, None)
    assert finding["severity"] == "about the capture"
    [figure] = [row for row in rows_of(envelope, "figures") if row["pattern"] == "profiler_overhead"][:1]
    assert (figure["figure"], figure["value"]) == ("pct", 42.88)
    assert "never the workload" in finding["says"]


def test_there_is_a_judge_and_a_planted_capture_for_every_pattern() -> None:
    names = [pattern.name for pattern in PATTERNS]
    assert sorted(JUDGES) == sorted(names)
    assert sorted({*PLANTED, "profiler_overhead"}) == sorted(names)
    for pattern in PATTERNS:
        assert set(pattern.skills) <= set(registry.all_skills())


@pytest.mark.parametrize(
    ("pattern", "idle"), [("host_sync", 80.0), ("launch_bound", 80.0), ("synchronous_copies", 79.5)]
)
def test_idle_time_has_one_owner_what_the_host_did_meanwhile(pattern: str, idle: float) -> None:
    found = findings(PLANTED[pattern]())
    assert found[pattern]["recoverable_ms"] == idle
    assert found[pattern]["share_pct"] == idle
    assert sum(row["recoverable_ms"] or 0 for row in found.values()) == idle


def test_loading_and_allocation_before_the_first_step_ends_are_no_findings() -> None:
    for name, pattern in (("cuModuleLoadData", "steady_module_loading"), ("cudaMalloc_v3020", "steady_allocation")):
        assert pattern not in findings(steps(call(5.1, 8.9, name, 50)))
        assert pattern in findings(steps(call(35.1, 39, name, 50)))


def test_two_ms_of_a_gap_in_four_seconds_are_no_finding() -> None:
    capture = Capture([kernel(0, 2000, 1), kernel(2002, 4000, 2)], calls=[call(-2, -1, "cudaLaunchKernel_v7000", 1)])
    assert "idle_device" not in findings(capture)


@pytest.mark.parametrize(
    ("gap", "severity"), [(0.9, None), (1.1, "low"), (4.9, "low"), (5.1, "medium"), (20.1, "high")]
)
def test_severity_comes_from_the_share_of_the_window(gap: float, severity: str | None) -> None:
    capture = Capture([kernel(0, 50 - gap, 1), kernel(50, 100, 2)], calls=[call(-2, -1, "cudaLaunchKernel_v7000", 1)])
    found = findings(capture).get("idle_device")
    assert (found and found["severity"]) == severity


def test_one_stray_kernel_on_a_stream_of_collectives_does_not_make_it_shared() -> None:
    stray = Capture([kernel(0, 10), kernel(10, 40, name=NCCL, stream=21), kernel(40, 40.5, stream=21), kernel(41, 50)])
    found = findings(stray)
    assert "exposed_comm" in found
    assert "serialised_comm" not in found


def test_exposed_time_on_a_shared_stream_and_on_its_own_are_two_findings_that_add_up() -> None:
    kernels = [kernel(0, 10), kernel(10, 36, name=NCCL), kernel(36, 60, name=NCCL, stream=21), kernel(60, 70)]
    found = findings(Capture(kernels))
    assert (found["serialised_comm"]["recoverable_ms"], found["exposed_comm"]["recoverable_ms"]) == (26.0, 24.0)


def test_a_collective_is_no_kernel_hotspot() -> None:
    found = findings(Capture([kernel(0, 10), kernel(10, 90, name=NCCL, stream=21), kernel(90, 100)]))
    assert "exposed_comm" in found
    assert found.get("kernel_hotspot", {"share_pct": 20.0})["share_pct"] == 20.0


def test_the_share_of_a_hotspot_is_the_time_in_which_it_runs_and_not_its_part_of_a_sum() -> None:
    short = [kernel(5 * n, 5 * n + 5, name=f"short_{n}", stream=13) for n in range(20)]
    found = findings(Capture([kernel(0, 100, name="hot"), *short]))
    assert found["kernel_hotspot"]["share_pct"] == 100.0


def test_copies_that_hide_beside_a_kernel_are_no_lost_time() -> None:
    hidden = Capture([kernel(0, 100)], copies(*((5 * n, 5 * n + 4) for n in range(20))))
    assert not {"steady_h2d", "exposed_copies"} & set(findings(hidden))


def test_an_imbalance_among_many_devices_is_found_wherever_the_slow_one_stands() -> None:
    kernels = [kernel(0, 90 if device == 23 else 50, name=NCCL, device=device) for device in range(24)]
    envelope = ask("root_cause_matcher", written(Capture(kernels)))
    figures = [row["value"] for row in rows_of(envelope, "figures") if row["pattern"] == "rank_imbalance"]
    assert figures == [90.0, 50.0]
    assert_cells_hold(envelope)


def test_the_marker_that_is_asked_for_says_where_the_steady_state_begins() -> None:
    capture = steps(call(15.1, 19, "cuModuleLoadData", 50))
    capture.ranges.extend(
        Range(int((25 * n - 1) * MS), int((25 * n + 24) * MS), 101, 101, f"epoch {n}") for n in range(3)
    )
    found = {row["pattern"] for row in rows_of(ask("root_cause_matcher", written(capture), iteration=1, marker="step"))}
    assert "steady_module_loading" in found
    assert "steady_module_loading" not in findings(capture)  # the first epoch has not ended


# What holds always.


@generated
@given(st.data())
def test_recoverable_time_adds_up_to_no_more_than_idle_and_exposed_time(data: st.DataObject) -> None:
    capture = data.draw(with_graphs())
    scope: dict[str, Any] = {}
    if has_length(capture) and data.draw(st.booleans()):
        window = data.draw(trims(capture))
        scope = {"trim": window.trim}
        parts = slow_parts(capture, window).values()
    envelope = ask("root_cause_matcher", written(capture), **scope)
    totals, rows = envelope["totals"], rows_of(envelope)
    assert totals["recoverable_ms"] <= totals["idle_ms"] + (totals["exposed_comm_ms"] or 0) + 0.0016
    assert sum(row["recoverable_ms"] or 0 for row in rows) == pytest.approx(totals["recoverable_ms"], abs=0.0006 * 14)
    if scope:
        assert totals["idle_ms"] == pytest.approx(sum(part.idle for part in parts) / 10**6, abs=0.0006)
        span = sum(part.span for part in parts)
        for row in rows:
            if row["recoverable_ms"] is not None and span > 10**6:
                assert row["share_pct"] == pytest.approx(100 * row["recoverable_ms"] * 10**6 / span, abs=0.07)
    assert totals["findings"] == len(rows)
    assert totals["checked"] + totals["not_checked"] == len(PATTERNS)
    shares = [row["share_pct"] for row in rows if row["pattern"] != "profiler_overhead"]
    assert shares == sorted(shares, reverse=True)
    assert all(share >= 1 for share in shares)
    assert_cells_hold(envelope)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_on_a_real_capture_recoverable_time_is_no_more_than_other_skills_report_as_idle_and_exposed(
    capture: Path,
) -> None:
    envelope = ask("root_cause_matcher", capture)
    if envelope["status"] == "abstained":
        assert envelope["capture_hint"].startswith("nsys profile")
        return
    bubbles, overlap = ask("pipeline_bubble_metrics", capture), ask("overlap_breakdown", capture)
    exposed = 0 if overlap["status"] == "abstained" else overlap["totals"]["exposed_comm_ms"]
    assert envelope["totals"]["recoverable_ms"] <= bubbles["totals"]["idle_ms"] + exposed + 0.0016
    assert envelope["totals"]["idle_ms"] == bubbles["totals"]["idle_ms"]
    assert not [row for row in rows_of(envelope, "not_checked") if row["status"] == "failed"]
    assert_cells_hold(envelope)


@needs_shared
def test_the_findings_of_a_real_capture() -> None:
    """By hand from the event tables of the two-GPU capture, over a window of 299.877 ms twice.

    flash_fwd_kernel takes 272.317 of 535.201 ms of kernel time; 45.408 ms of the 58.660 ms of idle time are gaps of
    10 µs and more for most of which no launching thread was in a CUDA call; the 17.173 and 8.229 ms of collectives are
    on the one stream of each device that compute runs on, so none of them can overlap it.
    """
    rows = rows_of(ask("root_cause_matcher", SHARED / "captures" / "h100x2_nccl_2026.2.sqlite"))
    found = {row["pattern"]: (row["severity"], row["share_pct"], row["recoverable_ms"]) for row in rows}
    assert found["kernel_hotspot"] == ("high", 45.4, None)
    assert found["idle_device"] == ("medium", 7.57, 45.408)
    assert found["launch_bound"] == ("low", 2.07, 12.406)
    assert found["serialised_comm"] == ("low", 4.24, 25.402)
    assert "exposed_comm" not in found


# What cannot be told.


def test_without_kernels_idle_time_is_not_blamed_on_anything() -> None:
    capture = Capture(copies=copies((0, 10), (90, 100)), calls=[call(-2, -1, "cudaMemcpyAsync_v3020", 1)])
    envelope = ask("root_cause_matcher", written(capture))
    assert envelope["status"] == "partial"
    assert not {row["pattern"] for row in rows_of(envelope)} & {"idle_device", "launch_bound", "host_sync"}
    reasons = {row["pattern"]: row["reason"] for row in rows_of(envelope, "not_checked")}
    assert "may have run in what counts as idle" in reasons["idle_device"]


def test_a_whole_graph_is_busy_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(10 * MS, 90 * MS, 0, 1, 9, None, 101, 1)
    capture = replace(two_kernels(), graph_launches=[graph])
    envelope = ask("root_cause_matcher", written(capture))
    assert envelope["status"] == "partial"
    assert "idle_device" not in {row["pattern"] for row in rows_of(envelope)}
    assert any("hidden" in note for note in envelope["notes"])


@pytest.mark.parametrize(
    "fault", [RuntimeError("secret"), EvidenceError(ErrorCode.INTERNAL, "broken", "report it")], ids=["bug", "coded"]
)
def test_a_skill_that_fails_is_listed_and_takes_no_other_down(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> Any:
        raise fault

    skill = registry.all_skills()["top_kernels"]
    monkeypatch.setitem(registry._SKILLS, "top_kernels", replace(skill, run=broken))
    envelope = ask("root_cause_matcher", written(two_kernels()))
    assert "idle_device" in {row["pattern"] for row in rows_of(envelope)}
    listed = [row for row in rows_of(envelope, "not_checked") if row["skill"] == "top_kernels"]
    assert [(row["pattern"], row["status"]) for row in listed] == [("kernel_hotspot", "failed")]
    assert "secret" not in str(envelope)


def test_a_call_that_is_stopped_stops_and_is_not_a_failed_skill(monkeypatch: pytest.MonkeyPatch) -> None:
    from nsys_evidence.ingest.interrupt import Interrupt
    from nsys_evidence.tools.run import run_skill

    interrupt = Interrupt()
    skill = registry.all_skills()["top_kernels"]

    def stopping(asked: Any) -> Any:
        interrupt.set(ErrorCode.TIMEOUT)
        asked.interrupt.check()

    monkeypatch.setitem(registry._SKILLS, "top_kernels", replace(skill, run=stopping))
    with pytest.raises(EvidenceError) as stopped:
        run_skill(
            registry.all_skills()["root_cause_matcher"],
            {"profile": str(written(two_kernels()))},
            workspace(),
            interrupt,
        )
    assert stopped.value.code is ErrorCode.TIMEOUT


def test_a_device_can_be_asked_about_alone_and_one_that_is_not_there_is_refused() -> None:
    path = written(PLANTED["rank_imbalance"]())
    assert ask("root_cause_matcher", path, device=1)["scope"]["devices"] == [1]
    with pytest.raises(EvidenceError) as refused:
        ask("root_cause_matcher", path, device=5)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_the_window_asked_for_is_that_of_every_figure() -> None:
    path = written(demo_capture()[0])
    envelope = ask("root_cause_matcher", path, iteration=3)
    for figure in rows_of(envelope, "figures"):
        kept = workspace().ledger.get(parse_address(figure["cell"]).evidence)
        assert kept is not None
        assert kept[0]["scope"] is None or kept[0]["scope"]["by"] == envelope["scope"]["by"]


def test_a_capture_without_gpu_work_is_abstained_on() -> None:
    envelope = ask("root_cause_matcher", written(Capture(calls=[call(0, 1, "cudaGetDevice")])))
    assert envelope["status"] == "abstained"
    assert envelope["capture_hint"].startswith("nsys profile")
