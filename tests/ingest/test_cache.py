"""Each capture is ingested once and known again by its content; a damaged profile is never read."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest import library as library_module
from nsys_evidence.ingest.cache import PROFILE_FILES
from nsys_evidence.ingest.integrity import SUMS
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Kernel, Layout, write_sqlite
from nsys_evidence.ingest.tables import FORMAT_VERSION, TABLES
from tests.ingest.caching import OTHER, SMALL, files, kernels, opened, whole


def test_nothing_is_written_before_something_is_ingested(directory: Path) -> None:
    library = Library(cache=directory)
    assert library.sources() == []
    assert library.cache.entries() == library.cache.prune() == []
    library.cache.clear()
    assert not directory.exists()


def test_a_second_look_does_not_ingest(directory: Path, capture: Path) -> None:
    library = Library(cache=directory)
    first, steps = opened(library, capture)
    assert steps > 5
    before, staged = files(directory), (directory / f"v{FORMAT_VERSION}" / "staging").stat().st_mtime_ns
    again, steps = opened(library, capture)
    assert (again, steps) == (first, 0)
    another, steps = opened(Library(cache=directory), capture)
    assert (another.id, another.manifest, steps) == (first.id, first.manifest, 0)
    assert files(directory) == before
    assert (directory / f"v{FORMAT_VERSION}" / "staging").stat().st_mtime_ns == staged


def test_progress_grows_to_one_and_says_what_is_done(directory: Path, capture: Path) -> None:
    said: list[tuple[float, str]] = []
    Library(cache=directory).open(str(capture), progress=lambda share, words: said.append((share, words)))
    shares = [share for share, _ in said]
    assert shares == sorted(shares)
    assert (shares[0], said[-1]) == (0.0, (1.0, "ready"))
    assert all(words and len(words) < 100 for _, words in said)


def test_a_copied_or_moved_capture_is_not_ingested_again(directory: Path, capture: Path, tmp_path: Path) -> None:
    library = Library(cache=directory)
    first, _ = opened(library, capture)
    copy = Path(shutil.copy(capture, tmp_path / "copy of a.sqlite"))
    second, steps = opened(library, copy)
    assert (second.id, second.name, steps) == (first.id, "copy of a.sqlite", 0)
    moved = capture.rename(tmp_path / "moved")
    third, steps = opened(Library(cache=directory), moved)
    assert (third.id, third.name, steps) == (first.id, "moved", 0)


def test_a_capture_stored_otherwise_is_ingested_and_becomes_the_same_profile(directory: Path, tmp_path: Path) -> None:
    library = Library(cache=directory)
    first, _ = opened(library, write_sqlite(SMALL, tmp_path / "a.sqlite"))
    second, steps = opened(library, write_sqlite(SMALL, tmp_path / "b.sqlite", layout=Layout(empty_tables=True)))
    assert second.id == first.id
    assert steps > 5
    assert len(library.cache.entries()) == 1
    assert [source.name for source in library.sources()] == ["a.sqlite", "b.sqlite"]
    assert second.source.tables != first.source.tables


def test_two_captures_of_one_name_and_profile_keep_their_own_descriptions(directory: Path, tmp_path: Path) -> None:
    library = Library(cache=directory)
    for place, layout in (("one", Layout()), ("two", Layout(empty_tables=True))):
        (tmp_path / place).mkdir()
        write_sqlite(SMALL, tmp_path / place / "a.sqlite", layout=layout)
    first, second = (library.open(str(tmp_path / place / "a.sqlite")) for place in ("one", "two"))
    assert first.id == second.id
    assert len(second.source.tables) > len(first.source.tables)


@pytest.mark.parametrize("settled", [True, False])
def test_a_changed_capture_is_ingested_again_also_with_the_size_and_time_of_before(
    directory: Path, tmp_path: Path, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "_SETTLED_S", -1e9 if settled else 1e9)
    library = Library(cache=directory)
    path = write_sqlite(SMALL, tmp_path / "a.sqlite")
    first, _ = opened(library, path)
    before = path.stat()
    changed = write_sqlite(OTHER, tmp_path / "b.sqlite").read_bytes()
    assert len(changed) == before.st_size
    path.write_bytes(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second, steps = opened(library, path)
    assert (second.id == first.id, steps > 5) == (False, True)
    assert (kernels(first), kernels(second)) == ([(100, 200)], [(100, 201)])
    write_sqlite(SMALL, path)
    third, steps = opened(library, path)
    assert (third.id, steps) == (first.id, 0)


class Counting(Interrupt):
    """Counts the blocks that are read to know a capture's content."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0

    def check(self) -> None:
        self.checks += 1


