"""A cache that cannot be written or is full says so; one that may only be read gives what it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.cache import Cache, default_cache
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import write_sqlite
from nsys_evidence.ingest.tables import FORMAT_VERSION
from tests.ingest.caching import DEMO, OTHER, SMALL, kernels, opened, whole


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
from nsys_evidence.ingest.cache import default_cache
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
            with pytest.raises(EvidenceError) as caught:
                library.cache.clear()
            assert caught.value.code is ErrorCode.CACHE_UNWRITABLE
            assert library.open(str(known)).id == profile.id
        assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
    finally:
        for folder in (place, *place.rglob("*/")):
            folder.chmod(0o755)
        shutil.rmtree(place)


def test_in_a_home_that_may_only_be_read_the_cache_is_among_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        home, temporary = place / "home", place / "tmp"
        home.mkdir(0o555)
        temporary.mkdir()
        temporary.chmod(0o777)
        place.chmod(0o755)
        path = write_sqlite(SMALL, place / "a.sqlite")
        for name in ("NSYS_EVIDENCE_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        with without_rights():
            library = Library()
            assert library.cache.directory == temporary / f"nsys-evidence-{os.geteuid()}"
            assert kernels(library.open(str(path))) == [(100, 200)]
            assert opened(Library(), path)[1] == 0
            library.cache.directory.chmod(0o777)  # where others may write, nothing is trusted
            assert default_cache().is_relative_to(home)
    finally:
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
