"""What the host pays for waiting in synchronisation calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...contracts.columns import Row, column
from ...contracts.envelope import MAX_ROWS, Status
from ...contracts.units import Count, Id, Ms, Pct, Text, ratio
from ..call import Call
from ..measures.processes import of_processes, process_notes
from ..registry import NoParams, skill
from ..result import Result, Table
from ..thresholds.system import SYNC_CODES, SYNC_TYPES


class SyncCostAnalysisRow(Row):
    """The synchronisation calls of one type on one thread."""

    process: Id = column("process id")
    tid: Id = column("thread id")
    type: Text = column("what is waited for, by the call's name: device, stream or event")
    calls: Count = column("calls that overlap the window; a runtime call and the driver call in it are two")
    total_ms: Ms = column("sum of durations, clipped to the window; a driver call within a runtime call counts twice")
    busy_ms: Ms = column("time in such a call, what lies within another counted once")
    busy_pct: Pct | None = column("busy_ms", of="length of the window")


class SyncCostAnalysisTotals(Row):
    """All synchronisation calls in scope."""

    processes: Count = column("processes with CUDA API calls anywhere in the capture, of the device asked for")
    threads: Count = column("threads with synchronisation calls in the window")
    calls: Count = column("synchronisation calls that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads: no share of any span")
    busy_ms: Ms = column("time in which any thread of a process was in such a call, summed over processes")
    busy_pct: Pct | None = column("busy_ms", of="length of the window times processes")
    clipped: Count = column("calls that cross an edge of the window")


class SyncProcessRow(Row):
    """One process."""

    process: Id = column("process id")
    threads: Count = column("threads with synchronisation calls in the window")
    calls: Count = column("synchronisation calls that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window, over threads")
    busy_ms: Ms = column("time in which any thread of the process was in such a call")
    busy_pct: Pct | None = column("busy_ms", of="length of the window")


class SyncRecordRow(Row):
    """The synchronisation records of one type and device, which CUPTI keeps beside the calls."""

    process: Id = column("process id")
    device: Id | None = column("CUDA device id; null where no GPU work tells the device of the record's context")
    type: Text = column(
        "device, stream, event, stream_wait (the GPU waits, the host does not), query (nobody waits), or unknown"
    )
    records: Count = column("records that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    by_code: Count = column("those whose type is told by the recorded code alone, since their call is not known")


@skill(
    title="Cost of synchronisation",
    when="To see how long host threads wait in synchronisation calls, and for what.",
    row=SyncCostAnalysisRow,
    totals=SyncCostAnalysisTotals,
    tables={"processes": SyncProcessRow, "records": SyncRecordRow},
    needs=("calls",),
    window="capture",
    next=("gpu_idle_gaps", "pipeline_bubble_metrics", "cuda_api_summary"),
)
def sync_cost_analysis(call: Call[NoParams]) -> Result:
    """One row per process, thread and type of synchronisation, by busy time.

    Synchronisation calls are those that block the host by their names: cudaDeviceSynchronize, cudaStreamSynchronize,
    cudaEventSynchronize and the driver's forms. Calls that wait without saying so, such as synchronous copies, are not
    among them. A driver call within a runtime call adds to calls and total_ms, as in cuda_api_summary, and not to
    busy_ms. busy_ms of rows is per thread, so that no row exceeds the window; threads wait at once, so that rows do
    not add up: table processes has the union over the threads of each process, and totals add up these over
    processes, against the window times all processes in scope. Waiting for a busy GPU is no loss by itself: see
    gpu_idle_gaps for the time in which the device idles meanwhile.

    Table records has what CUPTI recorded of synchronisation, where it did: a record's type is that of its API call,
    since the meaning of its code changed between versions of nsys; without the call, that of the code as CUPTI has it
    (1 event, 2 stream_wait, 3 stream, 4 device). With device, only processes that use it count.
    """
    from ..measures.intervals import union_lengths  # numpy, which registering the skill must not load

    type_sql = _type_sql(_types(call))
    waits = _calls_sql(call, type_sql)
    measured = call.sql(
        f"""SELECT process, thread, type, count(*), count(*) FILTER ({call.crosses}), sum({call.clipped})
        FROM ({waits}) GROUP BY process, thread, type"""
    )
    keys = {group[:3]: place for place, group in enumerate(sorted(group[:3] for group in measured))}
    by_row = union_lengths(call, _keyed(waits, keys)) if keys else {}
    by_process = union_lengths(call, f'SELECT process AS key, start, "end" FROM ({waits})') if keys else {}
    groups = [
        _Group(process, thread, kind, calls, clipped, total, by_row[keys[process, thread, kind]])
        for process, thread, kind, calls, clipped, total in measured
    ]
    groups.sort(key=lambda of: (-of.busy, of.process, of.thread, of.type))
    pids, tids = dict(call.sql("SELECT process, pid FROM processes")), dict(call.sql("SELECT thread, tid FROM threads"))
    span = call.window.span_ns
    [(processes,)] = call.sql(f"SELECT count(DISTINCT process) FROM calls WHERE {of_processes(call)}")
    records, notes = _records(call, type_sql, pids)
    busy = sum(by_process.values())
    return Result(
        rows=[
            (pids[of.process], tids[of.thread], of.type, of.calls, of.total, of.busy, ratio(of.busy, span))
            for of in groups[call.offset : call.offset + call.max_rows]
        ],
        total_rows=len(groups),
        totals={
            "processes": processes,
            "threads": len({of.thread for of in groups}),
            "calls": sum(of.calls for of in groups),
            "total_ms": sum(of.total for of in groups),
            "busy_ms": busy,
            "busy_pct": ratio(busy, span * processes),
            "clipped": sum(of.clipped for of in groups),
        },
        tables={"processes": _processes(groups, by_process, pids, span), "records": records},
        notes=[*process_notes(call), *notes],
        status=Status.OK if groups else Status.EMPTY,
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """The calls of one type on one thread; times in ns, clipped to the window."""

    process: int
    thread: int
    type: str
    calls: int
    clipped: int
    total: int
    busy: int


def _types(call: Call[Any]) -> dict[int, str]:
    """What a call of each name waits for, by string id; only of names that `SYNC_TYPES` lists."""
    patterns = " OR ".join(f"value LIKE 'cu%{pattern}%'" for pattern, _ in SYNC_TYPES.rows)
    named = call.sql(f"SELECT id, value FROM strings WHERE {patterns}")
    found = {}
    for name, value in named:
        bare = value.removeprefix("cuda" if value.startswith("cuda") else "cu")
        told = next((kind for pattern, kind in SYNC_TYPES.rows if bare.startswith(pattern)), None)
        if told is not None:
            found[name] = told
    return found


def _type_sql(types: Mapping[int, str]) -> str:
    """SQL expression: the type of the call `name`; null of a name that is not known."""
    of: dict[str, list[int]] = defaultdict(list)
    for name, kind in sorted(types.items()):
        of[kind].append(name)
    cases = "".join(f" WHEN name IN ({', '.join(map(str, names))}) THEN '{kind}'" for kind, names in of.items())
    return f"(CASE{cases} END)" if cases else "NULL::VARCHAR"


def _calls_sql(call: Call[Any], type_sql: str) -> str:
    """SQL: the synchronisation calls in scope: process, thread, type, start, "end"."""
    from ...ingest.tables import HOST_CLASSES

    return f"""SELECT process, thread, {type_sql} AS type, start, "end" FROM calls
        WHERE host_class = {HOST_CLASSES.index("sync")} AND {of_processes(call)} AND {call.in_window}"""


def _keyed(calls: str, keys: Mapping[tuple[int, int, str], int]) -> str:
    """SQL: the calls with the number of their row as `key`."""
    numbered = ", ".join(f"({process}, {thread}, '{kind}', {key})" for (process, thread, kind), key in keys.items())
    return f"""SELECT key, start, "end" FROM ({calls})
        JOIN (VALUES {numbered}) AS numbered (process, thread, type, key) USING (process, thread, type)"""


def _processes(groups: Sequence[_Group], busy: Mapping[int, int], pids: Mapping[int, int], span: int) -> Table:
    """The processes with synchronisation calls in the window, by busy time."""
    rows = []
    for process in sorted(busy, key=lambda process: (-busy[process], process)):
        mine = [of for of in groups if of.process == process]
        calls, total = sum(of.calls for of in mine), sum(of.total for of in mine)
        share = ratio(busy[process], span)
        rows.append((pids[process], len({of.thread for of in mine}), calls, total, busy[process], share))
    return Table(rows[:MAX_ROWS], total_rows=len(rows))


def _records(call: Call[Any], type_sql: str, pids: Mapping[int, int]) -> tuple[Table, list[str]]:
    """CUPTI's records by process, device and type, and notes on what they do not tell."""
    if not call.profile.manifest.rows.get("syncs"):
        return Table([], 0), ["synchronisation records were not recorded: types are told by the names of calls"]
    codes = " ".join(f"WHEN {code} THEN '{kind}'" for code, kind in SYNC_CODES.rows)
    rows = call.sql(
        f"""WITH contexts AS (
            SELECT process, context, any_value(gpu) AS gpu FROM streams GROUP BY process, context
            HAVING count(DISTINCT gpu) = 1
        ), named AS (
            SELECT process, correlation, min(type) AS type
            FROM (SELECT process, correlation, {type_sql} AS type FROM calls)
            WHERE type IS NOT NULL AND correlation IS NOT NULL GROUP BY process, correlation
        )
        SELECT process, gpu, coalesce(type, CASE sync_type {codes} ELSE 'unknown' END) AS told, count(*),
            sum({call.clipped}), count(*) FILTER (type IS NULL)
        FROM (FROM syncs WHERE {call.in_window} AND {of_processes(call)})
        LEFT JOIN named USING (process, correlation) LEFT JOIN contexts USING (process, context)
        GROUP BY process, gpu, told ORDER BY 5 DESC, process, gpu NULLS LAST, told"""
    )
    by_code = sum(row[5] for row in rows)
    notes = []
    if by_code:
        notes.append(f"the type of {by_code} synchronisation records is told by their code: nsys versions differ on it")
    shown = [
        (pids[process], None if gpu is None else call.device_of(gpu)[0], *figures) for process, gpu, *figures in rows
    ]
    return Table(shown[:MAX_ROWS], total_rows=len(shown)), notes
