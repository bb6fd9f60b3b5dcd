"""Judging each pattern by what other skills found, so that every millisecond of idle and exposed time has one owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..call import Call
from ..kernels.tensor_cores import Usage, tensor_core_use
from ..measures.busy import Busy, busy_of_devices, busy_together, compute_known
from ..measures.iterations import find_iterations
from ..thresholds.analysis import HIGH, HOTSPOT, IMBALANCE, LOW, MEDIUM, PAGEABLE, SHARED_STREAM
from .asked import Asked, Figure

H2D = 1
"""`copies.kind` of a host-to-device copy (CUPTI's number)."""


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
        devices: the parts of the window of each selected device, by `gpu`.
        busy: the same, over the selected devices.
        kernels_known: whether kernels, or graphs of them, were recorded: without them idle time is not known.
        idle: idle time by owner (`measures.idle_owners`): gaps and ns.
        steady: the same of gaps that begin after the first iteration; None where there are no iterations.
    """

    def __init__(self, call: Call[Any]) -> None:
        from ..measures.idle_owners import idle_by_owner  # numpy, which registering the skill must not load

        self.call = call
        self.asked = Asked(call)
        self.devices = busy_of_devices(call)
        self.busy: Busy = busy_together(self.devices)
        self.kernels_known = compute_known(call)
        self.idle = idle_by_owner(call)
        marker = call.scope_asked.get("marker")
        iterations = find_iterations(call, None if marker is None else str(marker))
        self.steady = None if iterations is None else idle_by_owner(call, since=iterations.windows[0].end_ns)

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

    def union(self, events: str) -> int:
        """The length of the union of events in the window on each device, summed; `events` selects `gpu` as `key`."""
        from ..measures.intervals import union_lengths

        return sum(union_lengths(self.call, events).values())

    def alone(self, events: str, kind: str) -> int:
        """The same, without what is busy of a kind meanwhile."""
        from ..measures.uncovered import uncovered

        return sum(uncovered(self.call, events, kind).values())

    def kernels(self, condition: str) -> str:
        """SQL for the kernels in scope that meet a condition."""
        call = self.call
        return (
            f'SELECT gpu AS key, start, "end" FROM kernels WHERE {call.on_devices} AND {call.in_window} AND {condition}'
        )


def _shared_streams(call: Call[Any]) -> str:
    """SQL for the streams that run collectives, and compute for more than a stray kernel's time."""
    time = 'sum("end" - start)'
    return f"""SELECT stream FROM kernels WHERE {call.on_devices} AND {call.in_window} GROUP BY stream
        HAVING bool_or(comm) AND 100 * coalesce({time} FILTER (NOT comm), 0) >= {SHARED_STREAM.value} * {time}
            AND {time} > 0"""


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


def _serialised(facts: Facts) -> int:
    """Exposed time of the collectives on streams that they share with compute."""
    return facts.alone(facts.kernels(f"comm AND stream IN ({_shared_streams(facts.call)})"), "compute")


def _exposed_comm(facts: Facts) -> Verdict:
    time = facts.busy.exposed_comm - _serialised(facts)
    figures = facts.totals("overlap_breakdown", "exposed_comm_ms", "comm_ms", "overlap_pct")
    return Verdict(facts.share(time), time, figures)


def _serialised_comm(facts: Facts) -> Verdict:
    time = _serialised(facts)
    figures = facts.totals("overlap_breakdown", "exposed_comm_ms", "shared_streams")
    return Verdict(facts.share(time), time, figures)


def _hotspot(facts: Facts) -> Verdict:
    """The compute kernel with most time: what it takes of the window, and whether that is much of all kernel time."""
    call = facts.call
    sums = call.sql(
        f"""SELECT name, sum({call.clipped})::BIGINT AS time FROM kernels
        WHERE {call.on_devices} AND {call.in_window} AND NOT comm GROUP BY name ORDER BY time DESC, name LIMIT 1"""
    )
    [(whole,)] = call.sql(
        f"SELECT coalesce(sum({call.clipped}), 0)::BIGINT FROM kernels WHERE {call.on_devices} AND {call.in_window}"
    )
    if not sums or not whole:
        return Verdict(Fraction(0), None, [])
    [(name, time)] = sums
    label = call.kernel_labels([name])[name][0]
    rows = [row for row in facts.asked.rows("top_kernels") if row["kernel"].value == label]
    figures = [rows[0]["share_pct"], rows[0]["total_ms"]] if rows else []
    taken = facts.union(facts.kernels(f"name = {name}"))
    return Verdict(facts.share(taken), None, figures, also=100 * time >= HOTSPOT.value * whole)


def _synchronous_copies(facts: Facts) -> Verdict:
    pageable = facts.totals("memory_bandwidth", "pageable_pct")
    pinned = bool(pageable) and pageable[0].value is not None and pageable[0].number < PAGEABLE.value
    return _of_idle(facts, ("copy_call",), pageable, also=not pinned)


def _steady_h2d(facts: Facts) -> Verdict:
    """Host-to-device copies while no kernel runs: a copy that hides beside a kernel costs nothing."""
    call = facts.call
    copies = (
        f'SELECT gpu AS key, start, "end" FROM copies WHERE {call.on_devices} AND {call.in_window} AND kind = {H2D}'
    )
    pattern = facts.totals("h2d_distribution", "pattern")
    steady = bool(pattern) and pattern[0].value in ("spread_out", "spike")
    figures = [*facts.totals("h2d_distribution", "busy_ms", "first_tenth_pct"), *pattern]
    return Verdict(facts.share(facts.alone(copies, "kernel")), None, figures, also=steady)


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
    names = facts.call.sql("SELECT name, demangled FROM kernel_names")
    unused = [name for name, text in names if (use := tensor_core_use(text)) and use.usage is Usage.UNUSED]
    taken = facts.union(facts.kernels(f"name IN ({', '.join(map(str, sorted(unused)))})")) if unused else 0
    return Verdict(facts.share(taken), None, facts.totals("tensor_core_usage", "unused_ms", "unused_pct"))


def _imbalance(facts: Facts) -> Verdict:
    """How far apart the communication times of the devices are, of all of them; the cells of those two where shown."""
    times = {gpu: busy.comm for gpu, busy in facts.devices.items()}
    if len(times) < 2:
        return Verdict(Fraction(0), None, facts.totals("overlap_breakdown", "comm_ms"))
    most, least = max(times, key=lambda gpu: (times[gpu], -gpu)), min(times, key=lambda gpu: (times[gpu], gpu))
    rows = facts.asked.rows("overlap_breakdown")
    place = {gpu: number for number, gpu in enumerate(facts.devices)}
    figures = [rows[place[gpu]]["comm_ms"] for gpu in (most, least) if place[gpu] < len(rows)]
    apart = times[most] - times[least]
    return Verdict(facts.share(apart), None, figures, also=100 * apart >= IMBALANCE.value * times[most])


def _profiler_overhead(facts: Facts) -> Verdict:
    rows = [row for row in facts.asked.rows("doctor") if row["check"].value == "overhead of nsys"]
    if not rows or rows[0]["pct"].value is None:
        return Verdict(None, None, [])
    share = Fraction(str(rows[0]["pct"].value)) / 100  # of the capture window, whatever the window asked about
    return Verdict(share, None, [rows[0]["pct"], rows[0]["ms"]])


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
