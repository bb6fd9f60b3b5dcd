"""How far the host runs ahead of the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Pct, Us, ratio
from ..call import Call
from ..kernels.launches import launches_sql, sharing_of
from ..measures.durations import percentile
from ..measures.gaps import device_gaps_sql
from ..measures.graphs import hidden_kernels
from ..measures.work import WORK_TABLES
from ..registry import NoParams, skill
from ..result import Result
from ..thresholds.system import STARVED_GAP, STARVED_LEAD


class CpuGpuPipelineRow(Row):
    """One thread that launches GPU work in scope."""

    process: Id = column("process id")
    tid: Id = column("thread id")
    launches: Count = column("API calls that launched kernels in scope; a graph launch counts once")
    kernels: Count = column("kernels in scope that they launched")
    share_pct: Pct | None = column("its launches", of="launches in scope")
    lead_med_us: Us | None = column(
        "median of the GPU start of a launch's first kernel less the end of the API call; negative where the kernel "
        "starts first; null without launches"
    )
    lead_p05_us: Us | None = column("5th percentile of the same, interpolated linearly")
    starved_gaps: Count = column(
        "device gaps of 10 µs and more that the first work of one of its API calls ends, with a lead under 10 µs"
    )
    starved_ms: Ms = column("their sum, over devices")
    kernel_avg_us: Us | None = column("mean duration of its kernels in scope; null without kernels")


class CpuGpuPipelineTotals(Row):
    """All launches and all device gaps of 10 µs and more in scope: starved, queued and other add up to gaps."""

    threads: Count = column("threads with a row")
    launches: Count = column("API calls that launched kernels in scope")
    kernels: Count = column("kernels in scope with a known launch")
    unmatched: Count = column("kernels in scope whose API call was not recorded: no launches")
    gaps: Count = column("device gaps of 10 µs and more")
    gap_ms: Ms = column("their sum, over devices")
    starved_gaps: Count = column(
        "those ended by the first work of an API call with a lead under 10 µs: the host was late"
    )
    starved_ms: Ms = column("their sum, over devices")
    queued_gaps: Count = column("those ended with a longer lead: the work was queued, and waited for something else")
    queued_ms: Ms = column("their sum, over devices")
    other_gaps: Count = column("the others: the window ends them, or later work of a launch, or work of unknown launch")
    other_ms: Ms = column("their sum, over devices")


@skill(
    title="CPU-GPU pipeline",
    when="To see how far each host thread runs ahead of the GPU, and whether the GPU starves for launches.",
    row=CpuGpuPipelineRow,
    totals=CpuGpuPipelineTotals,
    needs=("kernels", "calls"),
    max_rows=10,
    next=("gpu_idle_gaps", "kernel_launch_overhead", "kernel_launch_pattern"),
)
def cpu_gpu_pipeline(call: Call[NoParams]) -> Result:
    """One row per launching thread, by number of launches.

    A launch is one API call and the kernels that it put on the GPU, matched within the process; a CUDA graph of many
    kernels is one launch, whose lead is that of its first kernel. Lead is GPU start less API end, with its sign, where
    queue_avg_us of kernel_launch_overhead leaves out what is not positive: high where the host runs ahead, near zero
    or below it where the GPU waits for launches. Launches in scope are looked at whole, in any window.

    Device gaps are those of gpu_idle_gaps: no kernel, graph, copy or set. A gap belongs to the thread of the API call
    whose work ends it, a copy or set too: starved where that call ended less than 10 µs before (or later), so that the
    host was late; queued where the work was there earlier and waited for another stream, a device or a copy. Between
    the works of one launch no gap is the host's. Of several works that end a gap the first counts by kind (kernel,
    graph, copy, set), stream and name. Gaps are cut at the edges of the window. Threads that launch copies and sets
    only have a row where they end starved gaps.
    """
    where = f"{call.on_devices} AND {call.in_window}"
    [(unmatched,)] = call.sql(f"SELECT count(*) - count(call_start) FROM kernels WHERE {where}")
    launched = _launched(call, where)
    ends = _gap_ends(call)
    starved = {thread: (gaps, time) for _, thread, gaps, time in ends if thread is not None}
    launches = sum(of.launches for of in launched.values())
    threads = sorted({*launched, *starved}, key=lambda thread: (-launched.get(thread, _NOTHING).launches, thread))
    holes = hidden_kernels(call)
    notes = [f"{unmatched} kernels without a recorded API call are no launches and left out"] if unmatched else []
    names = _names(call)
    return Result(
        rows=[
            (*names[thread], *_figures(launched.get(thread, _NOTHING), launches, starved.get(thread, (0, 0))))
            for thread in threads[call.offset : call.offset + call.max_rows]
        ],
        total_rows=len(threads),
        totals={
            "threads": len(threads),
            "launches": launches,
            "kernels": sum(of.kernels for of in launched.values()),
            "unmatched": unmatched,
            **_gap_totals(ends),
        },
        notes=holes + notes,
        status=Status.PARTIAL if holes else Status.OK if threads else Status.EMPTY,
    )


@dataclass(frozen=True, slots=True)
class _Launched:
    """What one thread launched. Times in ns.

    Attributes:
        launches: its launches in scope.
        kernels: their kernels in scope.
        time: the whole durations of these.
        lead_med: the median lead; None without launches.
        lead_p05: the 5th percentile of the leads.
    """

    launches: int
    kernels: int
    time: int
    lead_med: Fraction | None
    lead_p05: Fraction | None


_NOTHING = _Launched(0, 0, 0, None, None)


def _figures(of: _Launched, launches: int, starved: tuple[int, int]) -> tuple[object, ...]:
    share, average = ratio(of.launches, launches), ratio(of.time, of.kernels)
    return (of.launches, of.kernels, share, of.lead_med, of.lead_p05, *starved, average)


def _launched(call: Call[NoParams], where: str) -> dict[int, _Launched]:
    """What each thread launched, by `thread`."""
    import numpy as np  # which registering the skill must not load

    launches = launches_sql(where, sharing_of(call), "thread")
    columns = call.arrays(f"SELECT thread, lead, kernels, time FROM ({launches}) ORDER BY thread, lead")
    threads, first = np.unique(columns["thread"], return_index=True)
    parts = (np.split(columns[name], first[1:]) for name in ("lead", "kernels", "time"))
    return {
        thread: _Launched(len(lead), int(kernels.sum()), int(time.sum()), percentile(lead, 50), percentile(lead, 5))
        for thread, lead, kernels, time in zip(threads.tolist(), *parts, strict=False)
    }


_GapEnds = Sequence[tuple[str, int | None, int, int]]
"""Kind (starved, queued or other), thread, gaps and their sum in ns."""

_TOLD_BY = {"kernels": "name", "copies": "kind"}
"""What orders the rows of a table of GPU work, where something does."""


def _gap_ends(call: Call[NoParams]) -> _GapEnds:
    """The device gaps of at least `STARVED_GAP`, by what ends them: its kind and, where starved, its thread."""
    recorded = [
        (kind, table, _TOLD_BY.get(table, "NULL::INTEGER"))
        for kind, table in enumerate(WORK_TABLES)  # in the order in which one of them ends a gap
        if call.profile.manifest.rows[table]
    ]

    def work(columns: str, condition: str) -> str:
        return " UNION ALL ".join(
            f"SELECT {columns.format(kind=kind, what=what)} FROM {table} WHERE {condition}"
            for kind, table, what in recorded
        )

    ending = work(
        "gpu, start, {kind} AS kind, stream, {what} AS what, thread, process, correlation, call_end",
        'start < "end" AND (gpu, start) IN (SELECT (gpu, "end") FROM gaps)',
    )
    launched = work(
        "gpu, process, correlation, start",
        "(gpu, process, correlation) IN (SELECT (gpu, process, correlation) FROM ends)",
    )
    return call.sql(
        f"""WITH gaps AS MATERIALIZED (
            SELECT gpu, "end", "end" - start AS length, "end" < {call.window.end_ns} AS within
            FROM ({device_gaps_sql(call)}) WHERE "end" - start >= {STARVED_GAP.value}
        ), ends AS MATERIALIZED (
            FROM ({ending})
            QUALIFY 1 = row_number() OVER (
                PARTITION BY gpu, start ORDER BY kind, stream, what, thread, call_end, correlation
            )
        ), firsts AS (
            SELECT gpu, process, correlation, min(start) AS first FROM ({launched}) GROUP BY ALL
        )
        SELECT told, CASE WHEN told = 'starved' THEN thread END AS by_thread, count(*), sum(length)
        FROM (
            SELECT thread, length, CASE
                WHEN NOT within OR call_end IS NULL OR first < ends.start THEN 'other'
                WHEN ends.start - call_end < {STARVED_LEAD.value} THEN 'starved'
                ELSE 'queued' END AS told
            FROM gaps LEFT JOIN ends ON gaps.gpu = ends.gpu AND gaps."end" = ends.start
            LEFT JOIN firsts ON firsts.gpu = gaps.gpu AND firsts.process = ends.process
                AND firsts.correlation = ends.correlation
        )
        GROUP BY told, by_thread ORDER BY told, by_thread"""
    )


def _gap_totals(ends: _GapEnds) -> dict[str, object]:
    found: dict[str, Any] = {}
    for word in ("", "starved", "queued", "other"):
        mine = [(gaps, time) for kind, _, gaps, time in ends if word in ("", kind)]
        count, length = sum(gaps for gaps, _ in mine), sum(time for _, time in mine)
        found |= {f"{word}_gaps" if word else "gaps": count, f"{word}_ms" if word else "gap_ms": length}
    return found


def _names(call: Call[NoParams]) -> Mapping[int, tuple[int, int]]:
    """Process and thread id of each thread."""
    return {thread: (pid, tid) for thread, pid, tid in call.sql("SELECT thread, pid, tid FROM threads")}
