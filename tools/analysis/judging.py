"""Judging each pattern by what other skills found, so that every millisecond of idle and exposed time has one owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..call import Call
from ..measures.busy import Busy, busy_of_devices, busy_together, compute_known
from ..measures.iterations import find_iterations
from ..thresholds.analysis import HIGH, HOTSPOT, IMBALANCE, LOW, MEDIUM, PAGEABLE, SHARED_STREAM
from .asked import Asked, Figure


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a pattern.

    Attributes:
        share: what it takes of the window (of all selected devices together); None where that cannot be told.
        recoverable: idle or exposed time that it owns, ns; None for a pattern that owns none.
        figures: what it was judged by.
        also: a condition besides the share; False keeps it from being a finding.
        unknown: why the share cannot be told, where it cannot.
    """

    share: Fraction | None
    recoverable: int | None
    figures: Sequence[Figure]
    also: bool = True
    unknown: str = "what it is judged by was not recorded"

    @property
    def severity(self) -> str | None:
        """high, medium or low, by the share of the window; None when it is no finding."""
        if self.share is None or not self.also or 100 * self.share < LOW.value:
            return None
        return "high" if 100 * self.share >= HIGH.value else "medium" if 100 * self.share >= MEDIUM.value else "low"


class Facts:
    """What the patterns are judged by.

    Attributes:
        asked: the other skills.
        busy: the parts of the window, over the selected devices.
        kernels_known: whether kernels, or graphs of them, were recorded: without them idle time is not known.
        idle: idle time by owner (`measures.idle_owners`): gaps and ns.
        steady: the same of gaps that begin after the first iteration; None where there are no iterations.
        serialised: exposed communication of the devices whose collectives share their streams with compute, ns.
    """

    def __init__(self, call: Call[Any]) -> None:
        from ..measures.idle_owners import idle_by_owner  # numpy, which registering the skill must not load

        self.asked = Asked(call)
        devices = busy_of_devices(call)
        self.busy: Busy = busy_together(devices)
        self.kernels_known = compute_known(call)
        self.idle = idle_by_owner(call)
        iterations = find_iterations(call)
        self.steady = None if iterations is None else idle_by_owner(call, since=iterations.windows[0].end_ns)
        shared = _shared_streams(call)
        self.serialised = sum(busy.exposed_comm for gpu, busy in devices.items() if gpu in shared)

    def share(self, time: int) -> Fraction | None:
        """A time as a share of the window times devices."""
        return Fraction(time, self.busy.span) if self.busy.span else None

    def owned(self, *owners: str) -> int:
        """Idle time of these owners."""
        return sum(self.idle[owner][1] for owner in owners)

    def idle_figures(self, *owners: str) -> list[Figure]:
        """The cells of pipeline_bubble_metrics that these owners stand in."""
        rows = self.asked.rows("pipeline_bubble_metrics", "idle")
        return [row["idle_ms"] for row in rows if row["host"].value in owners]

    def totals(self, skill: str, *keys: str) -> list[Figure]:
        """Figures of a skill's totals."""
        return [figure for key in keys if (figure := self.asked.total(skill, key)) is not None]


def _shared_streams(call: Call[Any]) -> set[int]:
    """Devices whose communication is mostly on streams that more than a stray compute kernel runs on."""
    time = 'sum("end" - start)'
    rows = call.sql(
        f"""SELECT gpu FROM (
            SELECT gpu, coalesce({time} FILTER (comm), 0) AS comm, {time} AS whole FROM kernels
            WHERE {call.on_devices} AND {call.in_window} GROUP BY gpu, stream)
        GROUP BY gpu HAVING 2 * coalesce(
                sum(comm) FILTER (100 * (whole - comm) >= {SHARED_STREAM.value} * whole), 0
            ) >= sum(comm) AND sum(comm) > 0"""
    )
    return {gpu for (gpu,) in rows}


def _of_idle(facts: Facts, owners: Sequence[str], figures: Sequence[Figure] = (), also: bool = True) -> Verdict:
    """The verdict of a pattern that owns idle time; unknown where kernels may have run in what counts as idle."""
    time = facts.owned(*owners)
    share = facts.share(time) if facts.kernels_known else None
    unknown = "kernels were not recorded, and may have run in what counts as idle"
    return Verdict(share, time, [*facts.idle_figures(*owners), *figures], also, unknown)


def _idle_device(facts: Facts) -> Verdict:
    return _of_idle(facts, ("other_cuda", "no_cuda_call", "unknown"))


def _launch_bound(facts: Facts) -> Verdict:
    figures = facts.totals("kernel_launch_overhead", "launch_bound_pct")
    return _of_idle(facts, ("between launches", "launch"), figures)


def _host_sync(facts: Facts) -> Verdict:
    return _of_idle(facts, ("sync",), facts.totals("sync_cost_analysis", "calls", "busy_ms"))


def _exposed_copies(facts: Facts) -> Verdict:
    return Verdict(facts.share(facts.busy.copy_only), None, facts.totals("overlap_breakdown", "copy_only_ms"))