def test_a_capture_that_has_settled_is_not_read_to_be_known_again(
    directory: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(cache=directory)

    def blocks_read() -> int:
        interrupt = Counting()
        library.open(str(capture), interrupt)
        return interrupt.checks

    monkeypatch.setattr(library_module, "_SETTLED_S", 1e9)
    assert blocks_read() > 5
    assert (blocks_read(), blocks_read()) == (1, 1)  # it may still change within one tick of its clock
    monkeypatch.setattr(library_module, "_SETTLED_S", -1e9)
    assert (blocks_read(), blocks_read(), blocks_read()) == (1, 0, 0)


def test_a_capture_that_changes_while_it_is_read_is_in_use(directory: Path, capture: Path, tmp_path: Path) -> None:
    library = Library(cache=directory)
    changed = write_sqlite(OTHER, tmp_path / "b.sqlite").read_bytes()

    def change(share: float, words: str) -> None:
        if share > 0.9:
            capture.write_bytes(changed + b"more")

    with pytest.raises(EvidenceError) as caught:
        library.open(str(capture), progress=change)
    assert caught.value.code is ErrorCode.PROFILE_IN_USE
    assert library.cache.entries() == []
    assert library.sources() == []
    assert whole(directory)


def test_a_capture_that_changes_after_its_content_was_told_is_in_use(
    directory: Path, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what it became would be kept under the digest of what it was."""
    changed = write_sqlite(OTHER, tmp_path / "b.sqlite").read_bytes()
    library = Library(cache=directory)
    cached = library._cached

    def then_change(digest: str, interrupt: Interrupt) -> object:
        found = cached(digest, interrupt)
        capture.write_bytes(changed)
        return found

    monkeypatch.setattr(library, "_cached", then_change)
    with pytest.raises(EvidenceError) as caught:
        library.open(str(capture))
    assert caught.value.code is ErrorCode.PROFILE_IN_USE
    assert library.sources() == []


def test_a_capture_that_vanishes_while_it_is_read_is_not_found(directory: Path, capture: Path) -> None:
    with pytest.raises(EvidenceError) as caught:
        Library(cache=directory).open(str(capture), progress=lambda share, words: capture.unlink(missing_ok=True))
    assert caught.value.code is ErrorCode.PROFILE_NOT_FOUND
    assert whole(directory)


def test_a_profile_is_opened_by_its_id(directory: Path, capture: Path) -> None:
    profile = Library(cache=directory).open(str(capture))
    again = Library(cache=directory).open(profile.id)
    assert (again.id, again.name, again.manifest) == (profile.id, "a.sqlite", profile.manifest)
    assert kernels(again) == [(100, 200)]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a table is missing": lambda d: (d / "kernels.parquet").unlink(),
    "a table is cut short": lambda d: os.truncate(d / "nvtx_ranges.parquet", 40),
    "a table is empty": lambda d: (d / "strings.parquet").write_bytes(b""),
    "the manifest is missing": lambda d: (d / "manifest.json").unlink(),
    "the manifest is cut short": lambda d: os.truncate(d / "manifest.json", 100),
    "the manifest is something else": lambda d: (d / "manifest.json").write_text("[]"),
    "the manifest is of another profile": lambda d: (d / "manifest.json").write_text(
        (d / "manifest.json").read_text().replace("p-", "q-")
    ),
    "everything is gone": shutil.rmtree,
}


def flip(path: Path, place: int) -> None:
    """Change one bit of a file, whose size and time of change stay."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_profile_is_never_read_and_ingested_again(directory: Path, capture: Path, damage: str) -> None:
    profile = Library(cache=directory).open(str(capture))
    before = {table: (profile.directory / f"{table}.parquet").read_bytes() for table in TABLES}
    DAMAGE[damage](profile.directory)
    library = Library(cache=directory)
    assert library.sources() == []
    with pytest.raises(EvidenceError):
        library.open(profile.id)
    again, steps = opened(library, capture)
    assert (again.id, steps > 5) == (profile.id, True)
    assert {table: (again.directory / f"{table}.parquet").read_bytes() for table in TABLES} == before
    assert whole(directory)


@given(share=st.floats(0, 1, exclude_max=True), which=st.integers(0, len(PROFILE_FILES)))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_bit_anywhere_in_a_profile_is_found_and_the_profile_made_again(
    directory: Path, capture: Path, share: float, which: int
) -> None:
    profile = Library(cache=directory).open(str(capture))
    path = profile.directory / [*PROFILE_FILES, SUMS][which]
    before = path.read_bytes()
    flip(path, int(share * len(before)))
    again, steps = opened(Library(cache=directory), capture)
    assert (again.id, steps > 5, path.read_bytes()) == (profile.id, True, before)


@pytest.mark.parametrize("kept", [0, 1, -1])
def test_a_profile_without_all_its_digests_is_made_again(directory: Path, capture: Path, kept: int) -> None:
    sums = Library(cache=directory).open(str(capture)).directory / SUMS
    before = sums.read_text()
    sums.write_text("".join(before.splitlines(keepends=True)[:kept]))
    assert opened(Library(cache=directory), capture)[1] > 5
    assert sums.read_text() == before


@pytest.mark.parametrize("name", [*PROFILE_FILES, SUMS])
def test_a_profile_that_lacks_a_file_is_made_again(directory: Path, capture: Path, name: str) -> None:
    profile = Library(cache=directory).open(str(capture))
    (profile.directory / name).unlink()
    again, steps = opened(Library(cache=directory), capture)
    assert (again.id, steps > 5, (profile.directory / name).is_file()) == (profile.id, True, True)


def test_a_table_that_changes_under_a_running_process_is_found(directory: Path, capture: Path) -> None:
    library = Library(cache=directory)
    profile = library.open(str(capture))
    assert kernels(profile) == [(100, 200)]
    assert opened(library, capture)[1] == 0
    content = bytearray((profile.directory / "kernels.parquet").read_bytes())
    content[10] ^= 1
    (profile.directory / "kernels.parquet").write_bytes(content)
    again, steps = opened(library, capture)
    assert (again.id, steps > 5, kernels(again)) == (profile.id, True, [(100, 200)])


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_bit_in_the_record_of_a_source_is_found(directory: Path, capture: Path, share: float) -> None:
    source = Library(cache=directory).open(str(capture)).source
    [record] = (directory / f"v{FORMAT_VERSION}" / "sources").glob("*.json")
    flip(record, int(share * record.stat().st_size))
    assert Library(cache=directory).open(str(capture)).source == source


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"tables": [1]}'])
def test_a_damaged_record_of_a_source_means_that_it_is_ingested_again(
    directory: Path, capture: Path, text: str
) -> None:
    Library(cache=directory).open(str(capture))
    for folder in ("sources", "seen"):
        for record in (directory / f"v{FORMAT_VERSION}" / folder).glob("*.json"):
            record.write_text(text)
    library = Library(cache=directory)
    assert library.sources() == []
    assert opened(library, capture)[1] > 5
    assert len(library.sources()) == 1


def test_a_library_holds_few_profiles_open_and_those_in_use_stay_usable(directory: Path, tmp_path: Path) -> None:
    library = Library(cache=directory)
    paths = []
    for number in range(10):
        capture = replace(SMALL, kernels=[Kernel(100, 200 + number, 0, 1, 7, 1, 42, "k()")])
        paths.append(write_sqlite(capture, tmp_path / f"{number}.sqlite"))
    profiles = [library.open(str(path)) for path in paths]
    assert [kernels(profile) for profile in profiles] == [[(100, 200 + number)] for number in range(10)]
    assert library.open(str(paths[9])) is profiles[9]
    assert library.open(str(paths[0])) is not profiles[0]


def test_a_profile_that_is_evicted_while_it_is_open_is_an_error_that_helps(directory: Path, capture: Path) -> None:
    library = Library(cache=directory)
    for damage in (library.cache.clear, lambda: library.cache.prune(0)):
        profile = library.open(str(capture))
        assert kernels(profile) == [(100, 200)]
        damage()
        cursor = profile.cursor()
        with pytest.raises(EvidenceError) as caught, Interrupt().track(cursor):
            cursor.execute("SELECT sum(start) FROM kernels")
        assert caught.value.code is ErrorCode.PROFILE_NOT_FOUND
        assert kernels(library.open(str(capture))) == [(100, 200)]


def test_progress_comes_on_the_thread_that_asked(directory: Path, capture: Path) -> None:
    threads = set()
    Library(cache=directory).open(str(capture), progress=lambda share, words: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}
