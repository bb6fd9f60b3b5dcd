"""What the tests of pitfalls share: a capture that has something of every kind, and every skill asked about it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, GraphLaunch, Range, capture_window, demo_capture
from nsys_evidence.tools.registry import Skill, all_skills
from nsys_evidence.tools.run import Envelope
from tests.support import ask, written

ABOUT_PROFILES = {name: skill for name, skill in all_skills().items() if skill.profile}
WINDOWED = {name: skill for name, skill in ABOUT_PROFILES.items() if skill.window != "none"}
TRIMMED = {name: skill for name, skill in WINDOWED.items() if "trim" in skill.scope}
ON_DEVICES = {name: skill for name, skill in WINDOWED.items() if "device" in skill.scope}

STATUSES = ("ok", "partial", "empty", "abstained")
MS = 1_000_000
EVIDENCE = re.compile(r"ev-[0-9a-z]{10}")


@cache
def small_capture() -> Capture:
    """The first three steps of the demo, with a CUDA graph traced as a whole, a loaded module and garbage collection.

    Every kind of event that a skill reads is in it.
    """
    demo = demo_capture()[0]
    steps = sorted(r.start or 0 for r in demo.ranges if r.text == "iteration 3")
    cut = steps[0]
    kept: dict[str, Any] = {
        name: [event for event in getattr(demo, name) if (event.start or 0) < cut]
        for name in ("kernels", "copies", "sets", "calls", "syncs", "ranges", "marks", "osrt_calls", "running")
    }
    kept["samples"] = [sample for sample in demo.samples if (sample.start or 0) < cut]
    pid, last = demo.processes[0].pid, max(kernel.end or 0 for kernel in kept["kernels"])
    kept["graph_launches"] = [GraphLaunch(last + MS, last + 2 * MS, 0, 1, 7, None, pid, 5)]
    kept["calls"].append(Call(last + MS, last + 3 * MS, pid, pid, "cuModuleLoadData", 90_001, driver=True))
    kept["calls"].append(Call(last + MS, last + 3 * MS, pid, pid + 1, "cudaMalloc_v3020", 90_002))
    kept["ranges"].append(Range(last + 4 * MS, last + 5 * MS, pid, pid, "gc.collect"))
    return replace(demo, **kept)


@cache
def small() -> Path:
    """The small capture as a file."""
    return written(small_capture())


def end_of(capture: Capture) -> int:
    """The end of the capture window."""
    return capture_window(capture)[1]


def arguments(skill: Skill, **given: object) -> dict[str, Any]:
    """The skill's example, and what is given."""
    return {**skill.example, **given}


def answer(skill: Skill, capture: Path | str, **given: object) -> Envelope | ErrorCode:
    """The envelope, or the code of the error. Whatever else is raised is raised here too."""
    try:
        return ask(skill.name, capture, **arguments(skill, **given))
    except EvidenceError as error:
        return error.code


def answers(capture: Path | str, **given: object) -> dict[str, Envelope | ErrorCode]:
    """What every skill about a profile says of the capture."""
    return {name: answer(skill, capture, **given) for name, skill in ABOUT_PROFILES.items()}


@cache
def as_recorded() -> dict[str, Envelope | ErrorCode]:
    """What every skill says of the small capture."""
    return answers(small())


def figures(envelope: Envelope) -> dict[str, Any]:
    """What a result says apart from where it looked, its notes, and the ids of evidence."""
    tables = {name: (table["rows"], table["totals"]) for name, table in envelope["tables"].items()}
    said = {"status": envelope["status"], "rows": envelope["rows"], "totals": envelope["totals"], "tables": tables}
    without_ids: dict[str, Any] = json.loads(EVIDENCE.sub("ev", dump_json(said)))
    return without_ids


def nameless(answered: Envelope | ErrorCode) -> str:
    """An answer as JSON, without the name of the capture's file."""
    if isinstance(answered, ErrorCode):
        return answered.value
    profile = {key: value for key, value in answered["profile"].items() if key != "name"}
    return dump_json({**answered, "profile": profile})
