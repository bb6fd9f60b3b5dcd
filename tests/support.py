"""What tests share: asking a skill about a capture, with every result checked against its output schema."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nsys_evidence.contracts.envelope import envelope_schema
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Capture, Layout, write_sqlite
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import Envelope, run_skill
from nsys_evidence.tools.workspace import Workspace

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Real captures and oracle files, beside the checkout where they are available; never part of the project."""

CAPTURES = sorted((SHARED / "captures").glob("*.sqlite")) if SHARED.is_dir() else []

needs_shared = pytest.mark.skipif(not CAPTURES, reason="no real captures beside the checkout")


class MemoryLedger:
    """A ledger for tests: keeps everything in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}

    def put(self, envelope: Mapping[str, Any], names: Mapping[str, str]) -> None:
        self.kept[envelope["evidence"]] = (json.loads(dump_json(envelope)), dict(names))

    def get(self, evidence: str) -> tuple[dict[str, Any], dict[str, str]] | None:
        return self.kept.get(evidence)

    def made_here(self, evidence: str) -> bool:
        return evidence in self.kept


@cache
def scratch() -> Path:
    """One temporary directory for the whole test session, gone at its end."""
    directory = Path(tempfile.mkdtemp(prefix="nsys-evidence-tests-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@cache
def workspace() -> Workspace:
    """One workspace for the whole test session, over a cache of its own."""
    return Workspace(Library(cache=scratch() / "cache"), MemoryLedger())


@cache
def _validator(name: str) -> Draft202012Validator:
    skill = all_skills()[name]
    if skill.row is None:
        return Draft202012Validator(envelope_schema(None, None, None, None))
    return Draft202012Validator(envelope_schema(name, skill.row, skill.totals, skill.tables))


def ask(
    name: str, capture: Path | str | None = None, /, *, within: Workspace | None = None, **arguments: object
) -> Envelope:
    """The envelope of a skill asked about a capture, checked against the tool's output schema."""
    given = dict(arguments) if capture is None else {"profile": str(capture), **arguments}
    envelope = run_skill(all_skills()[name], given, within or workspace())
    _validator(name).validate(json.loads(dump_json(envelope)))
    return envelope


def rows_of(envelope: Envelope, table: str | None = None) -> list[dict[str, Any]]:
    """The rows of a result as dicts."""
    part = envelope if table is None else envelope["tables"][table]
    return [dict(zip(part["columns"], row, strict=True)) for row in part["rows"]]


def written(capture: Capture, layout: Layout | None = None) -> Path:
    """The path of a generated capture, written to a fresh temporary directory."""
    directory = Path(tempfile.mkdtemp(dir=scratch()))
    return write_sqlite(capture, directory / "capture.sqlite", layout=layout or Layout())
