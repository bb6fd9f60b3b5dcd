"""Known patterns of lost time, each judged by what other skills found."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Cited, Count, Flag, Ms, Pct, Text
from ..call import Call
from ..measures.busy import basis_notes, work_holes
from ..registry import NoParams, skill
from ..result import Result, Table
from .judging import JUDGES, Facts, Verdict
from .patterns import ABOUT_CAPTURE, PATTERNS, Pattern

_REASON = 160
"""How much of a reason is shown."""


class RootCauseMatcherRow(Row):
    """One finding: a pattern that takes 1 % of the window or more."""

    pattern: Text = column("name of the pattern")
    severity: Text = column("high (20 % of the window and more), medium (5 %), low (1 %); or about the capture")
    share_pct: Pct | None = column("what it takes; null when it is about the capture", of="window times devices")
    recoverable_ms: Ms | None = column("idle or exposed communication time that it owns; null when it owns none")
    threshold: Text = column("what made it a finding")
    says: Text = column("what it is")
    attempt: Text = column("what to try")
    disproof: Text = column("what would show that it is not the cause")


class RootCauseMatcherTotals(Row):
    """All patterns."""

    findings: Count = column("patterns that were found")
    checked: Count = column("patterns that were checked")
    not_checked: Count = column("patterns that could not be checked: table not_checked says why")
    recoverable_ms: Ms = column("sum over findings; at most idle_ms + exposed_comm_ms")
    idle_ms: Ms = column("idle time of the devices, summed")
    exposed_comm_ms: Ms | None = column("exposed communication, summed over devices; null without kernels")


class FigureRow(Row):
    """One figure that a pattern was judged by."""

    pattern: Text = column("name of the pattern")
    found: Flag = column("whether it is a finding")
    figure: Text = column("column of the skill that it is from")
    value: Cited | None = column("as that result shows it")
    cell: Text = column("where it stands: evidence id and cell")


class NotCheckedRow(Row):
    """One pattern that could not be checked."""

    pattern: Text = column("name of the pattern")
    skill: Text = column("the skill that did not answer")
    status: Text = column("abstained, failed, or not recorded")
    reason: Text = column("why")
    hint: Text | None = column("how to record what it needs, or what to do")


@skill(
    title="Root causes",
    when="To match the capture against known patterns of lost time, with the figures that say so.",
    row=RootCauseMatcherRow,
    totals=RootCauseMatcherTotals,
    tables={"figures": FigureRow, "not_checked": NotCheckedRow},
    one_of=("kernels", "graphs", "copies", "sets"),
    next=("gpu_idle_gaps", "overlap_breakdown", "top_kernels"),
)
def root_cause_matcher(call: Call[NoParams]) -> Result:
    """One row per finding, the largest share of the window first, then profiler_overhead. A finding is a pattern, not a
    proof of its cause.

    Every figure is of another skill's result and stands in table figures with its cell; get_evidence returns that
    result. Of patterns that are no findings the first figure is given. Every millisecond of idle time and of exposed
    communication has one owner, so recoverable_ms adds up to no more than idle_ms + exposed_comm_ms; it is a ceiling,
    as if the time were gone and nothing took its place. Patterns without it are about time in which the device works.
    profiler_overhead is about the capture, never about the workload. A skill that abstains or fails is listed in
    not_checked.
    """
    holes = work_holes(call)
    facts = Facts(call)
    verdicts: list[tuple[Pattern, Verdict]] = []
    missing: list[tuple[object, ...]] = []
    for pattern in PATTERNS:
        verdict = JUDGES[pattern.name](facts)
        unanswered = [why for name in pattern.skills if (why := facts.asked.why_not(name)) is not None]
        missing += [(pattern.name, why.skill, why.status, _short(why.reason), why.hint) for why in unanswered]
        if unanswered:
            continue
        if verdict.share is None:
            missing.append((pattern.name, pattern.skills[0], "not recorded", verdict.unknown, None))
        else:
            verdicts.append((pattern, verdict))
    found = [(pattern, verdict) for pattern, verdict in verdicts if verdict.severity is not None]
    # Of equal ones in the order of the patterns; what is about the capture comes last.
    found.sort(key=lambda each: (each[0].threshold == ABOUT_CAPTURE, -(each[1].share or 0)))
    figures = _figures(found, [each for each in verdicts if each not in found])
    rows = [
        (p.name, *_weight(p, v), v.recoverable, p.thresholds, p.says, p.attempt, p.disproof)
        for p, v in call.page_of(list(found))
    ]
    kernels = facts.asked.why_not("overlap_breakdown") is None
    return Result(
        rows=rows,
        total_rows=len(found),
        totals={
            "findings": len(found),
            "checked": len(verdicts),
            "not_checked": len({name for name, *_ in missing}),
            "recoverable_ms": sum(verdict.recoverable or 0 for _, verdict in found),
            "idle_ms": facts.busy.idle,
            "exposed_comm_ms": facts.busy.exposed_comm if kernels else None,
        },
        tables={"figures": Table(figures, len(figures)), "not_checked": Table(missing, len(missing))},
        notes=[*holes, *basis_notes(call)],
        status=Status.PARTIAL if holes or missing else Status.OK if found else Status.EMPTY,
    )


def _weight(pattern: Pattern, verdict: Verdict) -> tuple[str | None, Fraction | None]:
    """Severity and share of the window; neither of a pattern that is about the capture."""
    if pattern.threshold == ABOUT_CAPTURE:
        return "about the capture", None
    return verdict.severity, verdict.share


def _figures(
    found: Sequence[tuple[Pattern, Verdict]], others: Sequence[tuple[Pattern, Verdict]]
) -> list[tuple[object, ...]]:
    """The figures of the findings, then the first one of each other pattern."""
    shown = [(pattern, True, verdict.figures) for pattern, verdict in found]
    shown += [(pattern, False, verdict.figures[:1]) for pattern, verdict in others]
    return [
        (pattern.name, is_finding, figure.name, figure.value, figure.cell)
        for pattern, is_finding, figures in shown
        for figure in figures
    ]


def _short(text: str) -> str:
    return text if len(text) <= _REASON else text[: _REASON - 1] + "…"
