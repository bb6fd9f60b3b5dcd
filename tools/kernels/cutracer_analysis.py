"""What the instructions of a kernel spend their cycles on, from CUTracer's histograms."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, Ms, Pct, Text, ratio
from ...contracts.wire import clean_text
from ..call import Call
from ..measures.graphs import hidden_kernels
from ..registry import Params, skill
from ..result import AbstentionError, Result, Table
from ..thresholds.kernels import BANK_CONFLICT_CYCLES

if TYPE_CHECKING:
    from ...ingest.roots import Roots
    from .cutracer import Histogram, Traces

_TOP = 3
"""How many instructions of a kernel are shown."""

_RECORD = (
    "record histograms with CUTracer: CUTRACER_ANALYSIS=proton_instr_histogram KERNEL_FILTERS=NAME "
    "CUDA_INJECTION64_PATH=/path/to/cutracer.so PROGRAM, and give the directory of its *_hist.csv as trace_dir"
)


class CutracerAnalysisParams(Params):
    """Parameters of `cutracer_analysis`."""

    trace_dir: str = Field(min_length=1, max_length=4096, description="directory of CUTracer's *_hist.csv files")


class CutracerAnalysisRow(Row):
    """One kernel that has histograms."""

    kernel: Text = column("label of the kernel; the name in the file name where it joins none, or several")
    names: Count = column("kernel names of the capture, in scope, that the name in the file name stands for")
    total_ms: Ms | None = column("their time in the window; null where it joins none")
    instructions: Count = column("instructions executed by the warps that were recorded")
    tensor_pct: Pct | None = column("matrix multiply-accumulate", of="cycles in the kernel's histograms")
    fp_pct: Pct | None = column("floating point", of="cycles in the kernel's histograms")
    int_pct: Pct | None = column("integer and logic", of="cycles in the kernel's histograms")
    memory_pct: Pct | None = column(
        "global, local, constant and texture memory", of="cycles in the kernel's histograms"
    )
    shared_pct: Pct | None = column("shared memory", of="cycles in the kernel's histograms")
    sync_pct: Pct | None = column("barriers and waits", of="cycles in the kernel's histograms")
    control_pct: Pct | None = column("branches and calls", of="cycles in the kernel's histograms")
    other_pct: Pct | None = column("everything else", of="cycles in the kernel's histograms")
    warps: Count = column("warps that were recorded")
    bound: Text | None = column("the class with most cycles; null without any")
    bank_conflicts: Text | None = column("hint: shared memory instructions of so many cycles; null without one")


class CutracerAnalysisTotals(Row):
    """The directory."""

    files: Count = column("histograms that were read")
    kernels: Count = column("different names in their file names")
    joined: Count = column("of them, those that join a kernel in scope")
    unmatched: Count = column("names that join none, and files that could not be read")
    total_ms: Ms = column("time of the kernels that are joined, each once")
    covered_pct: Pct | None = column("total_ms", of="kernel time in scope, over devices")


class TopInstructionRow(Row):
    """One of the three instructions of a kernel with most cycles."""

    kernel: Text = column("as in the rows")
    instruction: Text = column("SASS instruction")
    instruction_class: Text = column("tensor, fp, int, memory, shared, sync, control or other")
    count: Count = column("executions by the warps that were recorded")
    cycles_pct: Pct | None = column("its cycles", of="cycles in the kernel's histograms")
    cycles_per_instruction: Factor | None = column("cycles over executions; null without executions")


class UnmatchedRow(Row):
    """A file without a kernel."""

    file: Text = column("name of the file, or of the kernel in file names")
    why: Text = column("why it stands here")


@skill(
    title="CUTracer analysis",
    when="To see what instructions kernels spend cycles on, from CUTracer's histograms.",
    params=CutracerAnalysisParams,
    row=CutracerAnalysisRow,
    totals=CutracerAnalysisTotals,
    tables={"top_instructions": TopInstructionRow, "unmatched": UnmatchedRow},
    needs=("kernels",),
    max_rows=10,
    next=("top_kernels", "kernel_instances", "tensor_core_usage"),
    example={"trace_dir": "cutracer"},
)
def cutracer_analysis(call: Call[CutracerAnalysisParams]) -> Result:
    """One row per kernel with histograms (`kernel_NAME_HASH_hist.csv`), by its time in the capture.

    Cycles are those that CUTracer counted in its own, slowed run, of the warps that it recorded: shares and the bound
    are to be read, not sums. NAME joins a kernel by its demangled name, its label, or its function's name; where
    several kernels have that, their time is together. Files without a kernel keep their row, without time, and are
    listed. trace_dir lies below a directory that the server may read (relative ones are looked for there); links in it
    are not followed. Shared memory instructions that are slow on average hint at bank conflicts.
    """
    from .cutracer import CLASSES, class_of

    traces = _traces(call)
    in_scope = f"FROM kernels WHERE {call.on_devices} AND {call.in_window}"
    times: dict[int, int] = dict(call.sql(f"SELECT name, sum({call.clipped}) {in_scope} GROUP BY name"))
    labels = call.kernel_labels(times)
    joined = _join(traces.kernels, labels)
    shown_as = {
        file: labels[names[0]][0] if len(names := joined[file]) == 1 else clean_text(file) for file in traces.kernels
    }

    def time(file: str) -> int | None:
        return sum(times[name] for name in joined[file]) if joined[file] else None

    order = sorted(traces.kernels, key=lambda file: (-(time(file) if joined[file] else -1), file))  # type: ignore[operator]
    shown = order[call.offset : call.offset + call.max_rows]
    rows, top = [], list[tuple[object, ...]]()
    for file in shown:
        of = traces.kernels[file]
        cycles, all_cycles = Counter[str](), sum(of.cycles.values())
        for instruction, spent in of.cycles.items():
            cycles[class_of(instruction)] += spent
        rows.append(
            (
                shown_as[file],
                len(joined[file]),
                time(file),
                sum(of.counts.values()),
                *(ratio(cycles[name], all_cycles) for name in CLASSES),
                of.warps,
                max(CLASSES, key=lambda name: cycles[name]) if all_cycles else None,
                _bank_conflicts(of),
            )
        )
        for instruction, spent in sorted(of.cycles.items(), key=lambda found: (-found[1], found[0]))[:_TOP]:
            count = of.counts[instruction]
            what = (shown_as[file], instruction, class_of(instruction), count)
            top.append((*what, ratio(spent, all_cycles), ratio(spent, count)))
    unmatched = [*traces.refused]
    unmatched += [(file, "no kernel of this name in scope") for file in sorted(traces.kernels) if not joined[file]]
    covered = sum(times[name] for name in {name for names in joined.values() for name in names})
    holes = hidden_kernels(call)
    notes = [*holes, "cycles are of CUTracer's own run and of the warps it recorded: read shares, not sums"]
    if traces.passed_over:
        notes.append(f"{traces.passed_over} more files were not looked at")
    partial = holes or traces.refused or traces.passed_over
    return Result(
        rows=rows,
        total_rows=len(order),
        totals={
            "files": sum(of.files for of in traces.kernels.values()),
            "kernels": len(traces.kernels),
            "joined": sum(bool(names) for names in joined.values()),
            "unmatched": len(unmatched),
            "total_ms": covered,
            "covered_pct": ratio(covered, sum(times.values())),
        },
        tables={
            "top_instructions": Table(top, len(top)),
            "unmatched": Table(unmatched[: call.max_rows], len(unmatched)),
        },
        notes=notes,
        status=Status.PARTIAL if partial else Status.OK if rows else Status.EMPTY,
        names={labels[name][0]: labels[name][1] for file in shown for name in joined[file]},
    )


def _traces(call: Call[CutracerAnalysisParams]) -> Traces:
    """What is in the directory asked for. Abstains where there is none, or nothing in it."""
    from .cutracer import read_traces

    roots = call.workspace.library.roots
    for path in _places(roots, call.params.trace_dir):
        found = read_traces(path, roots.check_still, call.interrupt.check)
        if found is not None and (found.kernels or found.refused):
            return found
    reason = "there is no directory with CUTracer histograms (*_hist.csv) at trace_dir"
    raise AbstentionError(reason, ["cutracer histograms"], _RECORD)


def _places(roots: Roots, trace_dir: str) -> Sequence[Path]:
    """The paths that are meant, all of which may be read: a relative one is meant below each allowed directory."""
    if roots.anywhere or trace_dir.startswith(("/", "~")):
        return [roots.resolve(trace_dir)]
    return [roots.resolve(str(directory / trace_dir)) for directory in roots.directories]


def _join(files: Mapping[str, Histogram], labels: Mapping[int, tuple[str, str]]) -> dict[str, list[int]]:
    """The kernel names that the name in a file name stands for: by demangled name, else label, else function."""
    ways: list[dict[str, list[int]]] = [defaultdict(list) for _ in range(3)]
    for name, (label, demangled) in sorted(labels.items()):
        for way, text in zip(ways, (demangled, label, _function(demangled)), strict=True):
            way[_plain(text)].append(name)
    return {file: next((way[key] for way in ways if (key := _plain(file)) in way), []) for file in files}


def _plain(text: str) -> str:
    """The text as a file name may hold it."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def _function(demangled: str) -> str:
    """The function's own name: without return type, namespaces, template arguments and parameters."""
    kept, depth = list[str](), 0
    for character in demangled:
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0 and kept:
            break
        if depth == 0 and character != ">":
            kept.append(character)
    words = "".join(kept).replace("::", " ").split()
    return words[-1] if words else demangled


def _bank_conflicts(of: Histogram) -> str | None:
    """A hint where shared memory instructions are slow on average."""
    from .cutracer import class_of

    shared = [name for name in of.counts if class_of(name) == "shared"]
    per_instruction = ratio(sum(of.cycles[name] for name in shared), sum(of.counts[name] for name in shared))
    if per_instruction is None or per_instruction < BANK_CONFLICT_CYCLES.value:
        return None
    return f"shared memory instructions take {_one_decimal(per_instruction)} cycles on average: look for bank conflicts"


def _one_decimal(number: Fraction) -> str:
    tenths = round(number * 10)
    return f"{tenths // 10}.{tenths % 10}"
