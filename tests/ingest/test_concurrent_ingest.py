"""Whoever comes first ingests, whoever is killed or stopped leaves nothing: nobody ever reads half a profile."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.cache import Cache
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.profile import Profile
from nsys_evidence.ingest.synthetic import Layout, write_sqlite
from nsys_evidence.ingest.tables import FORMAT_VERSION
from tests.ingest.caching import DEMO, SMALL, kernels, opened, whole

INGEST = """
import os, signal, sys
from pathlib import Path
from nsys_evidence.ingest.library import Library

cache, capture, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
count, last = 0, None

def progress(share, words):
    global count, last
    count, last = count + (words != last), words
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


def test_of_eight_processes_at_once_one_ingests_and_all_find_the_same(directory: Path, tmp_path: Path) -> None:
    path = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    others: list[subprocess.Popen[str]] = []

    def start_others(share: float, words: str) -> None:
        if others:
            return
        others.extend(
            subprocess.Popen(command(directory, path, 0), stdout=subprocess.PIPE, text=True) for _ in range(7)
        )
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "opening\n"

    profile = Library(cache=directory).open(str(path), progress=start_others)
    assert [other.communicate()[0].split() for other in others] == [[profile.id, "0"]] * 7
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
            cache.publish(staging, built.manifest, Interrupt())
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
