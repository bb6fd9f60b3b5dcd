from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Capture, GraphLaunch, Kernel
from nsys_evidence.tools.kernels.cutracer import CLASSES, class_of
from nsys_evidence.tools.kernels.cutracer_analysis import _function
from nsys_evidence.tools.thresholds.kernels import TRACE_FILE_BYTES, TRACE_FILES
from nsys_evidence.tools.workspace import Workspace
from tests.strategies import pct
from tests.support import SHARED, MemoryLedger, ask, needs_shared, rows_of, scratch, written

MS = 1_000_000
HEADER = "warp_id,region_id,instruction,count,cycles"
H16 = "volta_h16gemm_32x32_nt_nn"


def kernel(start: int, end: int, name: str = H16, device: int = 0) -> Kernel:
    return Kernel(start * MS, end * MS, device, 1, 7, None, 101, name)


@pytest.fixture(scope="module")
def capture() -> Path:
    names = ("void ns::tiled<(int)4, float>(float *)", "void ns::tiled<(int)8, float>(float *)")
    return written(Capture([kernel(0, 10), *(kernel(20, 25, name) for name in names)]))


def traces(directory: Path, **files: str) -> str:
    directory.mkdir(exist_ok=True)
    for name, rows in files.items():
        (directory / f"kernel_{name}_hist.csv").write_text("\n".join([HEADER, *rows.split()]) + "\n")
    return str(directory)


def analysed(capture: Path, trace_dir: str, **arguments: Any) -> dict[str, Any]:
    return ask("cutracer_analysis", capture, trace_dir=trace_dir, **arguments)


def why(envelope: dict[str, Any]) -> dict[str, str]:
    return {row["file"]: row["why"] for row in rows_of(envelope, "unmatched")}


SOME = "0,0,FFMA,10,40 0,0,LDG.E.128,2,160"


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 1),
            st.sampled_from(("HMMA.16816.F32", "FFMA", "IMAD", "LDG.E", "LDS", "BAR.SYNC", "BRA", "MOV", "LDSM.16")),
            st.integers(0, 50),
            st.integers(0, 5000),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_figure_of_a_histogram_is_that_of_the_slow_and_obvious_method(rows: list[Any]) -> None:
    path = written(Capture([kernel(0, 10)]))
    directory = traces(path.parent / "traces", **{f"{H16}_0123abcd": " ".join(",".join(map(str, r)) for r in rows)})
    envelope = analysed(path, directory)
    [row] = rows_of(envelope)
    by_class, by_instruction, executions = Counter[str](), Counter[str](), Counter[str]()
    says = {"HMMA": "tensor", "FFMA": "fp", "IMAD": "int", "LDG": "memory", "LDS": "shared", "LDSM": "shared"}
    says |= {"BAR": "sync", "BRA": "control", "MOV": "other"}
    for _, _, instruction, count, cycles in rows:
        by_class[says[instruction.split(".")[0]]] += cycles
        by_instruction[instruction] += cycles
        executions[instruction] += count
    whole = sum(by_class.values())
    assert row["instructions"] == sum(executions.values())
    assert row["warps"] == len({warp for warp, *_ in rows})
    assert {name: row[f"{name}_pct"] for name in CLASSES} == {name: pct(by_class[name], whole) for name in CLASSES}
    most = max(by_class.values())
    assert (row["bound"] is None) == (whole == 0)
    assert row["bound"] is None or by_class[row["bound"]] == most
    top = rows_of(envelope, "top_instructions")
    expected = sorted(by_instruction, key=lambda name: (-by_instruction[name], name))[:3]
    assert [found["instruction"] for found in top] == expected
    for found in top:
        name = found["instruction"]
        per = round(by_instruction[name] / executions[name], 4) if executions[name] else None
        assert found["cycles_per_instruction"] == pytest.approx(per, abs=1e-4)
    shared = [name for name in executions if name.startswith("LDS")]
    slow = sum(by_instruction[n] for n in shared), sum(executions[n] for n in shared)
    assert (row["bank_conflicts"] is not None) == (slow[1] > 0 and slow[0] >= 32 * slow[1])


