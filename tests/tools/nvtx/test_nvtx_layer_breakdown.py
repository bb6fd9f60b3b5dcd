from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, Domain, GraphLaunch, Kernel, Mark, Range, demo_capture
from nsys_evidence.tools.measures.levels import climb, levels
from tests.oracle import Report, exact, exact_rows, with_reports
from tests.strategies import (
    all_work,
    call_of,
    captures,
    containing_ranges,
    device_key,
    generated,
    gpu_span,
    has_length,
    ms,
    trims,
)
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import as_window, halves
from tests.tools.slow_regions import slow_regions, top_kernels

US = 1_000


# Against nsys stats.


@with_reports("nvtx_gpu_proj_sum")
def test_every_range_name_agrees_with_nsys_stats_to_the_nanosecond(capture: Path, report: Report) -> None:
    rows = exact_rows("nvtx_layer_breakdown", capture, auto_depth=False, normalize=False)
    found = {
        row["region"]: (row["projected_ms"], row["host_ms"], row["instances"], row["med_ms"], row["gpu_ops"])
        for row in rows
    }
    assert found == {
        line["Range"]: (
            int(line["Total Proj Time (ns)"]),
            int(line["Total Range Time (ns)"]),
            int(line["Range Instances"]),
            Fraction(line["Proj Med (ns)"]),
            int(line["Total GPU Ops"]),
        )
        for line in report
    }
    assert len(rows) == len(report)
    projected = [row["projected_ms"] for row in rows]
    assert projected == sorted(projected, reverse=True)


@with_reports("nvtx_kern_sum")
def test_kernel_time_inside_each_range_name_agrees_with_nsys_stats_to_the_nanosecond(
    capture: Path, report: Report
) -> None:
    by_kernel: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for line in report:
        by_kernel[line["NVTX Range"]][line["Kernel Name"]] += int(line["Total Time (ns)"])
    by_kernel.pop("", None)  # kernels in no range
    result = exact("nvtx_layer_breakdown", capture, auto_depth=False, normalize=False)
    with_kernels = [row for row in result.rows if row[13] is not None]
    assert {str(row[0]): row[6] for row in with_kernels} == {name: sum(k.values()) for name, k in by_kernel.items()}
    for row in with_kernels:
        kernels = by_kernel[str(row[0])]
        assert kernels[result.names[str(row[13])]] == max(kernels.values())
        assert row[9] + row[10] == row[6]  # type: ignore[operator]


# Against the slow and obvious method.


with_ranges = captures(min_launches=4).filter(
    lambda c: bool(c.kernels and c.calls) and any(containing_ranges(c, call_of(c, w)) for w in all_work(c))
)


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(with_ranges)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else gpu_span(capture)
    depth = data.draw(st.none() | st.integers(0, 3))
    result = exact(
        "nvtx_layer_breakdown", written(capture), as_window(window), auto_depth=False, normalize=False, depth=depth
    )
    rows, totals = slow_regions(capture, window, all_work(capture), depth)
    assert {row[0]: tuple(row[1:13]) for row in result.rows} == rows
    assert result.totals == totals
    assert [row[0] for row in result.rows] == sorted(rows, key=lambda name: (-rows[name][3], name.encode()))  # type: ignore[operator]
    for row in result.rows:
        tops = top_kernels(capture, window, str(row[0]), depth)
        assert result.names[str(row[13])] in tops if tops else row[13] is None


@generated
@given(st.data())
def test_only_the_work_of_the_device_asked_for_counts(data: st.DataObject) -> None:
    capture = data.draw(with_ranges)
    device = data.draw(st.sampled_from(sorted({work.device for work in all_work(capture)})))
    envelope = ask(
        "nvtx_layer_breakdown", written(capture), auto_depth=False, normalize=False, device=device, max_rows=200
    )
    keys = {device_key(capture, work) for work in all_work(capture) if work.device == device}
    work = [w for w in all_work(capture) if device_key(capture, w) in keys]
    rows, totals = slow_regions(capture, gpu_span(capture), work)
    assert envelope["totals"]["instances"] == totals["instances"]
    assert {row["region"]: (row["instances"], row["gpu_ops"], row["projected_ms"]) for row in rows_of(envelope)} == {
        name: (row[1], row[2], ms(row[3]))  # type: ignore[arg-type]
        for name, row in rows.items()
    }


