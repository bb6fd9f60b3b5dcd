"""Measures speed and memory as ratios within one run, and says which bound is broken.

usage: python benchmarks/speed.py CAPTURE.sqlite… [--startup]

For each capture: ingest with all derived tables, and every tool, warm, on questions not asked before, against a plain
SQLite scan that totals the columns which ingest reads; and the peak memory of the process. With --startup: spawn to
first reply of the server against a bare mcp server's. Exit code 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

INGEST_RATIO, TOOL_RATIO, PEAK_GIB, STARTUP_RATIO = 6.0, 0.2, 1.5, 1.5
QUESTIONS = 3
HEAVY = [
    ("kernel_instances", {"offset": 300_000, "max_rows": 200}),
    ("kernel_instances", {"order": "start", "offset": 300_000, "max_rows": 200}),
    ("gpu_idle_gaps", {"min_gap_ns": 0, "max_rows": 200}),
    ("gpu_idle_gaps", {"min_gap_ns": 0, "max_rows": 200, "level": "stream"}),
    ("nvtx_kernel_map", {"detail": "instances", "normalize": False, "max_rows": 200}),
    ("top_kernels", {"by_device": True, "max_rows": 200}),
    ("nvtx_summary", {"offset": 200, "max_rows": 200}),
    ("kernel_launch_overhead", {"min_launches": 1, "max_avg_kernel_us": 0, "max_rows": 200}),
]
"""Questions that ask for more than the default ones."""
SPAWNS = 9

SCANS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": 'sum(start), sum("end"), sum(deviceId), sum(streamId), sum(correlationId), '
    "total(globalPid), sum(demangledName)",
    "CUPTI_ACTIVITY_KIND_RUNTIME": 'sum(start), sum("end"), total(globalTid), sum(correlationId), sum(nameId)',
    "NVTX_EVENTS": 'sum(start), sum("end"), sum(eventType), total(globalTid), sum(textId), sum(length(text))',
}


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def scan(capture: Path) -> None:
    database = sqlite3.connect(f"file:{quote(str(capture))}?mode=ro&immutable=1", uri=True)
    for table, totals in SCANS.items():
        database.execute(f"SELECT {totals} FROM {table}").fetchall()
    database.close()


def measure(capture: Path) -> dict[str, object]:
    """All figures of one capture, in this process; run in a process of its own for the sake of its peak memory."""
    from nsys_evidence.ingest.library import Library
    from nsys_evidence.server.ledger import FileLedger
    from nsys_evidence.tools.arguments import input_schema
    from nsys_evidence.tools.registry import all_skills
    from nsys_evidence.tools.run import run_skill
    from nsys_evidence.tools.workspace import Workspace

    scan(capture)  # bring the file into the page cache
    with tempfile.TemporaryDirectory() as scratch:
        library = Library(cache=Path(scratch) / "cache")
        scans = [timed(lambda: scan(capture))]
        ingest = timed(lambda: library.open(str(capture)))
        scans.append(timed(lambda: scan(capture)))
        ingest_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        workspace = Workspace(library, FileLedger(Path(scratch) / "evidence"))
        profile = library.open(str(capture))
        assert profile.capture_window is not None
        begin, span = profile.capture_window.start_ns / 1e9, profile.capture_window.span_ns / 1e9
        tools: dict[str, list[float]] = {}
        kept = run_skill(all_skills()["profile_info"], {"profile": str(capture)}, workspace)
        questions = [(name, {}) for name in all_skills()] + HEAVY
        for name, asked in questions:
            skill = all_skills()[name]
            label = " ".join([name, *(f"{key}={value}" for key, value in asked.items())])
            given: dict[str, object] = {
                **skill.example,
                **asked,
                **({"profile": str(capture)} if skill.profile else {}),
            }
            if skill.row is None:
                given["id"] = kept["evidence"]
            run_skill(skill, given, workspace)  # warm
            tools[label] = []
            for question in range(QUESTIONS):
                if "trim" in input_schema(skill)["properties"]:  # a window that nobody asked about yet
                    edge = span * (question + 1) / 1000
                    given["trim"] = [begin + edge, begin + span - edge]
                tools[label].append(timed(lambda s=skill, g=dict(given): run_skill(s, g, workspace)))  # type: ignore[misc]
            scans.append(timed(lambda: scan(capture)))
    unit = statistics.median(scans)
    return {
        "scan_s": round(unit, 3),
        "ingest_s": round(ingest, 3),
        "ingest_ratio": round(ingest / unit, 2),
        "tool_ratios": {name: round(statistics.median(times) / unit, 3) for name, times in tools.items()},
        "ingest_peak_gib": round(ingest_peak / 2**20, 2),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def first_reply(command: list[str]) -> float:
    """Seconds from spawning a server to its answer to `initialize`."""
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "speed", "version": "1"},
        },
    }
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        seconds = time.perf_counter() - start
        server.stdin.close()
    return seconds


def startup_ratio() -> float:
    """Median over pairs of spawns, this server's against the bare one's, in turn."""
    bare = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]
    ours = [sys.executable, "-m", "nsys_evidence.server", "serve"]
    first_reply(bare), first_reply(ours)
    return statistics.median(first_reply(ours) / first_reply(bare) for _ in range(SPAWNS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path)
    parser.add_argument("--startup", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.captures[0])))
        return 0
    broken = []

    def report(what: str, figure: float, bound: float) -> None:
        print(f"  {what:<72} {figure:>7}  (bound {bound})")
        if figure > bound:
            broken.append(what)

    for capture in options.captures:
        output = subprocess.run([sys.executable, __file__, "--one", str(capture)], stdout=subprocess.PIPE, check=True)
        found = json.loads(output.stdout)
        print(f"{capture.name}: plain scan {found['scan_s']} s, ingest {found['ingest_s']} s")
        report("ingest / scan", found["ingest_ratio"], INGEST_RATIO)
        for name, ratio in found["tool_ratios"].items():
            report(f"{name} / scan", ratio, TOOL_RATIO)
        report("peak GiB of ingest", found["ingest_peak_gib"], PEAK_GIB)
        report("peak GiB with every tool", found["peak_gib"], PEAK_GIB)
    if options.startup:
        print("start-up:")
        report("first reply / bare server", round(startup_ratio(), 2), STARTUP_RATIO)
    print(f"broken: {', '.join(broken)}" if broken else "every bound holds")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
