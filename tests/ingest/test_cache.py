"""Each capture is ingested once, by whoever comes first; nobody ever reads half a profile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest import library as library_module
from nsys_evidence.ingest.cache import Cache, default_cache
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.profile import Profile
from nsys_evidence.ingest.synthetic import Capture, Kernel, Layout, Range, demo_capture, write_sqlite
from nsys_evidence.ingest.tables import FORMAT_VERSION, TABLES

DEMO = demo_capture()[0]
SMALL = Capture(kernels=[Kernel(100, 200, 0, 1, 7, 1, 42, "k()")], ranges=[Range(1, 2, 42, 42, "r")])
OTHER = replace(SMALL, kernels=[Kernel(100, 201, 0, 1, 7, 1, 42, "k()")])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_sqlite(SMALL, tmp_path / "a.sqlite")


def opened(library: Library, path: Path | str) -> tuple[Profile, int]:
    """The profile, and how many steps of an ingest it took: none where it was there."""
    steps: list[float] = []
    profile = library.open(str(path), progress=lambda share, words: steps.append(share))
    return profile, len(steps)


def files(directory: Path) -> list[str]:
    """Every file and empty folder below a cache directory but its locks, by path."""
    found = (path for path in directory.rglob("*") if path.is_file() or not any(path.iterdir()))
    return sorted(str(path.relative_to(directory)) for path in found if path.parent.name != "locks")


def kernels(profile: Profile) -> list[tuple[int, int]]:
    cursor = profile.cursor()
    try:
        return cursor.execute('SELECT start, "end" FROM kernels ORDER BY 1, 2').fetchall()
    finally:
        cursor.close()


def whole(directory: Path) -> bool:
    """Whether there is nothing but whole profiles: none half written, nothing in staging."""
    root = directory / f"v{FORMAT_VERSION}"
    profiles = list((root / "profiles").glob("*"))
    return all(Cache(directory).manifest(p.name) for p in profiles) and not list((root / "staging").glob("*"))


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
    def blocks_read() -> int:
        interrupt = Counting()
        Library(cache=directory).open(str(capture), interrupt)
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

    def then_change(digest: str) -> object:
        found = cached(digest)
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


INGEST = """
import os, signal, sys
from pathlib import Path
from nsys_evidence.ingest.library import Library

cache, capture, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
count = 0

def progress(share, words):
    global count
    count += 1
    if count == steps:
        os.kill(os.getpid(), signal.SIGKILL)