@generated
@given(st.data())
def test_times_over_a_partition_of_the_window_add_up_to_the_whole(data: st.DataObject) -> None:
    capture = data.draw(with_ranges.filter(has_length))
    path, whole = written(capture), data.draw(trims(capture))
    windows = (whole, *halves(whole, data.draw(st.integers(whole.start, whole.end))))
    parts = [
        {row["region"]: row for row in exact_rows("nvtx_layer_breakdown", path, as_window(w), auto_depth=False)}
        for w in windows
    ]
    for region in parts[0].keys() | parts[1].keys() | parts[2].keys():
        for name in ("projected_ms", "inclusive_ms", "self_ms", "compute_ms", "comm_ms"):
            of_whole, first, second = (part.get(region, {name: 0})[name] for part in parts)
            assert of_whole == first + second, (region, name)


@given(st.data())
def test_a_climb_gathers_what_is_under_each_node(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 20))
    parent = [data.draw(st.integers(-1, node - 1)) for node in range(size)]
    values = [data.draw(st.integers(-9, 9)) for _ in range(size)]

    def up(node: int) -> list[int]:
        return [node] if parent[node] < 0 else [node, *up(parent[node])]

    under = [[values[other] for other in range(size) if node in up(other)] for node in range(size)]
    depth = np.array([len(up(node)) - 1 for node in range(size)], np.int64)
    sums, least, most = (np.array(values, np.int64) for _ in range(3))
    climb(np.array(parent, np.int64), levels(depth), sums=[sums], least=[least], most=[most])
    assert (sums.tolist(), least.tolist(), most.tolist()) == (
        [*map(sum, under)],
        [*map(min, under)],
        [*map(max, under)],
    )


# By hand.


def kernel(start: int, end: int, correlation: int | None, name: str = "scale", device: int = 0) -> Kernel:
    return Kernel(start * US, end * US, device, 1, 7, correlation, 101, name)


def call(start: int, end: int, correlation: int) -> Call:
    return Call(start * US, end * US, 101, 101, "cudaLaunchKernel_v7000", correlation)


def named(start: int, end: int, text: str, domain: int = 0) -> Range:
    return Range(start * US, end * US, 101, 101, text, domain)


def model(*layers: str, steps: int = 1, kernel_us: int = 10) -> Capture:
    """Steps with a forward range and layers in it, each of which launches one kernel."""
    capture = Capture()
    for step in range(steps):
        begin, length = 1000 * step, 20 * len(layers) + 20
        capture.ranges.append(named(begin, begin + length, f"step {step}"))
        capture.ranges.append(named(begin + 5, begin + length - 5, "forward"))
        for place, layer in enumerate(layers):
            at, number = begin + 10 + 20 * place, 100 * step + place
            capture.ranges.append(named(at, at + 15, layer))
            capture.calls.append(call(at + 2, at + 4, number))
            capture.kernels.append(kernel(at + 500, at + 500 + kernel_us, number))
    return capture


def regions(capture: Capture, **arguments: object) -> list[dict[str, Any]]:
    return rows_of(ask("nvtx_layer_breakdown", written(capture), **arguments))


@pytest.mark.parametrize(
    "layers",
    [
        ("layer.0", "layer.1", "layer.2"),
        ("h.0.attn", "h.1.attn", "h.7.attn"),
        ("Layer 3, seq = 1", "Layer 4, seq = 2", "Layer 9, seq = 3"),
    ],
)
@pytest.mark.parametrize("normalize", [True, False])
def test_the_depth_of_three_siblings_that_differ_by_a_number_is_found(layers: Sequence[str], normalize: bool) -> None:
    envelope = ask("nvtx_layer_breakdown", written(model(*layers)), normalize=normalize)
    assert envelope["totals"]["depth"] == 2
    assert len(envelope["rows"]) == 3
    assert any("depth 2 is the shallowest" in note for note in envelope["notes"])


@pytest.mark.parametrize(
    "layers",
    [
        ("layer.0", "layer.1"),
        ("layer.0", "layer.1", "layer.1", "layer.01"),
        ("layer.0", "layer.1", "block.2"),
        ("a.0.x.0", "a.1.x.1", "a.2.x.2"),
        ("aten::mm, seq = 1", "aten::mm, seq = 2", "aten::mm, seq = 3"),
    ],
)
def test_fewer_or_other_names_are_no_layers_and_neither_are_steps_without_a_parent(layers: Sequence[str]) -> None:
    envelope = ask("nvtx_layer_breakdown", written(model(*layers, steps=4)))
    assert envelope["totals"]["depth"] == 0
    assert [row["region"] for row in rows_of(envelope)] == [f"step {n}" for n in range(4)]
    assert any("under no range are there three numbered siblings" in note for note in envelope["notes"])


