"""The fence: whatever a path looks like, what it leads to counts, and nothing is said of what lies outside."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest import library as library_module
from nsys_evidence.ingest.forms.found import Found
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.manifest import Manifest
from nsys_evidence.ingest.reader import Reader
from nsys_evidence.ingest.roots import Roots
from nsys_evidence.ingest.synthetic import Capture, Kernel, write_sqlite

SMALL = Capture(kernels=[Kernel(100, 200, 0, 1, 7, 1, 42, "k()")])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with `data`, which is allowed, and others that look like it, and a home, which are not."""
    for name in ("data", "data-evil", "DATA", "d\u0430ta", "home", "data/sub"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "a.sqlite").write_bytes(b"x")
    (tmp_path / "data" / "up").symlink_to("..")
    (tmp_path / "data" / "file.sqlite").symlink_to(tmp_path / "home" / "a.sqlite")
    (tmp_path / "data" / "absent.sqlite").symlink_to(tmp_path / "home" / "none.sqlite")
    (tmp_path / "data" / "chain").symlink_to("up")
    (tmp_path / "outloop").symlink_to("outloop")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path


OUTSIDE = [
    "{0}",
    "{0}/",
    "{0}/data/..",
    "{0}/data/../home/a.sqlite",
    "{0}/data/sub/../../home/a.sqlite",
    "{0}/data/none/../../home/a.sqlite",
    "{0}/data/up/home/a.sqlite",
    "{0}/data/sub/../up/data-evil/a.sqlite",
    "{0}/data/chain/home/a.sqlite",
    "{0}/data/file.sqlite",
    "{0}/data/file.sqlite/",
    "{0}/data/file.sqlite/..",
    "{0}/data/absent.sqlite",
    "{0}/data-evil/a.sqlite",
    "{0}/data-evil",
    "{0}/d\u0430ta/a.sqlite",
    "{0}/outloop",
    "{0}/outloop/x",
    "{0}/" + "n" * 300,
    "{0}/" + "n/" * 4000 + "a.sqlite",
    "/proc/self/root{0}/home/a.sqlite",
    "/proc/self/cwd/a.sqlite",
    "/proc/self/environ",
    "/dev/stdin",
    "//{0}/home/a.sqlite",
    "a.sqlite",
    "./a.sqlite",
    "data/../a.sqlite",
    ".",
    "~",
    "~/a.sqlite",
    "~root/a.sqlite",
    "~nobody-of-this-name/a.sqlite",
    "$HOME/a.sqlite",
    "file://{0}/data/a.sqlite",
    "{0}/data\\..\\home",
    " {0}/data/a.sqlite",
]


@pytest.mark.parametrize("reference", OUTSIDE)
def test_what_leads_outside_is_refused_in_words_that_tell_nothing(place: Path, reference: str) -> None:
    given = reference.format(place)
    with pytest.raises(EvidenceError) as caught:
        Roots([place / "data"]).resolve(given)
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED
    name = Path(given).name
    assert caught.value.message.endswith("is outside the directories that this server may read")
    assert str(place) not in caught.value.to_json()
    assert len(caught.value.message) <= 600
    assert name[:20] in caught.value.message


@pytest.mark.parametrize("reference", ["", "a\0b", "{0}/data/a.sqlite\0", "{0}/data/\ud800"])
def test_what_can_be_no_path_is_not_found(place: Path, reference: str) -> None:
    given = reference.format(place)
    with pytest.raises(EvidenceError) as caught:
        Roots([place / "data"]).resolve(given)
    assert caught.value.code is ErrorCode.PROFILE_NOT_FOUND


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("{0}/data/a.sqlite", "data/a.sqlite"),
        ("{0}/data/a.sqlite/", "data/a.sqlite"),
        ("{0}//data/./sub/../a.sqlite", "data/a.sqlite"),
        ("{0}/data-evil/../data/a.sqlite", "data/a.sqlite"),
        ("{0}/data/up/data/sub/a.sqlite", "data/sub/a.sqlite"),
        ("../data/a.sqlite", "data/a.sqlite"),
        ("~/../data/a.sqlite", "data/a.sqlite"),
        ("{0}/data/none.sqlite", "data/none.sqlite"),
        ("{0}/data", "data"),
    ],
)
def test_what_leads_inside_is_the_path_without_links(place: Path, reference: str, meant: str) -> None:
    assert Roots([place / "data"]).resolve(reference.format(place)) == Path(os.path.realpath(place)) / meant


def test_without_roots_any_path_will_do(place: Path) -> None:
    assert Roots(None).resolve("a.sqlite") == Path(os.path.realpath(place)) / "home" / "a.sqlite"
    with pytest.raises(EvidenceError):
        Roots([]).resolve("a.sqlite")


def swap_for_link(inside: Path, outside: Path) -> None:
    inside.unlink()
    inside.symlink_to(outside)


def swap_directory_for_link(inside: Path, outside: Path) -> None:
    inside.parent.rename(inside.parent.with_name("was"))
    inside.parent.symlink_to(outside.parent)


@pytest.mark.parametrize("swap", [swap_for_link, swap_directory_for_link])
def test_a_file_that_is_swapped_for_a_link_after_the_check_is_never_answered_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path, Path], None]
) -> None:
    inside, outside = tmp_path / "data" / "sub" / "a.sqlite", tmp_path / "out" / "a.sqlite"
    for path in (inside, outside):
        path.parent.mkdir(parents=True)
        write_sqlite(SMALL, path)
    library = Library(cache=tmp_path / "cache", roots=[tmp_path / "data"])
    find, swaps = library_module.find_capture, iter([swap])

    def find_late(path: Path) -> Found:
        next(swaps, lambda *_: None)(inside, outside)
        return find(path)

    monkeypatch.setattr(library_module, "find_capture", find_late)
    with pytest.raises(EvidenceError) as caught:
        library.open(str(inside))
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED
    assert library.sources() == []


def test_a_file_that_is_replaced_while_it_is_ingested_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_sqlite(SMALL, tmp_path / "a.sqlite")
    other = write_sqlite(SMALL, tmp_path / "b.sqlite")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    build = library_module.build_profile

    def build_late(reader: Reader, directory: Path, step: Callable[[float, str], None]) -> Manifest:
        other.replace(path)
        return build(reader, directory, step)

    monkeypatch.setattr(library_module, "build_profile", build_late)
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache").open(str(path), Interrupt())
    assert caught.value.code is ErrorCode.PROFILE_IN_USE
