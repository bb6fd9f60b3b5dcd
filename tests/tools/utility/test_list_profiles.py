from __future__ import annotations

import shutil
from pathlib import Path

from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Capture, Kernel, Layout, write_sqlite
from nsys_evidence.tools.workspace import Workspace
from tests.support import MemoryLedger, ask, rows_of


def capture(kernels: int) -> Capture:
    return Capture(
        kernels=[Kernel(10**9 + i, 10**9 + 2_000_000 + i, i % 2, 1, 7, i, 101, "void k()") for i in range(kernels)]
    )


def with_cache(directory: Path) -> Workspace:
    return Workspace(Library(cache=directory / "cache"), MemoryLedger())


def test_a_fresh_cache_is_empty_and_nothing_is_created_by_looking(tmp_path: Path) -> None:
    envelope = ask("list_profiles", within=with_cache(tmp_path))
    assert (envelope["status"], envelope["rows"]) == ("empty", [])
    assert envelope["totals"] == {"captures": 0, "profiles": 0}
    assert list(tmp_path.iterdir()) == []


def test_captures_are_listed_by_name_with_their_size(tmp_path: Path) -> None:
    workspace = with_cache(tmp_path)
    for name, kernels in (("b", 4), ("a", 1)):
        ask("profile_info", write_sqlite(capture(kernels), tmp_path / f"{name}.sqlite"), within=workspace)
    rows = rows_of(ask("list_profiles", within=workspace))
    assert [(r["name"], r["form"], r["kernels"], r["devices"], r["span_ms"]) for r in rows] == [
        ("a.sqlite", "sqlite", 1, 1, 2.0),
        ("b.sqlite", "sqlite", 4, 2, 2.0),
    ]


def test_the_id_that_is_listed_opens_the_profile_when_the_file_is_gone(tmp_path: Path) -> None:
    workspace = with_cache(tmp_path)
    path = write_sqlite(capture(3), tmp_path / "a.sqlite")
    before = ask("top_kernels", path, within=workspace)
    path.unlink()
    [row] = rows_of(ask("list_profiles", within=workspace))
    assert row["profile"] == before["profile"]["id"]
    assert ask("top_kernels", row["profile"], within=workspace)["evidence"] == before["evidence"]


def test_the_same_capture_in_two_layouts_is_two_captures_and_one_profile(tmp_path: Path) -> None:
    workspace = with_cache(tmp_path)
    for name, layout in (("plain", Layout()), ("shuffled", Layout(shuffle=3))):
        ask("profile_info", write_sqlite(capture(9), tmp_path / f"{name}.sqlite", layout=layout), within=workspace)
    envelope = ask("list_profiles", within=workspace)
    assert envelope["totals"] == {"captures": 2, "profiles": 1}
    assert len({row["profile"] for row in rows_of(envelope)}) == 1


def test_no_path_is_listed(tmp_path: Path) -> None:
    workspace = with_cache(tmp_path)
    folder = tmp_path / "private"
    folder.mkdir()
    ask("profile_info", write_sqlite(capture(1), folder / "a.sqlite"), within=workspace)
    assert "private" not in str(ask("list_profiles", within=workspace))


def test_a_profile_that_left_the_cache_is_no_longer_listed(tmp_path: Path) -> None:
    workspace = with_cache(tmp_path)
    ask("profile_info", write_sqlite(capture(1), tmp_path / "a.sqlite"), within=workspace)
    [row] = rows_of(ask("list_profiles", within=workspace))
    shutil.rmtree(workspace.library.cache.profile_directory(row["profile"]))
    assert ask("list_profiles", within=workspace)["rows"] == []


def test_pages_cover_all_captures_and_totals_stay(tmp_path: Path) -> None:
    workspace = with_cache(tmp_path)
    for number in range(3):
        ask("profile_info", write_sqlite(capture(number + 1), tmp_path / f"{number}.sqlite"), within=workspace)
    first = ask("list_profiles", within=workspace, max_rows=2)
    last = ask("list_profiles", within=workspace, max_rows=2, offset=first["truncation"]["next_offset"])
    assert [row["name"] for row in rows_of(first) + rows_of(last)] == ["0.sqlite", "1.sqlite", "2.sqlite"]
    assert first["totals"] == last["totals"] == {"captures": 3, "profiles": 3}
