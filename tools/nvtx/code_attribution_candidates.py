"""Likely code regions for a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints, field_validator

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.scope import window_between
from ...contracts.units import Count, Ms, Pct, Text, Unit, present, ratio
from ...contracts.window import Window
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..measures.graphs import hidden_kernels
from ..measures.work import work_recorded
from ..registry import Params, skill
from ..result import AbstentionError, Result
from .path_texts import path_texts

if TYPE_CHECKING:
    from ..measures.code_candidates import Candidate, Candidates

Instant = int | Annotated[str, StringConstraints(pattern="^-?[0-9]{1,19}$")]
"""Nanoseconds; text where a client's numbers are doubles."""


class CodeAttributionCandidatesParams(Params):
    """Parameters of `code_attribution_candidates`."""

    start_ns: Instant = Field(description="start on the capture clock; text beyond 2^53")
    end_ns: Instant = Field(description="end on the capture clock; text beyond 2^53")
    min_overlap_pct: float = Field(0.0, ge=0, le=100, description="only regions open on the host so much of it")

    @field_validator("start_ns", "end_ns")
    @classmethod
    def _number(cls, value: int | str) -> int:
        return int(value)


class CodeAttributionCandidatesRow(Row):
    """One path of ranges."""

    path: Text = column("names of the nested ranges, outermost first, counters cut")
    score_pct: Pct | None = column("GPU time launched inside; does not add up over rows", of="GPU time in the window")
    gpu_ms: Ms = column("the same, ms: kernels, copies, sets and whole graphs, clipped to the window and summed")
    kernels: Count = column("kernels launched inside that overlap the window")
    overlap_pct: Pct | None = column("time with one of the launching ranges open on the host", of="the window")
    why: Text = column("what speaks for it")
    limits: Text | None = column("what speaks against it; null for nothing")


class CodeAttributionCandidatesTotals(Row):
    """All GPU work in the window."""

    candidates: Count = column("paths that launched some of it and meet min_overlap_pct")
    operations: Count = column("kernels, copies, sets and whole graphs that overlap the window")
    gpu_ms: Ms = column("their time, clipped to the window and summed")
    attributed_pct: Pct | None = column("launched in some range", of="GPU time in the window")


@skill(
    title="Code regions for a window",
    when="To see which parts of the program, named by NVTX ranges, launched the GPU work of a time window.",
    params=CodeAttributionCandidatesParams,
    row=CodeAttributionCandidatesRow,
    totals=CodeAttributionCandidatesTotals,
    needs=("calls", "nvtx"),
    max_rows=5,
    one_of=("kernels", "graphs", "copies", "sets"),
    next=("nvtx_kernel_map", "kernel_instances"),
    example={"start_ns": 0, "end_ns": "9223372036854775807"},
)
def code_attribution_candidates(call: Call[CodeAttributionCandidatesParams]) -> Result:
    """One row per path of ranges, by the share of the window's GPU time that was launched inside; then the deepest.

    The window is [start_ns, end_ns) on the capture clock, clipped to the capture, and to trim or iteration where one is
    given. GPU work belongs to the push/pop ranges, of any domain, that contain its launching API call on the calling
    thread, whenever the call was made: a region may be closed long before its work runs. So scores rest on launches,
    and overlap_pct only says whether the launching ranges were open at the time. Ranges around a region score at least
    as much as it does: of equal ones the deepest comes first. A candidate launched the work; whether it is the cause
    of what the window shows is for the reader to judge.
    """
    from ..measures.code_candidates import code_candidates  # numpy, which registering the skill must not load

    window, notes = _window(call)
    call.scope = window  # what the result shows as its scope
    if not work_recorded(call):
        raise AbstentionError("GPU work not recorded in this capture", ["kernels"], CAPTURE_HINTS["kernels"])
    least = call.params.min_overlap_pct
    found = code_candidates(call, Fraction(str(least)) / 100)
    texts = path_texts(call, (candidate.path for candidate in found.page), "plain_paths")
    holes = hidden_kernels(call)
    if not call.profile.recorded("kernels"):
        holes.append("GPU kernels were not recorded: candidates are those of copies, sets and whole graphs alone")
    if not found.ops:
        notes.append("no GPU work in the window: gpu_idle_gaps tells what the host did meanwhile")
    rows = [
        (
            texts[candidate.path],
            ratio(candidate.time, found.time),
            candidate.time,
            candidate.kernels,
            ratio(candidate.opened, window.span_ns),
            _why(candidate, found),
            "; ".join(_limits(candidate)) or None,
        )
        for candidate in found.page
    ]
    return Result(
        rows=rows,
        total_rows=found.count,
        totals={
            "candidates": found.count,
            "operations": found.ops,
            "gpu_ms": found.time,
            "attributed_pct": ratio(found.attributed, found.time),
        },
        notes=[*holes, *notes],
        status=Status.PARTIAL if holes else Status.OK if found.count else Status.EMPTY,
    )


def _window(call: Call[CodeAttributionCandidatesParams]) -> tuple[Window, list[str]]:
    """The window asked for, and what was clipped."""
    start, end = int(call.params.start_ns), int(call.params.end_ns)
    asked = f"[{start}, {end}] ns"
    capture = call.profile.capture_window
    assert capture is not None
    window, notes = window_between(start, end, asked, "start_ns and end_ns", capture, call.profile.gpu_window)
    if not {"trim", "iteration"} & set(call.scope_asked):
        return window, notes
    within = call.window
    first, last = max(window.start_ns, within.start_ns), min(window.end_ns, within.end_ns)
    if first >= last:
        raise EvidenceError(
            ErrorCode.TRIM_OUT_OF_RANGE,
            f"{asked} lies outside {within.by}, [{within.start_ns}, {within.end_ns}] ns",
            "leave trim and iteration out: start_ns and end_ns choose the window",
        )
    if (first, last) != (window.start_ns, window.end_ns):
        notes.append(f"{asked} was clipped to {within.by}")
    edge = within if last == within.end_ns else window
    return replace(window, start_ns=first, end_ns=last, includes_end=edge.includes_end), notes


def _why(candidate: Candidate, found: Candidates) -> str:
    own = ratio(candidate.own, found.time)
    direct = f", {present(Unit.PCT, own)} % of the GPU time directly" if own else ""
    return f"launched {candidate.ops} of {found.ops} GPU operations{direct}"


def _limits(candidate: Candidate) -> Iterator[str]:
    if not candidate.opened:
        yield "closed before the window: its work was queued"
    if not candidate.own:
        yield "launched through ranges within it only"
    if candidate.ranges > 1:
        yield f"{candidate.ranges} ranges have this path"
