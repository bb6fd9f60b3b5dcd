from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, GraphLaunch, Kernel
from nsys_evidence.tools.thresholds.kernels import TENSOR_CORES
from tests.oracle import exact, exact_rows
from tests.strategies import captures, generated, has_length, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, workspace, written
from tests.tools.slow_busy import as_window, work_span

MS = 1_000_000
NAMES = {  # name: whether it is eligible, and what decides
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_tn>(T1::Params)": ("used", "tensorop"),
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma": ("unused", "ffma"),
    "ampere_sgemm_128x64_tn": ("unused", "sgemm"),
    "cublas_gemm_of_some_kind": ("unknown", None),
    "flash_fwd_kernel": ("used", "flash"),
    "void scale<float>(float *, int)": None,
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)": None,
}


def kernel(start: int, end: int, name: str, device: int = 0) -> Kernel:
    return Kernel(start * MS, end * MS, device, 1, 7, None, 101, name)


@st.composite
def renamed(draw: st.DrawFn) -> Capture:
    """A generated capture in which kernels have names of every verdict."""
    capture = draw(captures().filter(lambda found: bool(found.kernels)))
    names = st.sampled_from(list(NAMES))
    capture.kernels[:] = [
        Kernel(
            k.start, k.end, k.device, k.context, k.stream, k.correlation, k.pid, draw(names), graph_node=k.graph_node
        )
        for k in capture.kernels
    ]
    return capture


@generated
@given(st.data())
def test_every_figure_is_that_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(renamed())
    path = written(capture)
    window = data.draw(trims(capture)) if has_length(capture) and data.draw(st.booleans()) else work_span(capture)
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    for k in capture.kernels:
        if window.has(k):
            counts[k.name] += 1
            times[k.name] += window.part(k)
    rows = exact_rows("tensor_core_usage", path, as_window(window))
    totals = exact("tensor_core_usage", path, as_window(window)).totals
    eligible = [name for name in counts if NAMES[name]]
    expected = sorted((NAMES[name], counts[name], times[name]) for name in eligible if NAMES[name][1])  # type: ignore[index]
    found = [((row["status"], row["why"]), row["instances"], row["total_ms"]) for row in rows]
    assert sorted(row for row in found if row[0][1]) == expected
    assert sorted(row[1:] for row in found if not row[0][1]) == sorted(
        (counts[name], times[name]) for name in eligible if NAMES[name] == ("unknown", None)
    )
    whole = sum(times[name] for name in eligible)
    assert totals["eligible_ms"] == whole
    for status in ("used", "unused", "unknown"):
        part = sum(times[name] for name in eligible if NAMES[name][0] == status)  # type: ignore[index]
        assert totals[f"{status}_ms"] == part
        assert totals[f"{status}_pct"] == (Fraction(part, whole) if whole else None)
    everything = sum(times.values())
    assert totals["eligible_pct"] == (Fraction(whole, everything) if everything else None)
    order = [("unused", "unknown", "used").index(row["status"]) for row in rows]
    assert order == sorted(order)


def test_shares_by_hand_unused_first_and_unknown_is_not_unused() -> None:
    names = list(NAMES)
    times = {names[0]: 50, names[2]: 30, names[3]: 20, names[5]: 100}
    kernels, now = [], 0
    for name, length in times.items():
        kernels.append(kernel(now, now + length, name))
        now += length
    envelope = ask("tensor_core_usage", written(Capture(kernels)))
    assert [(row["status"], row["why"], row["total_ms"]) for row in rows_of(envelope)] == [
        ("unused", "sgemm", 30.0),
        ("unknown", None, 20.0),
        ("used", "tensorop", 50.0),
    ]
    totals = envelope["totals"]
    assert (totals["used_pct"], totals["unused_pct"], totals["unknown_pct"]) == (50.0, 30.0, 20.0)
    assert (totals["kernels"], totals["eligible_ms"], totals["eligible_pct"]) == (3, 100.0, 50.0)
    assert any("inferred from kernel names" in note for note in envelope["notes"])


def test_the_table_is_in_the_order_in_which_it_is_read() -> None:
    says = [verdict for _, verdict in TENSOR_CORES.rows]
    assert says == ["unused"] * says.count("unused") + ["used"] * says.count("used")
    assert len({pattern for pattern, _ in TENSOR_CORES.rows}) == len(TENSOR_CORES.rows)


def test_a_capture_without_such_kernels_is_empty_and_its_shares_are_unknown() -> None:
    envelope = ask("tensor_core_usage", written(Capture([kernel(0, 1, "scale")])))
    assert (envelope["status"], envelope["rows"]) == ("empty", [])
    assert (envelope["totals"]["used_pct"], envelope["totals"]["eligible_pct"]) == (None, 0.0)


def test_totals_cover_all_kernels_on_every_page_and_a_device_narrows_them() -> None:
    kernels = [kernel(0, 10, "ampere_sgemm_a"), kernel(0, 20, "ampere_sgemm_b", 1), kernel(20, 25, "nvjet_gemm", 1)]
    path = written(Capture(kernels))
    page = ask("tensor_core_usage", path, max_rows=1, offset=1)
    assert (len(page["rows"]), page["totals"]["eligible_ms"], page["totals"]["kernels"]) == (1, 35.0, 3)
    assert ask("tensor_core_usage", path, device=1)["totals"]["eligible_ms"] == 25.0
    with pytest.raises(EvidenceError) as refused:
        ask("tensor_core_usage", path, device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_full_names_are_kept_with_the_evidence() -> None:
    name = (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x64x8_stage3_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
    )
    envelope = ask("tensor_core_usage", written(Capture([kernel(0, 10, name)])))
    kept = workspace().ledger.get(envelope["evidence"])
    assert kept is not None
    assert kept[1][rows_of(envelope)[0]["kernel"]] == name


def test_hidden_kernels_make_the_answer_partial_and_none_at_all_an_abstention() -> None:
    graph = GraphLaunch(0, 30 * MS, 0, 1, 9, None, 101, 1)
    partial = ask("tensor_core_usage", written(Capture([kernel(0, 1, "nvjet_gemm")], graph_launches=[graph])))
    assert partial["status"] == "partial"
    empty = ask("tensor_core_usage", written(Capture()))
    assert (empty["status"], empty["missing"]) == ("abstained", ["kernels"])
    assert empty["capture_hint"].startswith("nsys profile")


@needs_shared
def test_the_fsdp_capture_by_hand() -> None:
    # SELECT count(*), sum(end - start), count(DISTINCT demangledName) over kernels whose demangled name holds `gemm`
    # (case-insensitively): all have `ffma` or `sgemm` in their names, so that all of it is unused.
    [path] = [path for path in CAPTURES if path.stem == "h100x2_fsdp_2026.2"]
    totals = exact("tensor_core_usage", path).totals
    assert (totals["kernels"], totals["instances"], totals["eligible_ms"]) == GOLDEN
    assert totals["unused_ms"] == totals["eligible_ms"]
    top = {row["kernel"]: row for row in exact_rows("top_kernels", path)}
    for row in exact_rows("tensor_core_usage", path):
        assert top[row["kernel"]]["tensor_core"] == "eligible_unused"
        assert top[row["kernel"]]["total_ms"] == row["total_ms"]


GOLDEN = (7, 640, 38_781_120)
