"""One occurrence of a region, by name: a push/pop range and the GPU work that it launched, or a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...contracts.errors import ErrorCode, EvidenceError
from ..call import Call
from ..capture_hints import CAPTURE_HINTS, KIND_NAMES
from ..measures.graphs import whole_graphs
from ..measures.work import WORK_TABLES
from ..result import AbstentionError
from .kernel_instances import TIES

if TYPE_CHECKING:
    from .region_mfu import RegionMfuParams

_LISTED = 5
"""How many names a note gives of what there is."""


@dataclass(frozen=True, slots=True)
class Region:
    """One occurrence, and among how many. Times in ns."""

    label: str
    occurrences: int
    pid: int | None
    tid: int | None
    start: int
    end: int
    host: int | None
    gpu: tuple[int, int] | None
    busy: int
    kernels: int
    gpus: tuple[int, ...]
    graphs: int
    notes: list[str]


def _matches(params: RegionMfuParams, column_name: str) -> str:
    """SQL condition on a column of names, with one parameter."""
    return {
        "contains": f"contains({column_name}, ?)",
        "exact": f"{column_name} = ?",
        "startswith": f"starts_with({column_name}, ?)",
    }[params.match_mode]


def _process(call: Call[Any], counts: Sequence[tuple[int, int, int]], what: str) -> tuple[int, int, int, list[str]]:
    """The process to look at: number, pid, how many of its occurrences match; and a note where there are others.

    Args:
        call: the call.
        counts: processes with a match, as (process, pid, matches).
        what: what matches, in a word.
    """
    working = {pid for device in call.devices for pid in device.pids}
    process, pid, count = min(counts, key=lambda found: (found[1] not in working, found[1], found[0]))
    notes = []
    if len(counts) > 1:
        notes.append(f"{what} of {len(counts)} processes match: this is process {pid}; device chooses another")
    return process, pid, count, notes


def _in_reach(call: Call[RegionMfuParams], count: int, pid: int) -> int:
    """The rows to pass over for the occurrence asked for."""
    asked = call.params.occurrence_index
    if asked > count:
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"there is no occurrence {asked}: {count} of process {pid} match and start in the window",
            f"give occurrence_index from 1 to {count}",
            argument="occurrence_index",
            occurrences=count,
        )
    return asked - 1


def find_range(call: Call[RegionMfuParams]) -> Region | None:
    """The occurrence asked for of ranges that match; None when none matches."""
    if not call.profile.recorded("nvtx"):
        raise AbstentionError(f"{KIND_NAMES['nvtx']} not recorded in this capture", ["nvtx"], CAPTURE_HINTS["nvtx"])
    params = call.params
    matching = f"""FROM nvtx_ranges JOIN (SELECT thread, process, pid, tid FROM threads) USING (thread)
        WHERE name IN (SELECT id FROM strings WHERE {_matches(params, "value")}) AND {call.starts_in_window}"""
    counts = call.sql(
        f"""SELECT process, any_value(pid), count(*), count(DISTINCT name) {matching} GROUP BY process""", [params.name]
    )
    if not counts:
        return None
    process, pid, count, notes = _process(call, [row[:3] for row in counts], "ranges")
    names = next(row[3] for row in counts if row[0] == process)
    if names > 1:
        notes.append(f"ranges of {names} names match and are counted together: match_mode=exact tells one")
    [(start, end, name, thread, tid)] = call.sql(
        f"""SELECT start, "end", name, thread, tid {matching} AND process = {process}
        ORDER BY start, "end" DESC, thread, name LIMIT 1 OFFSET {_in_reach(call, count, pid)}""",
        [params.name],
    )
    inside = f"{call.on_devices} AND call_start >= {start} AND call_end <= {end}"
    parts = " UNION ALL ".join(
        f"""SELECT '{table}' AS kind, gpu, start, "end" FROM {table} WHERE thread = {thread} AND {inside}"""
        for table in WORK_TABLES
    )
    # Each adds what it outlasts of everything that started before it.
    [(first, last, busy, kernels, graphs, gpus)] = call.sql(
        f"""SELECT min(start), max("end"), sum(greatest(0, "end" - greatest(start, coalesce(reached, start)))),
            count(*) FILTER (kind = 'kernels'), count(*) FILTER (kind = 'graphs'), list(DISTINCT gpu)
        FROM (SELECT *, max("end") OVER (ORDER BY start, "end" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS reached FROM ({parts}))"""
    )
    [(elsewhere,)] = call.sql(
        f"SELECT count(*) FROM kernels WHERE process = {process} AND thread <> {thread} AND {inside}"
    )
    if elsewhere:
        notes.append(f"{elsewhere} kernels that other threads of the process launched meanwhile are not counted")
    if graphs:
        notes.append(whole_graphs(graphs, ": their time counts, their kernels are hidden"))
    return Region(
        label=call.strings([name])[name] or "",
        occurrences=count,
        pid=pid,
        tid=tid,
        start=start,
        end=end,
        host=end - start,
        gpu=None if first is None else (first, last),
        busy=int(busy or 0),
        kernels=kernels,
        gpus=tuple(sorted(gpus or ())),
        graphs=graphs,
        notes=notes,
    )


def find_kernel(call: Call[RegionMfuParams]) -> Region | None:
    """The occurrence asked for of kernels that match, by demangled name or label; None when none matches."""
    params = call.params
    either = f"{_matches(params, 'demangled')} OR {_matches(params, 'label')}"
    matching = f"""FROM kernels WHERE name IN (SELECT name FROM kernel_names WHERE {either})
        AND {call.on_devices} AND {call.starts_in_window}"""
    given = [params.name, params.name]
    counts = call.sql(
        f"""SELECT process, pid, found, names FROM processes JOIN (
            SELECT process, count(*) AS found, count(DISTINCT name) AS names {matching} GROUP BY process
        ) USING (process)""",
        given,
    )
    if not counts:
        return None
    process, pid, count, notes = _process(call, [row[:3] for row in counts], "kernels")
    names = next(row[3] for row in counts if row[0] == process)
    if names > 1:
        notes.append(f"kernels of {names} names match and are counted together: match_mode=exact tells one")
    [(start, end, name, gpu, thread)] = call.sql(
        f"""SELECT start, "end", name, gpu, thread {matching} AND process = {process}
        ORDER BY start, "end", {TIES} LIMIT 1 OFFSET {_in_reach(call, count, pid)}""",
        given,
    )
    tids = [] if thread is None else call.sql(f"SELECT tid FROM threads WHERE thread = {thread}")
    return Region(
        label=call.kernel_labels([name])[name][0],
        occurrences=count,
        pid=pid,
        tid=tids[0][0] if tids else None,
        start=start,
        end=end,
        host=None,
        gpu=(start, end),
        busy=end - start,
        kernels=1,
        gpus=(gpu,),
        graphs=0,
        notes=notes,
    )


def what_there_is(call: Call[RegionMfuParams]) -> str:
    """A note for a name that nothing has: the most frequent names there are."""
    params = call.params
    what = "range" if params.source == "nvtx" else "kernel"
    table, on_devices = ("nvtx_ranges", "true") if params.source == "nvtx" else ("kernels", call.on_devices)
    rows = call.sql(
        f"""SELECT name FROM {table} WHERE {call.starts_in_window} AND {on_devices}
        GROUP BY name ORDER BY count(*) DESC, name LIMIT {_LISTED}"""
    )
    if params.source == "nvtx":
        names = [text or "" for text in map(call.strings([name for (name,) in rows]).get, (name for (name,) in rows))]
    else:
        labels = call.kernel_labels(name for (name,) in rows)
        names = [labels[name][0] for (name,) in rows]
    listed = ", ".join(repr(name) for name in names) or "none"
    word = {"contains": "contains", "exact": "is", "startswith": "starts with"}[params.match_mode]
    return f"no {what} that starts in the window {word} {params.name!r}; most frequent there: {listed}"
