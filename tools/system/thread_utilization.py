"""Which threads use the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, Id, Ms, Pct, Text, ratio
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..measures.processes import of_threads, process_notes
from ..registry import NoParams, skill
from ..result import AbstentionError, Result
from .thread_states import states_text


class ThreadUtilizationRow(Row):
    """One thread."""

    process: Id = column("process id")
    tid: Id = column("thread id")
    thread: Text | None = column("name of the thread; null where the capture does not say")
    running_ms: Ms | None = column("time on a CPU, clipped to the window; null where scheduling was not recorded")
    running_pct: Pct | None = column("share of the window that it ran", of="span of the window")
    samples: Count | None = column("CPU samples in the window; null where none were recorded")
    samples_pct: Pct | None = column("share of samples, which is not one of time", of="samples in scope")
    states: Text | None = column(
        "what it went into when it left a CPU in the window, each with how often; without scheduling, its state in "
        "samples; null where not recorded"
    )


class ThreadUtilizationTotals(Row):
    """All threads in scope."""

    threads: Count = column("threads that ran or were sampled in the window")
    processes: Count = column("their processes")
    running_ms: Ms | None = column("sum over threads; null where scheduling was not recorded")
    mean_running: Factor | None = column("running time over the window: threads that ran at once, on average")
    samples: Count | None = column("CPU samples; null where none were recorded")
    clipped: Count | None = column("stretches on a CPU that cross an edge of the window")


@dataclass(frozen=True, slots=True)
class _Use:
    """What one thread used. Times in ns; None where that was not recorded."""

    thread: int
    running: int | None
    samples: int | None
    clipped: int


@skill(
    title="Thread utilization",
    when="To see which threads use the CPU, and how much.",
    row=ThreadUtilizationRow,
    totals=ThreadUtilizationTotals,
    window="capture",
    max_rows=10,
    one_of=("sched", "samples"),
    next=("osrt_summary", "cuda_api_summary", "gpu_idle_gaps"),
)
def thread_utilization(call: Call[NoParams]) -> Result:
    """One row per thread that ran or was sampled in the window, by running time, then samples.

    Running time comes from the scheduler's events: from each that puts a thread on a CPU to the next of the thread,
    which takes it off. A thread at 100 % of the window never left the CPU. With samples only, samples_pct says which
    threads the CPU time went to, not how much time there was. Which threads are there depends on what was traced: the
    tree of the profiled process, or the whole system. With device, only threads of processes that use it count.
    """
    scheduled, sampled = (call.profile.recorded(kind) for kind in ("sched", "samples"))
    if not scheduled and not sampled:
        reason = "neither thread scheduling nor CPU samples were recorded in this capture"
        raise AbstentionError(reason, ["sched", "samples"], CAPTURE_HINTS["sched"])
    found = _uses(call, scheduled, sampled)
    samples = sum(use.samples or 0 for use in found)
    shown = found[call.offset : call.offset + call.max_rows]
    running = sum(use.running or 0 for use in found) if scheduled else None
    unbounded = call.profile.manifest.quarantined.get("sched", 0)
    holes = [
        f"{unbounded} scheduler events have no counterpart and were set aside: the running time next to them is unknown"
    ]
    missing = (
        [] if scheduled else ["thread scheduling was not recorded: samples_pct is a share of samples, not of time"]
    )
    return Result(
        rows=_rows(call, shown, samples),
        total_rows=len(found),
        totals={
            "threads": len(found),
            "processes": _processes(call, found),
            "running_ms": running,
            "mean_running": ratio(running, call.window.span_ns),
            "samples": samples if sampled else None,
            "clipped": sum(use.clipped for use in found) if scheduled else None,
        },
        notes=[*(holes if unbounded else []), *missing, *process_notes(call)],
        status=Status.PARTIAL if unbounded else Status.OK if found else Status.EMPTY,
    )


def _uses(call: Call[NoParams], scheduled: bool, sampled: bool) -> list[_Use]:
    """The threads that ran or were sampled in the window, in the order of the rows."""
    ran = call.sql(
        f"""SELECT thread, sum({call.clipped}), count(*) FILTER ({call.crosses}) FROM running
        WHERE {call.in_window} AND {of_threads(call)} GROUP BY thread"""
    )
    running = {thread: (int(time), crossing) for thread, time, crossing in ran}
    samples = dict(
        call.sql(
            f"SELECT thread, count(*) FROM samples WHERE {call.starts_in_window} AND {of_threads(call)} GROUP BY thread"
        )
    )
    uses = []
    for thread in running.keys() | samples.keys():
        time, crossing = running.get(thread, (0, 0))
        uses.append(_Use(thread, time if scheduled else None, samples.get(thread, 0) if sampled else None, crossing))
    return sorted(uses, key=lambda use: (-(use.running or 0), -(use.samples or 0), use.thread))


def _rows(call: Call[NoParams], uses: list[_Use], samples: int) -> list[tuple[object, ...]]:
    wanted = ", ".join(str(use.thread) for use in uses) or "NULL"
    known = call.sql(f"SELECT thread, pid, tid, name FROM threads WHERE thread IN ({wanted})")
    threads = {thread: (pid, tid, name) for thread, pid, tid, name in known}
    names, states = call.strings(name for _, _, name in threads.values()), _states(call, wanted)
    rows: list[tuple[object, ...]] = []
    for use in uses:
        pid, tid, name = threads[use.thread]
        shares = (use.running, ratio(use.running, call.window.span_ns), use.samples, ratio(use.samples, samples))
        rows.append((pid, tid, names[name], *shares, states.get(use.thread)))
    return rows


def _states(call: Call[NoParams], threads: str) -> dict[int, str]:
    """The states of these threads, in words: when they left a CPU where scheduling has them, else in samples."""
    before = f"{'<=' if call.window.includes_end else '<'} {call.window.end_ns}"
    source = f"samples WHERE {call.starts_in_window}"
    if call.profile.recorded("sched"):
        source = f'running WHERE "end" >= {call.window.start_ns} AND "end" {before}'
    counts: dict[int, list[tuple[int, int]]] = {}
    for thread, state, count in call.sql(
        f"SELECT thread, state, count(*) FROM {source} AND state IS NOT NULL AND thread IN ({threads}) GROUP BY ALL"
    ):
        counts.setdefault(thread, []).append((state, count))
    return {thread: states_text(found) for thread, found in counts.items()}


def _processes(call: Call[NoParams], uses: list[_Use]) -> int:
    wanted = ", ".join(str(use.thread) for use in uses) or "NULL"
    [(count,)] = call.sql(f"SELECT count(DISTINCT process) FROM threads WHERE thread IN ({wanted})")
    return int(count)
