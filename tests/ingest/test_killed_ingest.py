"""Killed at any moment of an ingest, a process leaves a cache in which the same question gets the right answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nsys_evidence.ingest.synthetic import write_sqlite
from tests.ingest.caching import SMALL

MOMENTS = 100

PROGRAM = """
import importlib, os, pkgutil, shutil, signal, sys, threading
from pathlib import Path

import nsys_evidence.ingest, nsys_evidence.tools
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.cache import Cache
from nsys_evidence.ingest.library import Library
from nsys_evidence.server.ledger import FileLedger
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.workspace import Workspace

for package in (nsys_evidence.ingest, nsys_evidence.tools):  # so that no moment falls into an import
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)

capture, scratch, moments = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
counted, deadly = 0, 0

def count(frame, event, argument):
    global counted
    counted += 1
    if counted == deadly:
        os.kill(os.getpid(), signal.SIGKILL)

def events(cache, kill_at):
    # Every call and return, of Python and of C, on every thread, is a moment.
    global counted, deadly
    counted, deadly = 0, kill_at
    threading.setprofile(count)
    sys.setprofile(count)
    Library(cache=cache).open(capture)
    sys.setprofile(None)
    return counted

def ask(cache):
    workspace = Workspace(Library(cache=cache), FileLedger(scratch / "evidence"))
    return dump_json(run_skill(all_skills()["top_kernels"], {"profile": capture}, workspace))

def in_child(work):
    # What work returns, from a process of its own; None when it was killed. Forked: nothing is imported again.
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        os.close(source)
        with open(sink, "w") as out:
            out.write(work())
        os._exit(0)
    os.close(sink)
    with open(source) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else text

def fresh(name):
    shutil.rmtree(scratch / "cache", ignore_errors=True)
    return scratch / "cache"

# Threads that wait for each other call more often on a busy machine: the least of a few counts is there in every run.
total = min(int(in_child(lambda: str(events(fresh("count"), 0)))) for _ in range(4))
expected = in_child(lambda: ask(fresh("expected")))
killed = left = wrong = 0
for moment in range(moments):
    cache = fresh(moment)
    # Evenly over the whole ingest, but half of them over its last twentieth, when it is published.
    share = moment / (moments // 2) if moment < moments // 2 else 0.95 + 0.05 * (moment / (moments // 2) - 1)
    killed += in_child(lambda: str(events(cache, 1 + int(share * (total - 1))))) is None
    left += bool(Cache(cache).entries())
    wrong += in_child(lambda: ask(cache)) != expected
print(dump_json({"total": total, "killed": killed, "left": left, "wrong": wrong, "expected": len(expected)}))
"""
"""Ingests in child processes that are killed at moments spread over it, and asks the same question after each."""


def test_after_a_kill_at_any_of_a_hundred_moments_the_same_question_gets_the_right_answer(tmp_path: Path) -> None:
    path = write_sqlite(SMALL, tmp_path / "demo.sqlite")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(tmp_path), str(MOMENTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["expected"] > 500
    assert said["wrong"] == 0
    # The number of calls still differs a little from run to run: the very last moments may come after the end.
    assert MOMENTS - 10 <= said["killed"] <= MOMENTS
    assert 0 < said["left"] < MOMENTS  # some were killed before and some after it was published