@needs_shared
def test_the_histograms_of_a_real_run_by_hand() -> None:
    # Sums over the four warps of the file, by awk: cycles FFMA 205,216, LDG 1,345,440, HMMA 262,144, LDS 49,152, BAR
    # 102,400, BRA 4,096, together 1,968,448; 112,154 instructions. LDG: 1,345,440 / 16,818 = 80 cycles each.
    path = written(Capture([kernel(0, 10), kernel(10, 40, "scale")]))
    envelope = analysed(path, str(SHARED / "captures" / "cutracer"))
    row, other = rows_of(envelope)
    assert (row["kernel"], row["names"], row["total_ms"]) == (H16, 1, 10.0)
    assert (row["instructions"], row["warps"], row["bound"], row["bank_conflicts"]) == (112_154, 4, "memory", None)
    assert [row[f"{name}_pct"] for name in ("memory", "tensor", "fp", "sync", "shared", "control")] == [
        68.35,
        13.32,
        10.43,
        5.2,
        2.5,
        0.21,
    ]
    first = rows_of(envelope, "top_instructions")[0]
    assert (first["instruction"], first["count"], first["cycles_per_instruction"]) == ("LDG", 16_818, 80.0)
    assert (other["kernel"], other["total_ms"], other["bound"]) == ("cutlass_gemm_s8", None, "tensor")
    assert why(envelope) == {"cutlass_gemm_s8": "no kernel of this name in scope"}
    assert (envelope["totals"]["total_ms"], envelope["totals"]["covered_pct"]) == (10.0, 25.0)


def test_files_of_one_kernel_are_taken_together_and_its_template_instances_too(capture: Path, tmp_path: Path) -> None:
    directory = traces(tmp_path / "t", tiled_0123abcd=SOME, tiled_4567ef01="5,0,FFMA,10,40", **{f"{H16}_aaaaaa": SOME})
    tiled, gemm = rows_of(analysed(capture, directory))
    assert (gemm["kernel"], gemm["total_ms"]) == (H16, 10.0)
    assert (tiled["kernel"], tiled["names"], tiled["total_ms"]) == ("tiled", 2, 10.0)
    assert (tiled["instructions"], tiled["warps"], tiled["fp_pct"]) == (22, 2, 33.33)


def test_only_kernels_in_the_window_are_joined(capture: Path, tmp_path: Path) -> None:
    directory = traces(tmp_path / "t", **{f"{H16}_aaaaaa": SOME})
    assert rows_of(analysed(capture, directory, trim=["0.002", "0.005"]))[0]["total_ms"] == 3.0
    late = analysed(capture, directory, trim=["0.020", "0.025"])
    assert (rows_of(late)[0]["total_ms"], late["totals"]["joined"]) == (None, 0)


@pytest.mark.parametrize(
    ("demangled", "function"),
    [
        (H16, H16),
        ("void ns::tiled<(int)4, float>(float *)", "tiled"),
        ("void at::native::<unnamed>::reduce<float, (bool)0>(T1)", "reduce"),
        ("std::array<int, 4> ns::f(int (*)(int))", "f"),
    ],
)
def test_a_functions_own_name_is_without_everything_around_it(demangled: str, function: str) -> None:
    assert _function(demangled) == function


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        ("HGMMA.64x128x16.F32", "tensor"), ("IMMA", "tensor"), ("DMMA.884", "tensor"),
        ("FADD", "fp"), ("HFMA2.MMA", "fp"), ("DFMA", "fp"), ("MUFU.RCP", "fp"), ("I2F", "fp"), ("F2I", "fp"),
        ("IADD3", "int"), ("LOP3.LUT", "int"), ("FLO.U32", "int"), ("ISETP.GE", "int"), ("REDUX.SUM", "int"),
        ("LDGSTS.E", "memory"), ("STG", "memory"), ("LDC", "memory"), ("RED.E.ADD", "memory"), ("UTMALDG", "memory"),
        ("STS", "shared"), ("ATOMS.ADD", "shared"), ("LDSM.16.M88", "shared"),
        ("LDGDEPBAR", "sync"), ("DEPBAR.LE", "sync"), ("WARPSYNC", "sync"), ("MEMBAR.SC.GPU", "sync"),
        ("BSYNC", "control"), ("EXIT", "control"), ("SHFL.BFLY", "other"), ("S2R", "other"), ("MOV", "other"),
    ],
)  # fmt: skip
def test_instructions_are_classed_by_their_opcode(instruction: str, says: str) -> None:
    assert class_of(instruction) == says


# What is no histogram, and what may not be read.


def test_files_that_are_no_histograms_are_listed_and_make_the_answer_partial(capture: Path, tmp_path: Path) -> None:
    directory = Path(traces(tmp_path / "t", **{f"{H16}_aaaaaa": SOME}))
    bad = {
        "header": "warp,instruction\n0,FFMA\n",
        "short": f"{HEADER}\n0,0,FFMA,1\n",
        "negative": f"{HEADER}\n0,0,FFMA,-1,5\n",
        "float": f"{HEADER}\n0,0,FFMA,1.5,5\n",
        "huge": f"{HEADER}\n0,0,FFMA,1,{10**19 - 1}\n",
        "formula": f"{HEADER}\n0,0,=cmd(),1,5\n",
        "nothing": "",
        "rowless": HEADER + "\n",
    }
    for name, text in bad.items():
        (directory / f"kernel_{name}_aaaaaa_hist.csv").write_text(text)
    (directory / "kernel_bytes_aaaaaa_hist.csv").write_bytes(b"\xff\xfe\x00")
    (directory / "other.csv").write_text("a,b\n")
    (directory / "notes.txt").write_text("no CSV: passed over")
    (directory / "kernel_folder_aaaaaa_hist.csv").mkdir()
    os.mkfifo(directory / "kernel_pipe_aaaaaa_hist.csv")
    envelope = analysed(capture, str(directory), max_rows=50)
    assert [row["kernel"] for row in rows_of(envelope)] == [H16]
    assert envelope["status"] == "partial"
    expected = {f"kernel_{name}_aaaaaa_hist.csv" for name in (*bad, "bytes", "folder", "pipe")} | {"other.csv"}
    assert why(envelope).keys() == expected
    assert envelope["totals"]["unmatched"] == len(expected)
    assert "line 2" in why(envelope)["kernel_negative_aaaaaa_hist.csv"]