print("opening", flush=True)
profile = Library(cache=cache).open(capture, progress=progress)
print(profile.id, count, flush=True)
"""
"""A process that ingests a capture, and is killed at a given step; 0 for never."""


def command(directory: Path, capture: Path, steps: int) -> list[str]:
    return [sys.executable, "-c", INGEST, str(directory), str(capture), str(steps)]


def test_an_ingest_that_is_killed_leaves_nothing_that_is_read(directory: Path, tmp_path: Path) -> None:
    path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    expected, steps = opened(Library(cache=tmp_path / "elsewhere"), path)
    for step in (1, steps // 2, steps - 1):
        killed = subprocess.run(command(directory, path, step), capture_output=True, text=True, check=False)
        assert (killed.returncode, killed.stdout.split()) == (-9, ["opening"])
        cache = Cache(directory)
        assert cache.entries() == []
        assert cache.sources() == []
        assert len(list((directory / f"v{FORMAT_VERSION}" / "staging").glob("*"))) == 1  # not piling up
    profile, steps_again = opened(Library(cache=directory), path)
    assert (profile.id, profile.manifest, steps_again) == (expected.id, expected.manifest, steps)
    assert whole(directory)


def test_what_a_killed_ingest_left_goes_with_the_next_pruning(directory: Path, tmp_path: Path, capture: Path) -> None:
    path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    subprocess.run(command(directory, path, 9), capture_output=True, check=False)
    assert not whole(directory)
    Library(cache=directory).open(str(capture))  # an ingest of another capture prunes too
    assert whole(directory)


def test_pruning_leaves_a_running_ingest_alone(directory: Path, capture: Path) -> None:
    def prune(share: float, words: str) -> None:
        Cache(directory).prune()

    profile = Library(cache=directory).open(str(capture), progress=prune)
    assert kernels(profile) == [(100, 200)]


def test_of_two_processes_at_once_one_ingests(directory: Path, tmp_path: Path) -> None:
    path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    others: list[subprocess.Popen[str]] = []

    def start_another(share: float, words: str) -> None:
        if not others:
            others.append(subprocess.Popen(command(directory, path, 0), stdout=subprocess.PIPE, text=True))
            assert others[0].stdout is not None
            assert others[0].stdout.readline() == "opening\n"

    profile = Library(cache=directory).open(str(path), progress=start_another)
    said, _ = others[0].communicate()
    assert said.split() == [profile.id, "0"]
    assert whole(directory)


def test_many_threads_and_libraries_at_once_share_one_ingest(directory: Path, tmp_path: Path) -> None:
    path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    shared = Library(cache=directory)
    libraries = [shared, shared, Library(cache=directory), Library(cache=directory)]
    found: list[tuple[Profile, int]] = []
    threads = [threading.Thread(target=lambda one=one: found.append(opened(one, path))) for one in libraries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({profile.id for profile, _ in found}) == 1
    assert sorted(steps > 0 for _, steps in found) == [False, False, False, True]
    assert len({id(profile) for profile, _ in found}) == 3  # one of each library


def test_sources_that_become_one_profile_at_the_same_time_do_not_hinder_each_other(
    directory: Path, tmp_path: Path
) -> None:
    paths = [write_sqlite(SMALL, tmp_path / f"{seed}.sqlite", layout=Layout(shuffle=seed)) for seed in range(4)]
    assert len({path.read_bytes() for path in paths}) == 4
    ready = threading.Barrier(len(paths))
    found: list[str] = []

    def ingest(path: Path) -> None:
        def meet(share: float, words: str) -> None:
            if words.startswith("merging"):  # the last step before it is published
                ready.wait()

        found.append(Library(cache=directory).open(str(path), progress=meet).id)

    threads = [threading.Thread(target=ingest, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert whole(directory)


def test_publishing_waits_for_whoever_publishes_the_same_profile(directory: Path, tmp_path: Path) -> None:
    """The gap between "it is not there" and the rename, widened."""
    first, second = Cache(directory), Cache(directory)
    built = Library(cache=tmp_path / "elsewhere").open(str(write_sqlite(SMALL, tmp_path / "a.sqlite")))
    order: list[str] = []
    looking, looked = first.manifest, threading.Event()

    def slow(profile_id: str) -> object:
        found = looking(profile_id)
        order.append("first looked")
        looked.set()
        other.join(0.2)  # the second one, which must not get in between
        order.append("first renames")
        return found

    first.manifest = slow  # type: ignore[assignment,method-assign]

    def publish(cache: Cache, digest: str) -> None:
        with cache.writing(digest, Interrupt()) as staging:
            shutil.copytree(built.directory, staging / "profile")
            if cache is second:
                looked.wait()
            cache.publish(staging, built.manifest)
        order.append(f"{digest} published")

    other = threading.Thread(target=publish, args=(second, "second"))
    other.start()
    publish(first, "first")
    other.join()
    assert order[:2] == ["first looked", "first renames"]
    assert set(order[2:]) == {"first published", "second published"}
    assert whole(directory)


@pytest.mark.parametrize("code", [ErrorCode.CANCELLED, ErrorCode.TIMEOUT])
def test_an_ingest_can_be_stopped_at_any_step_and_leaves_nothing(
    directory: Path, capture: Path, tmp_path: Path, code: ErrorCode
) -> None:
    _, steps = opened(Library(cache=tmp_path / "elsewhere"), capture)
    for step in range(1, steps):
        interrupt, count = Interrupt(), iter(range(1, steps + 1))

        def stop(share: float, words: str, interrupt: Interrupt = interrupt, count: Iterator[int] = count) -> None:
            if next(count) == step:  # noqa: B023 (used within this round only)
                interrupt.set(code)

        library = Library(cache=directory)
        with pytest.raises(EvidenceError) as caught:
            library.open(str(capture), interrupt, stop)
        assert caught.value.code is code
        if step < steps - 1:
            assert library.cache.entries() == []
            assert library.sources() == []
        assert whole(directory)
    assert kernels(Library(cache=directory).open(str(capture))) == [(100, 200)]


def test_a_call_that_was_stopped_before_does_not_begin(directory: Path, capture: Path) -> None:
    interrupt = Interrupt()
    interrupt.set()
    with pytest.raises(EvidenceError) as caught:
        Library(cache=directory).open(str(capture), interrupt)
    assert caught.value.code is ErrorCode.CANCELLED
    assert not directory.exists()


def test_whoever_waits_for_another_ingest_can_be_stopped(directory: Path, capture: Path) -> None:
    interrupt = Interrupt()
    errors: list[ErrorCode] = []

    def wait_for_the_lock(share: float, words: str) -> None:
        if not errors:
            threading.Timer(0.05, interrupt.set).start()
            with pytest.raises(EvidenceError) as caught:
                Library(cache=directory).open(str(capture), interrupt)
            errors.append(caught.value.code)

    profile = Library(cache=directory).open(str(capture), progress=wait_for_the_lock)
    assert errors == [ErrorCode.CANCELLED]
    assert kernels(profile) == [(100, 200)]


def test_an_ingest_that_fails_leaves_nothing(directory: Path, capture: Path) -> None:
    def fail(share: float, words: str) -> None:
        if share > 0.8:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Library(cache=directory).open(str(capture), progress=fail)
    assert whole(directory)
    assert Cache(directory).entries() == []
    assert opened(Library(cache=directory), capture)[1] > 5


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
    library.open(third)
    assert [entry.profile_id for entry in library.cache.entries()] == [first, second, third]


def test_an_ingest_keeps_the_cache_below_its_cap(
    three: tuple[Library, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _ = three
    monkeypatch.setattr(Cache.prune, "__defaults__", (0, None))
    profile = library.open(str(write_sqlite(DEMO, tmp_path / "demo.sqlite")))
    assert [entry.profile_id for entry in library.cache.entries()] == [profile.id]
    assert profile.manifest.rows["kernels"] > 0


def test_clearing_removes_every_format_and_nothing_else(three: tuple[Library, list[str]], tmp_path: Path) -> None:
    library, _ = three
    directory = library.cache.directory
    for other in ("v0/profiles", "evidence", "vault"):
        (directory / other).mkdir(parents=True)
        (directory / other / "file").write_text("x")
    library.cache.clear()
    assert files(directory) == ["evidence/file", "vault/file"]
    assert opened(library, tmp_path / "0.sqlite")[1] > 5


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_CACHE", str(tmp_path / "chosen"))
    assert default_cache() == Library().cache.directory == tmp_path / "chosen"
    for unset in ("", None):
        monkeypatch.setenv("NSYS_EVIDENCE_CACHE", unset) if unset == "" else monkeypatch.delenv("NSYS_EVIDENCE_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        assert "nsys-evidence" in str(default_cache())


def unwritable(directory: Path, capture: Path) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        Library(cache=directory).open(str(capture))
    assert "NSYS_EVIDENCE_CACHE" in caught.value.hint
    assert str(directory) not in caught.value.to_json()
    return caught.value


def test_a_cache_that_cannot_be_a_directory_is_unwritable(tmp_path: Path, capture: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        assert unwritable(place, capture).code is ErrorCode.CACHE_UNWRITABLE
        assert Library(cache=place).sources() == []
        Cache(place).clear()


@pytest.mark.parametrize("folder", ["profiles", "sources", "staging", "locks"])
def test_a_cache_whose_folder_is_a_file_is_unwritable(directory: Path, capture: Path, folder: str) -> None:
    (directory / f"v{FORMAT_VERSION}").mkdir(parents=True)
    (directory / f"v{FORMAT_VERSION}" / folder).write_text("")
    assert unwritable(directory, capture).code is ErrorCode.CACHE_UNWRITABLE


FULL = """
import resource, signal, sys
from pathlib import Path
from nsys_evidence.contracts.errors import EvidenceError
from nsys_evidence.ingest.library import Library

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    print(Library(cache=Path(sys.argv[1])).open(sys.argv[2]).id)
except EvidenceError as error:
    print(error.to_json())
