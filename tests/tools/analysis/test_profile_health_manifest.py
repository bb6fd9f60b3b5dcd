from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.evidence import parse_address, resolve_address
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, GraphLaunch, Kernel, demo_capture
from nsys_evidence.tools import registry
from tests.strategies import generated, has_length, trims
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, workspace, written
from tests.tools.slow_busy import slow_parts, with_graphs

MS = 1_000_000
TEXTS = {"kind", "status", "kernel", "tensor_core", "collective", "marker", "pattern", "severity", "bound"}
"""Columns of the tables that are no figures, though they too stand where the source says."""


def value_at(cell: str) -> object:
    address = parse_address(cell)
    kept = workspace().ledger.get(address.evidence)
    assert kept is not None, cell
    return resolve_address(address, kept[0])


def assert_every_figure_stands_where_it_says(envelope: dict[str, Any]) -> int:
    """Rows by their cell; rows of tables by their source and the name of the column. Returns how many were checked."""
    checked = 0
    for row in rows_of(envelope):
        assert value_at(row["cell"]) == row["value"], row
        checked += 1
    for name, table in envelope["tables"].items():
        if "source" not in table["columns"]:
            continue
        for row in rows_of(envelope, name):
            for column, value in row.items():
                if column in ("source", "name"):
                    continue
                assert value_at(f"{row['source']}.{column}") == value, (name, column)
                checked += column not in TEXTS
    if cell := envelope["totals"]["bottleneck_cell"]:
        bottleneck = envelope["totals"]["bottleneck"]
        assert value_at(cell) == bottleneck
    return checked


# Every figure can be cited.


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_figure_of_a_real_capture_stands_in_the_cell_named_and_the_whole_is_small(capture: Path) -> None:
    envelope = ask("profile_health_manifest", capture)
    assert assert_every_figure_stands_where_it_says(envelope) > 20
    assert len(dump_json(envelope).encode()) <= 8_000
    assert envelope["truncation"] is None
    cut = {name for name, table in envelope["tables"].items() if table["truncation"] is not None}
    assert cut <= {"kernels", "comm"}
    unanswered = rows_of(envelope, "unanswered") if envelope["totals"]["unanswered"] else []
    assert {row["status"] for row in unanswered} <= {"abstained", "not recorded"}


@generated
@given(st.data())
def test_every_figure_of_a_generated_capture_stands_in_the_cell_named_in_any_window(data: st.DataObject) -> None:
    capture = data.draw(with_graphs())
    scope: dict[str, Any] = {}
    if has_length(capture) and data.draw(st.booleans()):
        window = data.draw(trims(capture))
        scope = {"trim": window.trim}
    envelope = ask("profile_health_manifest", written(capture), **scope)
    assert_every_figure_stands_where_it_says(envelope)
    facts = {row["fact"]: row["value"] for row in rows_of(envelope)}
    assert facts["kernels"] == len(capture.kernels)  # profile_info is of the whole capture
    if scope:
        parts = slow_parts(capture, window).values()
        assert facts["idle_ms"] == pytest.approx(sum(part.idle for part in parts) / MS, abs=0.0006)


NEED_MORE = {"cutracer_analysis", "arithmetic_intensity", "region_mfu", "profile_health_manifest"}
"""Skills that take traces or a known GPU besides events; and the manifest itself."""


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_skill_that_is_said_to_apply_does_not_abstain(capture: Path) -> None:
    envelope = ask("profile_health_manifest", capture)
    applying = {name for row in rows_of(envelope, "skills") for name in row["apply"].split(", ")}
    assert not {name for name in applying - NEED_MORE if outcome(name, capture) in ("abstained", "INTERNAL")}


def outcome(name: str, capture: Path) -> str:
    """The status of a skill with its example, or the code of its error."""
    try:
        return str(ask(name, capture, **registry.all_skills()[name].example)["status"])  # type: ignore[arg-type]
    except EvidenceError as error:
        return error.code.value


def test_a_table_that_is_cut_says_how_much_there_is() -> None:
    kernels = [Kernel(n * MS, (n + 1) * MS, n % 24, 1, 7, None, 101, f"kernel_{n % 7}") for n in range(48)]
    envelope = ask("profile_health_manifest", written(Capture(kernels)))
    assert envelope["tables"]["kernels"]["truncation"] == {"total_rows": 7, "shown_rows": 5, "next_offset": None}
    assert [row["device"] for row in rows_of(envelope, "devices")] == list(range(24))
    assert envelope["totals"]["devices"] == 24


# What it says.


