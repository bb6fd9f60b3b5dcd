"""The cache can be listed, kept small and cleared."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from nsys_evidence.ingest.cache import Cache, default_cache
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Kernel, write_sqlite
from nsys_evidence.ingest.tables import FORMAT_VERSION
from tests.ingest.caching import DEMO, SMALL, files, kernels, opened


@pytest.fixture
def three(directory: Path, tmp_path: Path) -> tuple[Library, list[str]]:
    """A library of three profiles, of which the second was used longest ago and the first last."""
    library = Library(cache=directory)
    ids = []
    for number, used in enumerate((3_000, 1_000, 2_000)):
        capture = replace(SMALL, kernels=[Kernel(100, 200 + number, 0, 1, 7, 1, 42, "k()")])
        ids.append(library.open(str(write_sqlite(capture, tmp_path / f"{number}.sqlite"))).id)
        os.utime(library.cache.profile_directory(ids[-1]), (used, used))
    return library, ids


def test_the_cache_lists_what_it_holds_the_least_recently_used_first(three: tuple[Library, list[str]]) -> None:
    library, (first, second, third) = three
    entries = library.cache.entries()
    assert [(entry.profile_id, entry.last_used) for entry in entries] == [(second, 1000), (third, 2000), (first, 3000)]
    for entry in entries:
        directory = library.cache.profile_directory(entry.profile_id)
        assert entry.size_bytes == sum(file.stat().st_size for file in directory.iterdir())


def test_pruning_removes_what_was_used_longest_ago_until_the_rest_fits(
    three: tuple[Library, list[str]], tmp_path: Path
) -> None:
    library, (first, second, third) = three
    size = sum(entry.size_bytes for entry in library.cache.entries())
    assert library.cache.prune(size) == []
    assert [entry.profile_id for entry in library.cache.prune(size - 1)] == [second]
    assert [source.name for source in library.sources()] == ["0.sqlite", "2.sqlite"]
    assert [entry.profile_id for entry in library.cache.prune(0, keep=third)] == [first]
    assert [entry.profile_id for entry in library.cache.prune(0)] == [third]
    assert library.sources() == []
    profile, steps = opened(library, tmp_path / "1.sqlite")
    assert (profile.id, steps > 5) == (second, True)
    assert kernels(profile) == [(100, 201)]


def test_opening_counts_as_use(three: tuple[Library, list[str]], tmp_path: Path) -> None:
    library, (first, second, third) = three
    library.open(str(tmp_path / "1.sqlite"))
    assert [entry.profile_id for entry in library.cache.entries()] == [third, first, second]
    os.utime(
        library.cache.profile_directory(second), (4_000, 4_000)
    )  # a clock may not tell two openings in a row apart
    library.open(third)
    assert [entry.profile_id for entry in library.cache.entries()] == [first, second, third]


def test_an_ingest_keeps_the_cache_below_its_cap(
    three: tuple[Library, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cache.prune, "__defaults__", (0, None))
    library = Library(cache=three[0].cache.directory)  # as another process begins
    profile = library.open(str(write_sqlite(DEMO, tmp_path / "demo.sqlite")))
    assert [entry.profile_id for entry in library.cache.entries()] == [profile.id]
    assert profile.manifest.rows["kernels"] > 0


def test_profiles_are_listed_again_only_when_the_room_that_was_left_may_be_full(
    three: tuple[Library, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, ids = three
    size = sum(entry.size_bytes for entry in library.cache.entries())
    monkeypatch.setattr("nsys_evidence.ingest.cache.SIZE_CAP", size + 8 * 2**20)  # a megabyte for each of eight
    monkeypatch.setattr(Cache.prune, "__defaults__", (size + 8 * 2**20, None))
    assert library.cache.prune() == []
    manifest = library.open(ids[0]).manifest
    listed: list[str | None] = []
    monkeypatch.setattr(Cache, "prune", lambda _, keep=None: listed.append(keep))
    files = sum(manifest.files.values())
    for _ in range(2**20 // files + 1):
        assert listed == []
        library.cache.make_room(manifest)
    assert listed == [manifest.profile_id]


def test_clearing_removes_every_format_and_nothing_else(three: tuple[Library, list[str]], tmp_path: Path) -> None:
    library, _ = three
    directory = library.cache.directory
    for other in ("v0/profiles", "evidence", "vault"):
        (directory / other).mkdir(parents=True)
        (directory / other / "file").write_text("x")
    library.cache.clear()
    assert files(directory) == ["evidence/file", f"v{FORMAT_VERSION}/staging", "vault/file"]
    assert opened(library, tmp_path / "0.sqlite")[1] > 5


def test_clearing_leaves_a_running_ingest_alone(directory: Path, capture: Path) -> None:
    def clear(share: float, words: str) -> None:
        Cache(directory).clear()

    profile = Library(cache=directory).open(str(capture), progress=clear)
    assert profile.name == capture.name


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_CACHE", str(tmp_path / "chosen"))
    assert default_cache() == Library().cache.directory == tmp_path / "chosen"


@pytest.mark.parametrize("unset", [True, False])
def test_without_a_word_from_the_environment_the_cache_is_the_users_own(
    monkeypatch: pytest.MonkeyPatch, unset: bool
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_CACHE", "")
    if unset:
        monkeypatch.delenv("NSYS_EVIDENCE_CACHE")
    assert default_cache() == platformdirs.user_cache_path("nsys-evidence")