def test_a_file_that_is_too_large_is_not_read_and_too_many_are_counted(capture: Path, tmp_path: Path) -> None:
    directory = Path(traces(tmp_path / "t", a_aaaaaa=SOME))
    with (directory / "kernel_b_aaaaaa_hist.csv").open("wb") as file:
        file.truncate(TRACE_FILE_BYTES.value + 1)
    for number in range(TRACE_FILES.value):
        (directory / f"kernel_c{number:04d}_hist.csv").write_text(f"{HEADER}\n0,0,FFMA,1,4\n")
    envelope = analysed(capture, str(directory), max_rows=200)
    assert "larger" in why(envelope)["kernel_b_aaaaaa_hist.csv"]
    assert envelope["totals"]["files"] == TRACE_FILES.value - 1
    assert any("2 more files were not looked at" in note for note in envelope["notes"])


def fenced(root: Path) -> Workspace:
    return Workspace(Library(cache=scratch() / "fenced-cache", roots=[root]), MemoryLedger())


def test_a_directory_outside_the_roots_is_refused_whether_or_not_it_is_there(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-and-more"
    root.mkdir()
    traces(outside, **{f"{H16}_aaaaaa": SOME})
    own = root / "c.sqlite"
    own.write_bytes(written(Capture([kernel(0, 10)])).read_bytes())
    (root / "link").symlink_to(outside)
    refusals = set()
    for place in (outside, root / ".." / outside.name, root / "link", tmp_path / "nowhere", Path("../root-and-more")):
        with pytest.raises(EvidenceError) as refused:
            ask("cutracer_analysis", own, within=fenced(root), trace_dir=str(place))
        refusals.add(refused.value.code)
    assert refusals == {ErrorCode.PATH_NOT_ALLOWED}


def test_inside_the_roots_links_are_listed_and_not_followed_and_relative_paths_are_found(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    secret = tmp_path / "secret"
    secret.write_text(f"{HEADER}\n0,0,FFMA,1,4\n")
    own = root / "c.sqlite"
    own.write_bytes(written(Capture([kernel(0, 10)])).read_bytes())
    directory = Path(traces(root / "cutracer", **{f"{H16}_aaaaaa": SOME}))
    (directory / "kernel_out_aaaaaa_hist.csv").symlink_to(secret)
    for place in ("cutracer", str(directory)):
        envelope = ask("cutracer_analysis", own, within=fenced(root), trace_dir=place)
        assert [row["kernel"] for row in rows_of(envelope)] == [H16]
        assert why(envelope) == {"kernel_out_aaaaaa_hist.csv": "a link, not followed"}


def test_no_directory_or_nothing_in_it_is_an_abstention_that_says_how_to_record(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    for place in (tmp_path / "nowhere", tmp_path / "bare"):
        envelope = analysed(capture, str(place))
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["cutracer histograms"])
        assert "proton_instr_histogram" in envelope["capture_hint"]
    (tmp_path / "file").write_text("")
    with pytest.raises(EvidenceError) as refused:
        analysed(capture, str(tmp_path / "file"))
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT


def test_pages_scope_and_what_is_missing(capture: Path, tmp_path: Path) -> None:
    directory = traces(tmp_path / "t", tiled_0123abcd=SOME, b_aaaaaa=SOME, **{f"{H16}_aaaaaa": SOME})
    whole = analysed(capture, directory)
    pages = [analysed(capture, directory, max_rows=1, offset=number) for number in range(3)]
    assert [page["rows"][0] for page in pages] == whole["rows"]
    assert all(page["totals"] == whole["totals"] for page in pages)
    with pytest.raises(EvidenceError) as refused:
        analysed(capture, directory, device=4)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
    empty = analysed(written(Capture()), directory)
    assert (empty["status"], empty["missing"]) == ("abstained", ["kernels"])
    graph = GraphLaunch(0, 30 * MS, 0, 1, 9, None, 101, 1)
    hidden = analysed(written(Capture([kernel(0, 1)], graph_launches=[graph])), directory)
    assert hidden["status"] == "partial"