def _exposed_comm(facts: Facts) -> Verdict:
    time = facts.busy.exposed_comm - facts.serialised
    figures = facts.totals("overlap_breakdown", "exposed_comm_ms", "comm_ms", "overlap_pct")
    return Verdict(facts.share(time), time, figures)


def _serialised_comm(facts: Facts) -> Verdict:
    figures = facts.totals("overlap_breakdown", "exposed_comm_ms", "shared_streams")
    return Verdict(facts.share(facts.serialised), facts.serialised, figures)


def _hotspot(facts: Facts) -> Verdict:
    rows = facts.asked.rows("top_kernels")
    if not rows:
        return Verdict(Fraction(0), None, [])
    part = Fraction(str(rows[0]["share_pct"].value or 0)) / 100
    with_kernels = facts.share(facts.busy.kernel)
    return Verdict(
        None if with_kernels is None else part * with_kernels,
        None,
        [rows[0]["share_pct"], rows[0]["total_ms"]],
        also=100 * part >= HOTSPOT.value,
    )


def _synchronous_copies(facts: Facts) -> Verdict:
    pageable = facts.totals("memory_bandwidth", "pageable_pct")
    pinned = bool(pageable) and pageable[0].value is not None and pageable[0].number < PAGEABLE.value
    return _of_idle(facts, ("copy_call",), pageable, also=not pinned)


def _steady_h2d(facts: Facts) -> Verdict:
    figures = facts.totals("h2d_distribution", "busy_ms", "first_tenth_pct")
    pattern = facts.totals("h2d_distribution", "pattern")
    busy = round(Fraction(str(figures[0].value or 0)) * 10**6) if figures else 0
    steady = bool(pattern) and pattern[0].value in ("spread_out", "spike")
    return Verdict(facts.share(busy), None, [*figures, *pattern], also=steady)


def _steady(owner: str, skill: str, *keys: str) -> Callable[[Facts], Verdict]:
    def judge(facts: Facts) -> Verdict:
        verdict = _of_idle(facts, (owner,), facts.totals(skill, *keys))
        if facts.steady is None:
            return replace(
                verdict, share=None, unknown="without iterations, start-up cannot be told from the steady state"
            )
        time = facts.steady[owner][1]
        return replace(verdict, share=verdict.share and facts.share(time), recoverable=time)

    return judge


def _tensor_cores(facts: Facts) -> Verdict:
    unused, whole = facts.totals("tensor_core_usage", "unused_ms"), facts.totals("top_kernels", "total_ms")
    if not unused or not whole or not whole[0].number:
        return Verdict(Fraction(0), None, unused)
    part = Fraction(str(unused[0].value)) / Fraction(str(whole[0].value))
    with_kernels = facts.share(facts.busy.kernel)
    figures = [*unused, *facts.totals("tensor_core_usage", "unused_pct")]
    return Verdict(None if with_kernels is None else min(part, Fraction(1)) * with_kernels, None, figures)


def _imbalance(facts: Facts) -> Verdict:
    figures = [row["comm_ms"] for row in facts.asked.rows("overlap_breakdown")]
    if len(figures) < 2:
        return Verdict(Fraction(0), None, figures)
    most, least = max(figures, key=lambda f: f.number), min(figures, key=lambda f: f.number)
    apart = Fraction(str(most.value)) - Fraction(str(least.value))
    span = facts.totals("overlap_breakdown", "span_ms")
    share = apart / Fraction(str(span[0].value)) if span and span[0].number else None
    also = apart * 100 >= Fraction(str(most.value)) * IMBALANCE.value
    return Verdict(share, None, [most, least], also=also)


def _profiler_overhead(facts: Facts) -> Verdict:
    rows = [row for row in facts.asked.rows("doctor") if row["check"].value == "overhead of nsys"]
    if not rows or rows[0]["pct"].value is None:
        return Verdict(None, None, [])
    return Verdict(Fraction(str(rows[0]["pct"].value)) / 100, None, [rows[0]["pct"], rows[0]["ms"]])


JUDGES: dict[str, Callable[[Facts], Verdict]] = {
    "idle_device": _idle_device,
    "launch_bound": _launch_bound,
    "host_sync": _host_sync,
    "exposed_comm": _exposed_comm,
    "serialised_comm": _serialised_comm,
    "exposed_copies": _exposed_copies,
    "kernel_hotspot": _hotspot,
    "synchronous_copies": _synchronous_copies,
    "steady_h2d": _steady_h2d,
    "steady_module_loading": _steady("module_load", "module_loading", "after_first_step", "idle_ms"),
    "steady_allocation": _steady("alloc", "gc_impact", "alloc_ms", "idle_ms"),
    "tensor_cores_unused": _tensor_cores,
    "rank_imbalance": _imbalance,
    "profiler_overhead": _profiler_overhead,
}
"""How each pattern is judged. Owners of idle time, and the two of exposed communication, are disjoint."""