def test_siblings_under_different_parents_are_no_siblings() -> None:
    capture = Capture(
        [kernel(500 + 20 * n, 510 + 20 * n, n) for n in range(3)],
        calls=[call(100 * n + 20, 100 * n + 30, n) for n in range(3)],
        ranges=[
            *(named(100 * n, 100 * n + 90, "step") for n in range(3)),
            *(named(100 * n + 9, 100 * n + 80, f"layer {n}") for n in range(3)),
        ],
    )
    assert ask("nvtx_layer_breakdown", written(capture))["totals"]["depth"] == 0


def test_a_depth_asked_for_is_the_one_shown_and_one_too_deep_is_empty_and_said() -> None:
    capture = model("layer.0", "layer.1", "layer.2")
    assert [row["region"] for row in regions(capture, depth=1)] == ["forward"]
    envelope = ask("nvtx_layer_breakdown", written(capture), depth=7)
    assert (envelope["status"], envelope["rows"]) == ("empty", [])
    assert any("deepest that did is at depth 2" in note for note in envelope["notes"])


def test_depth_is_counted_within_the_domain() -> None:
    capture = Capture(
        [kernel(100, 110, 1)],
        calls=[call(20, 25, 1)],
        ranges=[named(0, 90, "step"), named(10, 40, "send", domain=1)],
        domains=[Domain(101, 1, "NCCL")],
    )
    assert {row["region"]: row["depth"] for row in regions(capture, auto_depth=False)} == {"step": 0, "NCCL:send": 0}


def test_projected_time_is_from_first_start_to_last_end_pauses_included_and_host_time_the_ranges_own() -> None:
    copy = Copy(150 * US, 160 * US, 0, 1, 7, 3, 101, 64, 1)
    capture = Capture(
        [kernel(100, 110, 1), kernel(105, 115, 2)],
        [copy],
        calls=[call(5, 6, 1), call(7, 8, 2), call(9, 10, 3)],
        ranges=[named(0, 20, "step")],
    )
    [row] = regions(capture)
    assert (row["projected_ms"], row["host_ms"], row["inclusive_ms"], row["gpu_ops"]) == (0.06, 0.02, 0.02, 3)


def test_an_instance_of_which_a_window_shows_only_an_instant_counts() -> None:
    capture = Capture(
        [kernel(100, 110, 1), kernel(120, 120, 2), kernel(150, 160, None)],
        calls=[call(5, 6, 1), call(7, 8, 2)],
        ranges=[named(0, 20, "step")],
    )
    [row] = regions(capture, trim=["0.00012", "0.00013"])
    assert (row["instances"], row["gpu_ops"], row["projected_ms"], row["med_ms"]) == (1, 1, 0.0, 0.02)


def test_a_range_within_one_of_its_name_counts_work_twice_but_its_share_stays_a_share() -> None:
    capture = Capture([kernel(100, 110, 1)], calls=[call(5, 6, 1)], ranges=[named(0, 20, "f"), named(1, 10, "f")])
    envelope = ask("nvtx_layer_breakdown", written(capture), auto_depth=False)
    [row] = rows_of(envelope)
    assert (row["instances"], row["inclusive_ms"], row["self_ms"], row["share_pct"]) == (2, 0.02, 0.01, 100.0)
    assert any("ranges within ranges of their own name" in note for note in envelope["notes"])


