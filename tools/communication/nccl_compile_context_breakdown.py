"""Whether collectives are launched by eager code or by compiled regions."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Ms, Text
from ..call import Call
from ..measures.graphs import hidden_kernels
from ..registry import NoParams, skill
from ..result import Result
from ..thresholds.communication import EAGER, INDUCTOR, LAUNCH_CONTEXTS, NCCL_RANGES
from .collectives import BY_NAME, NO_COLLECTIVES, collectives, numbered_sql

OPEN, NONE = "temporal_only", "none"

CONTEXTS = (EAGER, INDUCTOR, OPEN, NONE)
"""Where a collective is launched from, in the order of the columns."""


class NcclCompileContextBreakdownRow(Row):
    """One collective, over all devices in scope."""

    collective: Text = column("collective by kernel name; Generic where the name does not tell it")
    count: Count = column("kernels that overlap the window: the sum of the four counts")
    total_ms: Ms = column("sum of durations, clipped to the window: the sum of the four times")
    eager: Count = column("those whose innermost range around the launch is c10d's or nccl:")
    eager_ms: Ms = column("their durations")
    inductor_captured: Count = column(
        "those whose innermost range around the launch names a compiled or inductor region"
    )
    inductor_captured_ms: Ms = column("their durations")
    temporal_only: Count = column("those that are launched in a range that names neither")
    temporal_only_ms: Ms = column("their durations")
    none: Count = column("those launched in no range, or by a call that was not recorded")
    none_ms: Ms = column("their durations")


class NcclCompileContextBreakdownTotals(Row):
    """All collectives in scope."""

    collectives: Count = column("different collectives")
    count: Count = column("kernels that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over devices")
    eager: Count = column("sum over rows")
    eager_ms: Ms = column("sum over rows")
    inductor_captured: Count = column("sum over rows")
    inductor_captured_ms: Ms = column("sum over rows")
    temporal_only: Count = column("sum over rows")
    temporal_only_ms: Ms = column("sum over rows")
    none: Count = column("sum over rows")
    none_ms: Ms = column("sum over rows")
    without_call: Count = column("kernels whose launching call was not recorded; they count as none")
    clipped: Count = column("kernels that cross an edge of the window")


@skill(
    title="Collectives by launch context",
    when="To see whether collectives are launched by eager PyTorch code or by compiled (inductor) regions.",
    row=NcclCompileContextBreakdownRow,
    totals=NcclCompileContextBreakdownTotals,
    needs=("kernels", "calls", "nvtx"),
    next=("nccl_breakdown", "nvtx_kernel_map"),
)
def nccl_compile_context_breakdown(call: Call[NoParams]) -> Result:
    """One row per collective, by total time; every kernel counts in one of the four contexts.

    The innermost push/pop range, of any domain, that contains the launching API call on its thread decides, by its
    name: a range that is open around it does not make a collective eager or captured, so that a c10d call inside a
    compiled region is eager. Ranges of NCCL itself (ncclAllReduce, ncclGroupEnd) stand around every launch, whoever
    calls, and are passed over. temporal_only says that some range was open and names neither: it is no evidence of
    either. Names are a hint: which ranges there are depends on how PyTorch was annotated.
    """
    found = _contexts(call)
    figures = {name: _figures([row for row in found if row[0] == name]) for name in {row[0] for row in found}}
    groups: list[tuple[object, ...]] = [
        (name, *figures[name]) for name in sorted(figures, key=lambda name: (-figures[name][1], name))
    ]
    without_call, clipped = sum(row[4] for row in found), sum(row[5] for row in found)
    totals = (len(groups), *_figures(found), without_call, clipped)
    holes = hidden_kernels(call)
    notes = [*holes, BY_NAME if groups else NO_COLLECTIVES]
    if without_call:
        notes.append(f"{without_call} collectives have no recorded launching call and count as none")
    return Result(
        rows=call.page_of(groups),
        total_rows=len(groups),
        totals=dict(zip(NcclCompileContextBreakdownTotals.model_fields, totals, strict=True)),
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK if groups else Status.EMPTY,
    )


_Found = tuple[str, str, int, int, int, int]
"""Collective, context, and of its kernels: how many, their time in ns, how many without a call, how many clipped."""


def _figures(found: Sequence[_Found]) -> tuple[int, ...]:
    """Count and time of all, then of each context."""
    of_contexts = [
        sums
        for context in CONTEXTS
        for sums in (
            sum(row[2] for row in found if row[1] == context),
            sum(row[3] for row in found if row[1] == context),
        )
    ]
    return (sum(of_contexts[0::2]), sum(of_contexts[1::2]), *of_contexts)


def _contexts(call: Call[NoParams]) -> list[_Found]:
    """The collectives in the window by name and context."""
    of_kernel = collectives(call)
    if not of_kernel:
        return []
    names = sorted({of.name for of in of_kernel.values()})
    numbered = numbered_sql({kernel: names.index(of.name) for kernel, of in of_kernel.items()})
    patterns = " ".join("WHEN contains(value, ?) THEN ?" for _ in LAUNCH_CONTEXTS.rows)
    rows = call.sql(
        f"""WITH RECURSIVE launched AS (
            SELECT number, stack, thread IS NULL AS callless, {call.clipped} AS ns, {call.crosses} AS crossing
            FROM kernels JOIN {numbered} USING (name) WHERE {call.on_devices} AND {call.in_window}
        ), grouped AS (
            SELECT number, plain_path AS leaf, count(*) AS count, sum(ns) AS ns,
                count(*) FILTER (callless) AS callless, count(*) FILTER (crossing) AS crossing
            FROM launched LEFT JOIN (SELECT node, plain_path FROM stacks) ON node = stack GROUP BY number, leaf
        ), said AS (
            SELECT path, parent, CASE WHEN regexp_matches(value, ?) THEN NULL
                {patterns} ELSE '{OPEN}' END AS context
            FROM plain_paths JOIN strings ON id = plain_paths.name
        ), up AS (
            SELECT path AS leaf, parent, context FROM said WHERE path IN (SELECT leaf FROM grouped)
            UNION ALL
            SELECT leaf, said.parent, said.context FROM up JOIN said ON said.path = up.parent WHERE up.context IS NULL
        )
        SELECT number, coalesce(context, '{NONE}') AS launched_from, sum(count), sum(ns), sum(callless), sum(crossing)
        FROM grouped LEFT JOIN (SELECT leaf, context FROM up WHERE context IS NOT NULL) USING (leaf)
        GROUP BY number, launched_from""",
        [
            "|".join(f"(?:{pattern})" for pattern, _ in NCCL_RANGES.rows),
            *(text for row in LAUNCH_CONTEXTS.rows for text in row),
        ],
    )
    return [(names[number], context, *map(int, figures)) for number, context, *figures in rows]