@needs_shared
def test_the_manifest_of_a_real_capture() -> None:
    """The two-GPU capture: 4,010 kernels, 1,020 copies (SELECT count(*)); flash_fwd_kernel 272.317 ms in 68 launches;
    what the devices do is for 83 % and 90 % of the window compute, by the union of kernels that are no collectives.
    """
    envelope = ask("profile_health_manifest", SHARED / "captures" / "h100x2_nccl_2026.2.sqlite")
    facts = {row["fact"]: row["value"] for row in rows_of(envelope)}
    assert (facts["kernels"], facts["copies"], facts["idle_ms"]) == (4010, 1020, 58.66)
    assert envelope["totals"]["bottleneck"] == "compute"
    assert [row["device"] for row in rows_of(envelope, "devices")] == [0, 1]
    assert {row["name"] for row in rows_of(envelope, "devices")} == {None}  # this export does not name its GPUs
    first = rows_of(envelope, "kernels")[0]
    assert (first["kernel"], first["instances"], first["total_ms"]) == ("flash_fwd_kernel", 68, 272.317)
    coverage = {row["kind"]: row["status"] for row in rows_of(envelope, "coverage")}
    assert (coverage["kernels"], coverage["osrt"]) == ("recorded", "not recorded")
    assert rows_of(envelope, "findings")[0]["pattern"] == "kernel_hotspot"
    assert envelope["next"] == ["top_kernels", "nvtx_layer_breakdown", "tensor_core_usage"]


@needs_shared
@pytest.mark.parametrize(
    ("capture", "bottleneck"),
    [("h100x2_fsdp_2026.2", "copy"), ("h200_cpu_bound_2025.1", "cpu"), ("rtx3090x8_no_kernels_2023.4", None)],
)
def test_the_bottleneck_is_that_of_critical_path_and_unknown_where_that_cannot_say(
    capture: str, bottleneck: str | None
) -> None:
    envelope = ask("profile_health_manifest", SHARED / "captures" / f"{capture}.sqlite")
    assert envelope["totals"]["bottleneck"] == bottleneck


def test_skills_that_lack_what_they_need_do_not_apply() -> None:
    envelope = ask("profile_health_manifest", written(Capture([Kernel(0, MS, 0, 1, 7, None, 101, "scale")])))
    apply = {name for row in rows_of(envelope, "skills") for name in row["apply"].split(", ")}
    assert {"top_kernels", "overlap_breakdown"} <= apply
    assert not {"osrt_summary", "nvtx_kernel_map", "kernel_launch_overhead", "iteration_timing"} & apply
    silent = {row["skill"]: row["status"] for row in rows_of(envelope, "unanswered")}
    assert silent["iteration_timing"] == "abstained"


def test_a_skill_that_fails_is_named_and_its_figures_are_missing_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("secret")

    skill = registry.all_skills()["pipeline_bubble_metrics"]
    monkeypatch.setitem(registry._SKILLS, "pipeline_bubble_metrics", replace(skill, run=broken))
    envelope = ask("profile_health_manifest", written(demo_capture()[0]))
    assert envelope["status"] == "partial"
    assert {"skill": "pipeline_bubble_metrics", "status": "failed", "reason": "INTERNAL: a fault in this program"} in (
        rows_of(envelope, "unanswered")
    )
    assert "idle_ms" not in {row["fact"] for row in rows_of(envelope)}
    assert "secret" not in str(envelope)


def test_a_capture_of_the_host_alone_has_its_coverage_and_no_bottleneck() -> None:
    envelope = ask("profile_health_manifest", written(Capture(calls=[Call(0, MS, 101, 101, "cudaGetDevice", 1)])))
    assert envelope["totals"]["bottleneck"] is None
    assert envelope["totals"]["devices"] == 0
    assert {row["kind"] for row in rows_of(envelope, "coverage") if row["status"] == "recorded"} == {"calls"}


def test_a_whole_graph_counts_and_what_it_hides_is_said() -> None:
    graph = GraphLaunch(0, 50 * MS, 0, 1, 9, None, 101, 1)
    envelope = ask("profile_health_manifest", written(Capture(graph_launches=[graph])))
    facts = {row["fact"]: row["value"] for row in rows_of(envelope)}
    assert (facts["graphs"], facts["idle_ms"]) == (1, 0.0)
    assert {row["skill"] for row in rows_of(envelope, "unanswered")} >= {"top_kernels"}


def test_one_device_is_the_manifest_of_that_device_and_one_that_is_not_there_is_refused() -> None:
    path = written(demo_capture()[0])
    envelope = ask("profile_health_manifest", path, device=1)
    assert [row["device"] for row in rows_of(envelope, "devices")] == [1]
    assert_every_figure_stands_where_it_says(envelope)
    with pytest.raises(EvidenceError) as refused:
        ask("profile_health_manifest", path, device=9)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