def test_one_slow_instance_makes_a_region_an_outlier_and_ten_percent_more_does_not() -> None:
    for last, expected in ((111, True), (110, False)):
        capture = model("layer.0", "layer.1", steps=5, kernel_us=100)
        slow = capture.kernels[-1]
        capture.kernels[-1] = kernel(slow.start // US, slow.start // US + last, slow.correlation)
        assert {row["region"]: row["outlier"] for row in regions(capture, depth=2)} == {
            "layer.0": False,
            "layer.1": expected,
        }


def test_pytorchs_counters_are_cut_unless_names_are_wanted_as_recorded() -> None:
    capture = model("aten::mm, seq = 12, op_id = 7", "aten::mm, seq = 13, op_id = 9")
    assert [(row["region"], row["instances"]) for row in regions(capture, depth=2)] == [("aten::mm", 2)]
    assert len(regions(capture, depth=2, normalize=False)) == 2


def test_a_graph_traced_as_a_whole_is_work_without_kernels_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(100 * US, 130 * US, 0, 1, 7, 1, 101, 1)
    capture = Capture(
        [kernel(10, 20, None)], calls=[call(5, 6, 1)], ranges=[named(0, 9, "replay")], graph_launches=[graph]
    )
    envelope = ask("nvtx_layer_breakdown", written(capture))
    [row] = rows_of(envelope)
    assert envelope["status"] == "partial"
    assert (row["projected_ms"], row["gpu_ops"], row["inclusive_ms"], row["top_kernel"]) == (0.03, 1, 0.0, None)


def test_without_recorded_kernels_copies_have_regions_and_kernel_figures_are_unknown() -> None:
    copy = Copy(150 * US, 160 * US, 0, 1, 7, 3, 101, 64, 1)
    capture = Capture([], [copy], calls=[call(5, 6, 3)], ranges=[named(0, 9, "load")])
    envelope = ask("nvtx_layer_breakdown", written(capture))
    [row] = rows_of(envelope)
    assert envelope["status"] == "partial"
    assert (row["projected_ms"], row["inclusive_ms"], row["share_pct"], row["comm_ms"]) == (0.01, None, None, None)
    assert (envelope["totals"]["kernel_ms"], envelope["totals"]["covered_pct"]) == (None, None)


def test_start_end_ranges_alone_are_never_taken_for_a_stack_and_the_abstention_names_them() -> None:
    spans = [Range(0, 50 * US, 101, 101, "step", style="startend")]
    capture = Capture([kernel(10, 20, 1)], calls=[call(5, 6, 1)], ranges=spans, marks=[Mark(US, 101, 101, "here")])
    envelope = ask("nvtx_layer_breakdown", written(capture))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["nvtx"])
    assert "1 NVTX ranges are start/end ranges" in envelope["reason"]
    assert "nvtx" in envelope["capture_hint"]


@pytest.mark.parametrize("missing", ["work", "calls", "nvtx"])
def test_it_abstains_when_gpu_work_calls_or_ranges_were_not_recorded(missing: str) -> None:
    capture = Capture(
        [] if missing == "work" else [kernel(10, 20, 1)],
        calls=[] if missing == "calls" else [call(5, 6, 1)],
        ranges=[] if missing == "nvtx" else [named(0, 9, "step")],
    )
    envelope = ask("nvtx_layer_breakdown", written(capture))
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels" if missing == "work" else missing])
    assert envelope["capture_hint"].startswith("nsys profile")


def test_an_absent_device_is_an_error_and_a_window_between_the_work_is_empty() -> None:
    capture = written(model("layer.0"))
    with pytest.raises(EvidenceError) as caught:
        ask("nvtx_layer_breakdown", capture, device=5)
    assert caught.value.code is ErrorCode.DEVICE_NOT_FOUND
    envelope = ask("nvtx_layer_breakdown", capture, trim=["0.0001", "0.0002"])
    assert (envelope["status"], envelope["totals"]["instances"]) == ("empty", 0)


# Known results.


def test_the_layers_of_the_demo_are_found() -> None:
    rows = rows_of(ask("nvtx_layer_breakdown", written(demo_capture()[0])))
    layers = {row["region"]: row for row in rows if row["region"].startswith("layer")}
    assert {name: (row["depth"], row["instances"], row["gpu_ops"]) for name, row in layers.items()} == {
        **{f"layer {n}": (2, 16, 16 * 3) for n in range(3)},
        "layer 3": (2, 16, 16 * 4),  # its last kernel is the matrix product without tensor cores
    }
    assert {row["top_kernel"] for row in layers.values()} == {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"}


@needs_shared
def test_a_region_of_a_real_capture_has_the_figures_of_an_independent_query() -> None:
    # Checked by hand with sqlite3: kernels joined to CUPTI_ACTIVITY_KIND_RUNTIME on process and correlationId, and to
    # the NVTX rows named 'FlashAttnFunc, seq = …' of the runtime row's thread that contain it: 66 ranges, 66 kernels,
    # each range with one; 256,586,234 ns of kernels, 13,722,422 ns of ranges; of 535,200,650 ns of all kernels.
    [capture] = [path for path in CAPTURES if path.stem == "h100x2_nccl_2026.2"]
    row = next(row for row in exact_rows("nvtx_layer_breakdown", capture) if row["region"] == "FlashAttnFunc")
    assert (row["instances"], row["gpu_ops"], row["self_ms"], row["comm_ms"]) == (66, 66, 0, 0)
    assert row["projected_ms"] == row["inclusive_ms"] == row["compute_ms"] == 256_586_234
    assert row["host_ms"] == 13_722_422
    assert row["share_pct"] == Fraction(256_586_234, 535_200_650)
