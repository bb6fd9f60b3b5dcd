"""Section 1.8: the same call gives the same bytes, whatever the seed, the threads, the order and the company."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

import nsys_evidence.contracts
import nsys_evidence.tools
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest import profile as profile_module
from nsys_evidence.ingest.library import Library
from nsys_evidence.tools.workspace import Workspace
from tests.pitfalls.asking import (
    ABOUT_PROFILES,
    EVIDENCE,
    arguments,
    as_recorded,
    nameless,
    small,
)
from tests.support import MemoryLedger, ask

ASK_ALL = """
import hashlib, sys
from pathlib import Path
from nsys_evidence.contracts.errors import EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.library import Library
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.workspace import Workspace

class Forgetful:
    def put(self, envelope, names): pass
    def get(self, evidence): return None
    def made_here(self, evidence): return False

workspace = Workspace(Library(cache=Path(sys.argv[2])), Forgetful())
for name, skill in all_skills().items():
    if skill.profile:
        envelope = run_skill(skill, {**skill.example, "profile": sys.argv[1]}, workspace)
        print(name, hashlib.sha256(dump_json(envelope).encode()).hexdigest())
"""


def digests_in_a_process(cache: Path, seed: str) -> dict[str, str]:
    """The digest of every skill's result, from a fresh process that ingests the capture itself."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo" if seed == "0" else "UTC"}
    command = [sys.executable, "-c", ASK_ALL, str(small()), str(cache)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return dict(line.split() for line in done.stdout.splitlines())


def test_no_result_depends_on_the_seed_of_hashes_the_time_zone_or_the_process(tmp_path: Path) -> None:
    here = {name: hashlib.sha256(dump_json(found).encode()).hexdigest() for name, found in as_recorded().items()}
    for seed in ("0", "4242"):
        assert digests_in_a_process(tmp_path / seed, seed) == here, seed


@pytest.mark.parametrize("threads", [1, 4])
def test_no_result_depends_on_the_number_of_threads(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, used = duckdb.connect, []

    def with_threads(*given: Any, config: dict[str, Any] | None = None, **more: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(*given, config={**(config or {}), "threads": threads}, **more)
        used.append(connection.execute("SELECT current_setting('threads')").fetchall()[0][0])
        return connection

    expected = as_recorded()
    monkeypatch.setattr(profile_module.duckdb, "connect", with_threads)
    workspace = Workspace(Library(cache=tmp_path / "cache"), MemoryLedger())
    for name, skill in ABOUT_PROFILES.items():
        assert ask(name, small(), within=workspace, **arguments(skill)) == expected[name], name
    assert set(used) == {threads}


def test_pages_of_different_sizes_and_devices_are_not_mixed_up_whatever_was_asked_before() -> None:
    asked = [
        ("top_kernels", {"max_rows": 1}),
        ("top_kernels", {"max_rows": 5}),
        ("top_kernels", {"device": 0, "max_rows": 5}),
        ("top_kernels", {"iteration": 1}),
        ("gpu_idle_gaps", {"max_rows": 2}),
        ("gpu_idle_gaps", {"device": 1}),
    ]
    forward = [dump_json(ask(name, small(), **given)) for name, given in asked]
    backward = [dump_json(ask(name, small(), **given)) for name, given in reversed(asked)]
    assert backward[::-1] == forward
    assert len(set(forward)) == len(asked)


def test_what_a_caller_does_to_a_result_changes_no_later_one() -> None:
    first = ask("top_kernels", small())
    kept = dump_json(first)
    first["rows"].clear()
    first["totals"]["instances"] = -1
    assert dump_json(ask("top_kernels", small())) == kept


def test_queries_at_once_over_one_profile_each_get_their_own_rows() -> None:
    names = ["top_kernels", "gpu_idle_gaps", "nvtx_kernel_map", "memory_transfers"]
    expected = {name: ask(name, small()) for name in names}
    wrong: list[str] = []

    def ask_again(name: str) -> None:
        for _ in range(3):
            if ask(name, small()) != expected[name]:
                wrong.append(name)

    threads = [threading.Thread(target=ask_again, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


CLOCKS = re.compile(r"\b(datetime|time\.time|time\.monotonic|perf_counter|random|uuid4|id\(\w+\)|hash\(\w)")


def test_no_skill_looks_at_a_clock_at_chance_or_at_an_object_s_address() -> None:
    """Except for the part that watches over SQL of others, which has a deadline."""
    for package in (nsys_evidence.tools, nsys_evidence.contracts):
        folder = Path(package.__path__[0]).resolve()
        for path in sorted(folder.rglob("*.py")):
            where = path.relative_to(folder)
            if where.parts[0] != "custom":
                assert CLOCKS.findall(path.read_text(encoding="utf-8")) == [], where


def test_no_result_holds_the_path_of_the_capture_or_of_the_cache() -> None:
    for name, found in as_recorded().items():
        text = EVIDENCE.sub("", nameless(found))
        assert str(small().parent) not in text, name
