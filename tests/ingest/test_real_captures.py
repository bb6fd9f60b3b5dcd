"""Profiles of real captures hold what plain queries on the export say."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.ingest.manifest import Coverage
from tests.ingest.profiles import Built, build_file
from tests.support import CAPTURES, SHARED, needs_shared

pytestmark = needs_shared
captures = pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)

SOURCES = {
    "kernels": "CUPTI_ACTIVITY_KIND_KERNEL",
    "copies": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "sets": "CUPTI_ACTIVITY_KIND_MEMSET",
    "graphs": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "calls": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "syncs": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "osrt": "OSRT_API",
}
TRUE = "start IS NOT NULL AND end >= start AND NOT (start = 0 AND end = 0)"
HOST_EVENTS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "OSRT_API", "SCHED_EVENTS", "COMPOSITE_EVENTS")
GPU_WORK = ("kernels", "copies", "sets", "graphs")
Row = tuple[Any, ...]


@cache
def built(path: Path) -> Built:
    return build_file(path)


@cache
def tables(path: Path) -> frozenset[str]:
    return frozenset(name for (name,) in query(path, "SELECT name FROM sqlite_master WHERE type = 'table'"))


def query(path: Path, sql: str) -> list[Row]:
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        return database.execute(sql).fetchall()
    finally:
        database.close()


def canonical(path: Path, table: str, *columns: str) -> Counter[Row]:
    return Counter(built(path).named(table, *columns))


def recorded(path: Path, table: str) -> bool:
    return SOURCES.get(table, table) in tables(path)


@captures
def test_every_believable_row_is_there_with_its_times_and_every_other_is_counted(path: Path) -> None:
    for table, source in SOURCES.items():
        if not recorded(path, table):
            assert built(path).manifest.coverage[table] is Coverage.NOT_RECORDED
            assert built(path).rows(table) == []
            continue
        assert canonical(path, table, "start", "end") == Counter(
            query(path, f"SELECT start, end FROM {source} WHERE {TRUE}")
        )
        ((bad,),) = query(path, f"SELECT count(*) FROM {source} WHERE NOT ({TRUE})")
        assert built(path).manifest.quarantined.get(table, 0) == bad


@captures
def test_samples_are_those_of_the_export_and_every_stretch_of_a_thread_is_bounded_by_two_events(path: Path) -> None:
    threads = {row["thread"]: row["global_tid"] for row in built(path).rows("threads")}
    found = Counter(
        (row["start"], threads[row["thread"]], row["cpu"], row["state"]) for row in built(path).rows("samples")
    )
    sampled, scheduled = (table in tables(path) for table in ("COMPOSITE_EVENTS", "SCHED_EVENTS"))
    samples = query(path, "SELECT start, globalTid, cpu, threadState FROM COMPOSITE_EVENTS") if sampled else []
    switches: Counter[Row] = Counter()
    for run in built(path).rows("running"):
        switches[run["start"], threads[run["thread"]], 1] += 1
        switches[run["end"], threads[run["thread"]], 0] += 1
    events = query(path, "SELECT start, globalTid, isSchedIn FROM SCHED_EVENTS") if scheduled else []
    assert found == Counter(samples)
    assert switches == Counter(events)  # in these captures every event has its counterpart
    coverage = built(path).manifest.coverage
    assert (coverage["samples"] is Coverage.RECORDED) == sampled
    assert (coverage["sched"] is Coverage.RECORDED) == scheduled


@captures
def test_threads_are_called_what_the_export_calls_them(path: Path) -> None:
    names: dict[int, str] = {}
    if "ThreadNames" in tables(path):
        names = dict(query(path, "SELECT globalTid, value FROM ThreadNames JOIN StringIds ON id = nameId"))
    found = dict(built(path).named("threads", "global_tid", "name"))
    assert found == {tid: names.get(tid) for tid in found}


@captures
def test_the_two_windows_are_those_of_the_events(path: Path) -> None:
    def hull(*selects: str) -> tuple[int, int] | None:
        if not selects:
            return None
        ((low, high),) = query(path, f"SELECT min(a), max(b) FROM ({' UNION ALL '.join(selects)})")
        return None if low is None else (low, high)

    def of(*kinds: str) -> list[str]:
        return [f"SELECT start a, end b FROM {SOURCES[k]} WHERE {TRUE}" for k in kinds if recorded(path, k)]

    others = [
        f"SELECT min(start) a, max(start) b FROM {table}"
        for table in ("SCHED_EVENTS", "COMPOSITE_EVENTS")
        if recorded(path, table)
    ]
    if recorded(path, "NVTX_EVENTS"):
        others.append("SELECT start a, coalesce(end, start) b FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60, 70, 71)")
    assert built(path).manifest.gpu == hull(*of(*GPU_WORK))
    assert built(path).manifest.capture == hull(*of(*SOURCES), *others)


@captures
def test_work_keeps_its_process_device_context_stream_correlation_and_name(path: Path) -> None:
    processes = {row["process"]: row["global_pid"] for row in built(path).rows("processes")}
    streams = {row["stream"]: (row["context"], row["stream_id"]) for row in built(path).rows("streams")}
    for table in GPU_WORK:
        if not recorded(path, table):
            continue
        extra = {"kernels": "value", "copies": "bytes", "sets": "bytes", "graphs": "graphId"}[table]
        expected = query(
            path,
            f"""SELECT start, globalPid, contextId, streamId, correlationId, {extra} FROM {SOURCES[table]}
            {"JOIN StringIds ON id = demangledName" if table == "kernels" else ""} WHERE {TRUE}""",
        )
        column = {"kernels": "name", "copies": "bytes", "sets": "bytes", "graphs": "graph_id"}[table]
        found = Counter(
            (start, processes[process], *streams[stream], correlation, value)
            for start, process, stream, correlation, value in built(path).named(
                table, "start", "process", "stream", "correlation", column
            )
        )
        assert found == Counter(expected)
    work = " UNION ALL ".join(
        f"SELECT globalPid, deviceId FROM {SOURCES[k]} WHERE {TRUE}" for k in GPU_WORK if recorded(path, k)
    )
    counts: dict[int, int] = dict(query(path, f"SELECT deviceId, count(*) FROM ({work}) GROUP BY 1")) if work else {}
    devices = {d.gpu: d.device for d in built(path).manifest.devices}
    by_device: Counter[int] = Counter()
    for table in GPU_WORK:
        by_device.update(devices[row["gpu"]] for row in built(path).rows(table))
    assert by_device == counts


@captures
def test_launches_are_those_of_process_and_correlation_id(path: Path) -> None:
    for table in GPU_WORK:
        if not (recorded(path, table) and recorded(path, "calls")):
            continue
        expected = query(
            path,
            f"""WITH longest AS (
                SELECT globalTid >> 24 AS process, correlationId, start, end, max(end - start)
                FROM {SOURCES["calls"]} WHERE {TRUE} GROUP BY 1, 2)
            SELECT w.start, w.correlationId, l.start, l.end FROM {SOURCES[table]} w LEFT JOIN longest l
            ON l.process = w.globalPid >> 24 AND l.correlationId = w.correlationId
            WHERE w.start IS NOT NULL AND w.end >= w.start""",
        )
        assert canonical(path, table, "start", "correlation", "call_start", "call_end") == Counter(expected)


@captures
def test_calls_keep_thread_name_and_correlation(path: Path) -> None:
    threads = {row["thread"]: row["global_tid"] for row in built(path).rows("threads")}
    for table, extra in (("calls", "correlationId"), ("osrt", "eventClass")):
        if not recorded(path, table):
            continue
        sql = (
            f"SELECT start, globalTid, value, {extra} FROM {SOURCES[table]} JOIN StringIds ON id = nameId WHERE {TRUE}"
        )
        expected = Counter((start, tid, shown(name), value) for start, tid, name, value in query(path, sql))
        column = "correlation" if table == "calls" else "event_class"
        found = built(path).named(table, "start", "thread", "name", column)
        assert Counter((start, threads[thread], name, value) for start, thread, name, value in found) == expected


def shown(name: str) -> str:
    """The name without a version of four digits."""
    return name[:-6] if name[-6:-4] == "_v" and name[-4:].isdigit() else name


@captures
def test_ranges_keep_thread_times_and_the_name_with_its_domain(path: Path) -> None:
    if not recorded(path, "NVTX_EVENTS"):
        assert built(path).manifest.rows["nvtx_ranges"] == built(path).manifest.marks == 0
        return
    threads = {row["thread"]: row["global_tid"] for row in built(path).rows("threads")}
    for table, types in (("nvtx_ranges", "59, 70"), ("nvtx_spans", "60, 71")):
        expected = query(
            path,
            f"""SELECT r.start, r.end, r.globalTid, coalesce(d.text || ':', '') || coalesce(r.text, s.value, '')
            FROM NVTX_EVENTS r LEFT JOIN StringIds s ON s.id = r.textId
            LEFT JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = r.domainId
                AND d.globalTid >> 24 = r.globalTid >> 24 AND d.domainId > 0
            WHERE r.eventType IN ({types}) AND r.end >= r.start""",
        )
        found = built(path).named(table, "start", "end", "thread", "name")
        assert Counter((start, end, threads[thread], name) for start, end, thread, name in found) == Counter(expected)
    ((marks, unclosed),) = query(
        path,
        """SELECT count(*) FILTER (WHERE eventType = 34),
            count(*) FILTER (WHERE eventType IN (59, 60, 70, 71) AND end IS NULL) FROM NVTX_EVENTS""",
    )
    assert (built(path).manifest.marks, built(path).manifest.unclosed_ranges) == (marks, unclosed)


@captures
def test_kernels_are_attributed_to_the_ranges_that_contain_their_launch(path: Path) -> None:
    """Inclusive: a kernel counts in every range of its launching thread that contains the call."""
    if not {"NVTX_EVENTS", SOURCES["kernels"], SOURCES["calls"]} <= tables(path):
        pytest.skip("no kernels under ranges in this capture")
    rows = built(path).rows("stacks")
    ranges = built(path).rows("nvtx_ranges")
    inside: Counter[tuple[int, int]] = Counter()
    for kernel in built(path).rows("kernels"):
        node = kernel["stack"]
        while node is not None:
            found = ranges[rows[node]["range"]]
            inside[found["start"], found["end"]] += 1
            node = rows[node]["parent"]
    threads = {row["thread"]: row["global_tid"] for row in built(path).rows("threads")}
    launched: dict[int, list[tuple[int, int]]] = {}
    for kernel in built(path).rows("kernels"):
        if kernel["thread"] is not None:
            launched.setdefault(threads[kernel["thread"]], []).append((kernel["call_start"], kernel["call_end"]))
    pushpop = query(
        path, "SELECT start, end, globalTid FROM NVTX_EVENTS WHERE eventType IN (59, 70) AND end IS NOT NULL"
    )
    expected: Counter[tuple[int, int]] = Counter()
    for calls in launched.values():
        calls.sort()
    for start, end, tid in pushpop:
        calls = launched.get(tid, [])
        begun = calls[bisect_left(calls, (start,)) : bisect_left(calls, (end + 1,))]
        expected[start, end] += sum(b <= end for _, b in begun)
    assert inside == +expected


@captures
def test_only_strings_that_an_event_refers_to_are_kept(path: Path) -> None:
    kept = {str(text) for text in built(path).strings().values() if text is not None}
    selects = {
        "CUPTI_ACTIVITY_KIND_KERNEL": "SELECT value FROM {0} JOIN StringIds ON id IN (demangledName, shortName)",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "SELECT value FROM {0} JOIN StringIds ON id = nameId",
        "OSRT_API": "SELECT value FROM {0} JOIN StringIds ON id = nameId",
        "NVTX_EVENTS": "SELECT value FROM {0} JOIN StringIds ON id = textId UNION SELECT text FROM {0}",
    }
    referred = {
        text for table, sql in selects.items() if table in tables(path) for (text,) in query(path, sql.format(table))
    }
    # And what those threads are called that have an event.
    hosts = [table for table in (*HOST_EVENTS, "NVTX_EVENTS") if table in tables(path)]
    owners = " UNION ".join(f"SELECT globalTid FROM {table}" for table in hosts)
    if "ThreadNames" in tables(path) and owners:
        named = f"SELECT value FROM ThreadNames JOIN StringIds ON id = nameId WHERE globalTid IN ({owners})"
        referred |= {text for (text,) in query(path, named)}
    derived = {shown(text) for text in referred if text} | {""}
    domains = {text.partition(":")[0] for text in kept if ":" in text}
    for text in kept - referred - derived:
        # What is left is a range's name with its domain before it, or without PyTorch's counters.
        domain, _, rest = text.partition(":")
        assert (domain in domains and rest in referred) or any(
            original and original.startswith(text + ", ") for original in referred
        ), text


@pytest.mark.parametrize(
    ("name", "rows", "facts"),
    [
        ("h100x2_fsdp_2026.2", {"kernels": 3442, "copies": 904, "nvtx_ranges": 16782, "processes": 2}, (2, 0)),
        ("h100x2_nccl_2026.2", {"kernels": 4010}, (2, 0)),
        ("h200_cpu_bound_2025.1", {"kernels": 18, "nvtx_ranges": 13513}, (1, 1)),
        ("h100x8_one_active_2024.6", {"nvtx_ranges": 1054}, (1, 8)),
        ("t4_no_kernels_osrt_2023.4", {"kernels": 0, "osrt": 7108}, (1, 1)),
        ("rtx3090x8_no_kernels_2023.4", {"kernels": 0}, (1, 8)),
        ("cpu_nvtx_osrt-2023.4.4", {"nvtx_ranges": 240, "nvtx_spans": 1}, (0, 0)),
        ("cpu_samples_2023.4", {"kernels": 1}, (1, 1)),
        ("old_schema_2021", {"nvtx_ranges": 0}, (1, 1)),
    ],
)
def test_a_capture_holds_what_is_known_of_it(name: str, rows: dict[str, int], facts: tuple[int, int]) -> None:
    manifest = built(SHARED / "captures" / f"{name}.sqlite").manifest
    assert {table: manifest.rows[table] for table in rows} == rows
    assert (len(manifest.devices), manifest.listed_gpus) == facts


def test_collectives_of_a_real_capture_are_known_by_their_names() -> None:
    kernels = built(SHARED / "captures" / "h100x2_nccl_2026.2.sqlite").named("kernels", "name", "comm")
    assert sum(comm for _, comm in kernels) == 66
    assert all(comm == str(name).startswith("ncclDevKernel") for name, comm in kernels)
