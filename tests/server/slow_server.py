"""A server whose every call takes for ever, for tests of its end. Arguments: `query` or `stubborn`, or with `http`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import cast

import duckdb

from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.server import http
from nsys_evidence.server.address import Address
from nsys_evidence.server.ledger import FileLedger, evidence_directory
from nsys_evidence.server.limits import Limits
from nsys_evidence.server.stdio import serve_stdio
from nsys_evidence.tools import run
from nsys_evidence.tools.registry import Skill
from nsys_evidence.tools.run import Envelope
from nsys_evidence.tools.workspace import Workspace


def run_for_ever(
    skill: Skill, given: Mapping[str, object] | None, workspace: Workspace, interrupt: Interrupt | None = None
) -> Envelope:
    assert workspace.progress is not None
    assert interrupt is not None
    workspace.progress(0.0, "running for ever")
    if sys.argv[1] == "stubborn":
        threading.Event().wait()
    cursor = duckdb.connect(config={"threads": 1})
    with interrupt.track(cursor):
        cursor.execute("SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b").fetchall()
    raise AssertionError


if __name__ == "__main__":
    run.run_skill = run_for_ever
    here = Workspace(cast(Library, None), FileLedger(evidence_directory()))
    if sys.argv[2:] == ["http"]:
        http.limits_from_environment = lambda: Limits(calls=2)
        http.serve_http(lambda: here, Address("127.0.0.1", 0))
    else:
        serve_stdio(lambda: here)