"""
"""A process that may write no file of more than so many bytes, as on a disk that is full."""


@pytest.mark.parametrize("limit", [1, 500, 4_000])
def test_a_full_disk_is_said_and_leaves_nothing(directory: Path, tmp_path: Path, limit: int) -> None:
    path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    run = [sys.executable, "-c", FULL, str(directory), str(path), str(limit)]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    error = json.loads(said)
    assert error["code"] == "DISK_FULL"
    assert "cache prune" in error["hint"]
    assert whole(directory)
    assert opened(Library(cache=directory), path)[1] > 5


def test_a_small_disk_that_fills_up_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
        with pytest.raises(EvidenceError) as caught:
            Library(cache=disk / "cache").open(str(path))
        assert caught.value.code is ErrorCode.DISK_FULL
        assert whole(disk / "cache")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@contextmanager
def without_rights() -> Iterator[None]:
    """A block in which this process may not write where permissions forbid it, as root may."""
    if os.geteuid():
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_cache_that_may_only_be_read_gives_what_it_has() -> None:
    """Captures in a directory without write permission, one of them in the journal mode that leaves files beside."""
    place = Path(tempfile.mkdtemp())  # outside pytest's own directory, which other users may not enter
    place.chmod(0o755)
    try:
        known, new = (write_sqlite(c, place / name) for c, name in ((SMALL, "known.sqlite"), (OTHER, "new.sqlite")))
        header = known.read_bytes()
        known.write_bytes(header[:18] + b"\2\2" + header[20:])
        profile = Library(cache=place / "cache").open(str(known))
        folders = [place, *(path for path in place.rglob("*") if path.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
        with without_rights():
            library = Library(cache=place / "cache")
            assert library.open(str(known)).id == library.open(profile.id).id == profile.id
            assert kernels(library.open(profile.id)) == [(100, 200)]
            with pytest.raises(EvidenceError) as caught:
                library.open(str(new))
            assert caught.value.code is ErrorCode.CACHE_UNWRITABLE
        assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
    finally:
        for folder in (place, *place.rglob("*/")):
            folder.chmod(0o755)
        shutil.rmtree(place)


def test_captures_that_may_not_be_read_are_not_allowed(directory: Path) -> None:
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    try:
        path = write_sqlite(SMALL, place / "a.sqlite")
        path.chmod(0)
        with without_rights(), pytest.raises(EvidenceError) as caught:
            Library(cache=place / "cache").open(str(path))
        assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED
        assert "Permission denied" in caught.value.message
    finally:
        shutil.rmtree(place)


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
