"""Section 1.9: files are only read, damage is called damage, and size is no reason to hang or to flood."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.nesting import enclosing, stacks
from nsys_evidence.ingest.synthetic import Capture, Kernel
from nsys_evidence.tools.workspace import Workspace
from tests.pitfalls.asking import ABOUT_PROFILES, answer, arguments, as_recorded, small
from tests.support import MemoryLedger, ask, written

LARGEST = 64_000
"""Bytes of the largest default result that any skill may give; what a client shows whole."""


def test_no_skill_changes_or_leaves_anything_where_the_capture_lies(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    path = folder / "capture.sqlite"
    shutil.copy(small(), path)
    before = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, os.listdir(folder))
    workspace = Workspace(Library(cache=tmp_path / "cache"), MemoryLedger())
    for name, skill in ABOUT_PROFILES.items():
        ask(name, path, within=workspace, **arguments(skill))
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns, os.listdir(folder)) == before


def test_a_path_without_a_file_makes_none(tmp_path: Path) -> None:
    missing = tmp_path / "folder" / "missing.sqlite"
    for skill in ABOUT_PROFILES.values():
        assert answer(skill, missing) is ErrorCode.PROFILE_NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_a_capture_cut_anywhere_is_damaged_for_every_skill_and_never_answered_from(tmp_path: Path) -> None:
    content = small().read_bytes()
    for share in (0.3, 0.9):
        path = tmp_path / f"cut-{share}.sqlite"
        path.write_bytes(content[: int(len(content) * share)])
        for name in ("doctor", "profile_info", "top_kernels", "schema_inspect", "profile_health_manifest"):
            found = answer(ABOUT_PROFILES[name], path)
            if isinstance(found, ErrorCode):
                assert found is ErrorCode.PROFILE_CORRUPT, (name, share)
            else:  # the doctor says what is wrong instead of failing
                assert name == "doctor", share
                assert "fail" in str(found["rows"]), share


def test_nothing_is_fetched_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    workspace = Workspace(Library(cache=tmp_path / "cache"), MemoryLedger())
    assert ask("top_kernels", small(), within=workspace) == as_recorded()["top_kernels"]
    settings = dict(
        workspace.library.open(str(small()))
        .cursor()
        .execute("SELECT name, value FROM duckdb_settings() WHERE name LIKE 'auto%known_extensions'")
        .fetchall()
    )
    assert settings == {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def test_a_million_ranges_nest_in_linear_space_and_in_seconds() -> None:
    """A tower of 500 000 ranges inside a comb of as many, with a launch in each."""
    half = 500_000
    start = np.concatenate([np.arange(half), half + 2 * np.arange(half)]).astype(np.int64)
    end = np.concatenate([10 * half - np.arange(half), half + 2 * np.arange(half) + 1]).astype(np.int64)
    parents = enclosing(end)
    assert parents[half - 1] == half - 2
    assert (parents[half:] == half - 1).all()
    shallow = slice(half, None)
    alone = enclosing(end[shallow])
    found = stacks(start[shallow], end[shallow], alone, start[shallow], end[shallow])
    assert len(np.unique(found.node)) == half


def test_no_default_result_floods_the_reader_however_many_kernels_there_are() -> None:
    name = "void some_namespace::kernel_{}<" + "std::array<float, (unsigned long)4>, " * 80 + ">(int)"
    kernels = [
        Kernel(10**9 + n * 5_000, 10**9 + n * 5_000 + 4_000, 0, 1, 7 + n % 30, n, 42, name.format(n % 300))
        for n in range(1_200)
    ]
    path = written(Capture(kernels=kernels))
    for skill in ABOUT_PROFILES.values():
        found = answer(skill, path)
        assert not isinstance(found, ErrorCode)
        assert len(dump_json(found)) <= LARGEST, skill.name
        assert len(dump_json(found)) <= skill.max_bytes + 1_000, skill.name
        if found["truncation"]:
            assert found["truncation"]["total_rows"] > found["truncation"]["shown_rows"], skill.name


def test_an_error_names_the_file_that_was_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "empty-one.sqlite"
    path.touch()
    with pytest.raises(EvidenceError) as caught:
        ask("top_kernels", path)
    assert "empty-one.sqlite" in caught.value.message
