"""Whatever is handed over, the answer is a code and the next command, and the library goes on working."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Capture, Kernel, Layout, Range, demo_capture, write_sqlite
from tests.parquet_export import write_parquetdir

CAPTURE = Capture(kernels=[Kernel(100, 200, 0, 1, 7, 1, 42, "k()")], ranges=[Range(1, 2, 42, 42, "r")])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sqlite(CAPTURE, tmp_path_factory.mktemp("good") / "good.sqlite")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_sqlite(demo_capture()[0], tmp_path_factory.mktemp("demo") / "demo.sqlite").read_bytes()


@pytest.fixture
def refused(library: Library, good: Path) -> Callable[[str | Path], EvidenceError]:
    """The error of a reference that cannot be opened; afterwards a good one still can."""

    def check(reference: str | Path) -> EvidenceError:
        with pytest.raises(EvidenceError) as caught:
            library.open(str(reference))
        error = caught.value
        assert error.message
        assert len(error.hint) > 20
        assert str(Path(str(reference).replace("\0", "")).parent.resolve()) not in error.to_json()
        assert "Traceback" not in error.to_json()
        assert library.open(str(good)).manifest.rows["kernels"] == 1
        return error

    return check


Refused = Callable[[str | Path], EvidenceError]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_path_without_a_file_is_not_found(refused: Refused, tmp_path: Path) -> None:
    error = refused(tmp_path / "absent.sqlite")
    assert error.code is ErrorCode.PROFILE_NOT_FOUND
    assert "absent.sqlite" in error.message
    assert refused(tmp_path / "absent" / "deeper" / "x.sqlite").code is ErrorCode.PROFILE_NOT_FOUND
    assert refused("p-00000000000000000000").code is ErrorCode.PROFILE_NOT_FOUND


def test_what_is_no_path_is_not_found(refused: Refused, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for reference in ("a\0b", "~nobody-of-this-name/x.sqlite", str(loop)):
        assert refused(reference).code is ErrorCode.PROFILE_NOT_FOUND


def test_a_path_that_the_system_refuses_is_an_error_and_no_failure(
    refused: Refused, tmp_path: Path, good: Path
) -> None:
    assert refused(tmp_path / ("x" * 300)).code is ErrorCode.PATH_NOT_ALLOWED
    assert refused(good / "inside a file").code is ErrorCode.PATH_NOT_ALLOWED


def test_an_empty_file_is_empty(refused: Refused, tmp_path: Path) -> None:
    error = refused(write(tmp_path / "run7.sqlite", b""))
    assert error.code is ErrorCode.PROFILE_EMPTY
    assert "nsys export --type sqlite --force-overwrite true run7.nsys-rep" in error.hint


def test_a_directory_is_no_capture(refused: Refused, tmp_path: Path) -> None:
    assert refused(tmp_path).code is ErrorCode.NOT_A_CAPTURE_DIRECTORY


def test_a_directory_of_captures_names_them(refused: Refused, tmp_path: Path) -> None:
    for name in ("b.sqlite", "a.nsys-rep", "notes.txt"):
        write(tmp_path / name, b"x")
    error = refused(tmp_path)
    assert error.code is ErrorCode.NOT_A_CAPTURE_DIRECTORY
    assert "a.nsys-rep, b.sqlite" in error.hint
    assert "notes" not in error.hint


def test_a_directory_of_other_parquet_files_is_no_capture(refused: Refused, tmp_path: Path) -> None:
    write(tmp_path / "sales.parquet", b"PAR1")
    error = refused(tmp_path)
    assert error.code is ErrorCode.NOT_A_CAPTURE_DIRECTORY
    assert "no table of an nsys export" in error.message
    assert refused(tmp_path / "sales.parquet").code is ErrorCode.NOT_A_CAPTURE


def test_a_parquet_export_without_its_strings_is_not_whole(refused: Refused, good: Path, tmp_path: Path) -> None:
    export = write_parquetdir(good, tmp_path / "export")
    (export / "StringIds.parquet").unlink()
    error = refused(export)
    assert error.code is ErrorCode.PROFILE_CORRUPT
    assert "StringIds.parquet" in error.message
    assert "nsys export --type parquetdir" in error.hint


@pytest.mark.parametrize("damage", ["empty", "cut short", "no Parquet", "overwritten", "a directory", "a dead link"])
@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"])
def test_a_damaged_file_of_a_parquet_export_is_named(
    refused: Refused, good: Path, tmp_path: Path, table: str, damage: str
) -> None:
    export = write_parquetdir(good, tmp_path / "export")
    file = export / f"{table}.parquet"
    content = file.read_bytes()
    file.unlink()
    if damage == "a directory":
        file.mkdir()
    elif damage == "a dead link":
        file.symlink_to(tmp_path / "nowhere")
    else:
        middle = len(content) // 2
        file.write_bytes(
            {
                "empty": b"",
                "cut short": content[:-20],
                "no Parquet": b"hello" * 100,
                "overwritten": content[:4] + b"\xff" * (middle - 4) + content[middle:],
            }[damage]
        )
    error = refused(export)
    assert error.code is ErrorCode.PROFILE_CORRUPT
    assert file.name in error.message
    assert "nsys export --type parquetdir" in error.hint


@pytest.mark.parametrize("content", [b"hello\n", b"\0" * 4096, b"SQLite format 2\0" + b"\0" * 4096, b"SQLite"])
def test_a_file_of_another_kind_is_no_capture_whatever_its_suffix(
    refused: Refused, tmp_path: Path, content: bytes
) -> None:
    assert refused(write(tmp_path / "notes.sqlite", content)).code is ErrorCode.NOT_A_CAPTURE


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("run.qdstrm", b"\x01\x02raw", "QdstrmImporter -i run.qdstrm"),
        ("run.json", b'{"a": 1}', "nsys export --type sqlite"),
        ("run.jsonl", b'{"a": 1}\n', "nsys export --type sqlite"),
        ("run.arrow", b"ARROW1\0\0", "nsys export --type sqlite"),
        ("arrow without suffix", b"ARROW1\0\0", "nsys export --type sqlite"),
        ("run.h5", b"\x89HDF\r\n", "nsys export --type sqlite"),
    ],
)
def test_a_form_that_is_not_read_names_the_command_that_makes_one_that_is(
    refused: Refused, tmp_path: Path, name: str, content: bytes, command: str
) -> None:
    error = refused(write(tmp_path / name, content))
    assert error.code is ErrorCode.UNSUPPORTED_FORMAT
    assert command in error.hint


@pytest.mark.parametrize("name", ["run.nsys-rep", "run.qdrep"])
def test_a_report_by_name_alone_is_damaged(refused: Refused, tmp_path: Path, name: str) -> None:
    assert refused(write(tmp_path / name, b"anything")).code is ErrorCode.PROFILE_CORRUPT


def test_a_file_that_is_not_to_be_ingested_is_refused_after_its_first_bytes(library: Library, tmp_path: Path) -> None:
    large = write(tmp_path / "large.nsys-rep", b"x")
    os.truncate(large, 2**42)  # a hole of 4 TiB: reading it through would take hours
    with pytest.raises(EvidenceError) as caught:
        library.open(str(large))
    assert caught.value.code is ErrorCode.PROFILE_CORRUPT


def test_an_sqlite_file_of_somebody_else_is_no_nsys_export(refused: Refused, tmp_path: Path) -> None:
    for name, table in (("a", "Users"), ("b", "StringIds"), ("c", "x_NVTX_EVENTS")):
        with closing(sqlite3.connect(tmp_path / name)) as database:
            database.execute(f"CREATE TABLE {table} (id INTEGER, value TEXT)")
        assert refused(tmp_path / name).code is ErrorCode.NOT_AN_NSYS_EXPORT
    with closing(sqlite3.connect(tmp_path / "no tables")) as database:
        database.execute("PRAGMA user_version = 1")
    assert refused(tmp_path / "no tables").code is ErrorCode.NOT_AN_NSYS_EXPORT


@pytest.mark.parametrize("kept", ["16", "99", "100", "1000", "4096", "a page less", "half", "a byte less"])
def test_a_capture_that_was_cut_short_is_corrupt(refused: Refused, tmp_path: Path, demo: bytes, kept: str) -> None:
    size = {"a page less": len(demo) - 4096, "half": len(demo) // 2, "a byte less": len(demo) - 1}
    error = refused(write(tmp_path / "cut.sqlite", demo[: size[kept] if kept in size else int(kept)]))
    assert error.code is ErrorCode.PROFILE_CORRUPT
    assert "nsys export --type sqlite" in error.hint


@pytest.mark.parametrize("place", [0.02, 0.1, 0.3, 0.5, 0.7])
def test_a_capture_with_damage_inside_is_corrupt(refused: Refused, tmp_path: Path, demo: bytes, place: float) -> None:
    pages = len(demo) // 4096
    first = max(1, int(pages * place))
    damaged = demo[: first * 4096] + b"\xff" * 4096 * (pages // 5) + demo[(first + pages // 5) * 4096 :]
    assert len(damaged) == len(demo)
    error = refused(write(tmp_path / "damaged.sqlite", damaged))
    assert error.code is ErrorCode.PROFILE_CORRUPT


def test_a_header_that_promises_what_is_not_there_is_corrupt(refused: Refused, tmp_path: Path, demo: bytes) -> None:
    grown = demo[:28] + (2**31).to_bytes(4) + demo[32:]
    assert refused(write(tmp_path / "grown.sqlite", grown)).code is ErrorCode.PROFILE_CORRUPT
    no_pages = demo[:16] + b"\0\0" + demo[18:]
    assert refused(write(tmp_path / "nopages.sqlite", no_pages)).code is ErrorCode.PROFILE_CORRUPT


def test_a_capture_that_is_being_written_is_in_use(refused: Refused, tmp_path: Path) -> None:
    live = write_sqlite(CAPTURE, tmp_path / "live.sqlite", layout=Layout(wal=True))
    error = refused(live)
    assert error.code is ErrorCode.PROFILE_IN_USE
    assert "sqlite3 live.sqlite 'PRAGMA wal_checkpoint(TRUNCATE)'" in error.hint


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_changes_beside_a_capture_that_is_known_already_are_seen_too(
    refused: Refused, library: Library, tmp_path: Path, suffix: str
) -> None:
    path = write_sqlite(CAPTURE, tmp_path / "known.sqlite")
    library.open(str(path))
    side = write(path.with_name(path.name + suffix), b"not yet in the file")
    assert refused(path).code is ErrorCode.PROFILE_IN_USE
    side.write_bytes(b"")
    assert library.open(str(path)).manifest.rows["kernels"] == 1


def test_what_is_no_file_is_refused_without_waiting_for_it(refused: Refused, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.sqlite"
    os.mkfifo(fifo)
    assert refused(fifo).code is ErrorCode.NOT_A_CAPTURE
    assert refused("/dev/null").code is ErrorCode.NOT_A_CAPTURE
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "s"))
        assert refused(tmp_path / "s").code is ErrorCode.NOT_A_CAPTURE


def test_an_export_schema_of_another_major_version_is_refused(refused: Refused, tmp_path: Path) -> None:
    path = write_sqlite(replace(CAPTURE, schema="4.0.0"), tmp_path / "four.sqlite")
    error = refused(path)
    assert error.code is ErrorCode.UNSUPPORTED_SCHEMA
    assert "4.0.0" in error.message


@pytest.mark.parametrize(("schema", "warned"), [("3.99.0", True), ("3.25.0", False), ("2.8.1", False), ("odd", False)])
def test_a_newer_minor_version_is_read_with_a_warning(
    library: Library, tmp_path: Path, schema: str, warned: bool
) -> None:
    profile = library.open(str(write_sqlite(replace(CAPTURE, schema=schema), tmp_path / "newer.sqlite")))
    assert profile.source.schema_version == schema
    assert any(f"{schema} is newer" in warning for warning in profile.source.warnings) == warned


@pytest.mark.parametrize("column", ["start", "end", "globalPid", "deviceId"])
def test_a_table_that_lacks_what_makes_an_interval_counts_as_not_recorded_and_that_is_said(
    library: Library, tmp_path: Path, column: str
) -> None:
    layout = Layout(drop_columns={"CUPTI_ACTIVITY_KIND_KERNEL": frozenset({column})})
    profile = library.open(str(write_sqlite(CAPTURE, tmp_path / "renamed.sqlite", layout=layout)))
    assert not profile.recorded("kernels")
    assert any(f"CUPTI_ACTIVITY_KIND_KERNEL lacks {column}" in warning for warning in profile.source.warnings)


@pytest.fixture
def fenced(tmp_path: Path) -> tuple[Library, Path]:
    """A library that may read one directory only, and that directory; a capture lies outside, another inside."""
    inside, outside = tmp_path / "data", tmp_path / "data-x"
    inside.mkdir()
    outside.mkdir()
    write_sqlite(CAPTURE, inside / "a.sqlite")
    write_sqlite(CAPTURE, outside / "unmentionable.sqlite")
    return Library(cache=tmp_path / "cache", roots=[inside]), inside


@pytest.mark.parametrize(
    "way",
    ["absolute", "dots", "symlink to a file", "symlink to a directory", "a name that begins alike", "home", "nowhere"],
)
def test_no_path_leads_out_of_the_roots(fenced: tuple[Library, Path], way: str) -> None:
    library, inside = fenced
    secret = inside.parent / "data-x" / "unmentionable.sqlite"
    (inside / "link.sqlite").symlink_to(secret)
    (inside / "linked").symlink_to(secret.parent)
    reference = {
        "absolute": str(secret),
        "dots": str(inside / ".." / "data-x" / "unmentionable.sqlite"),
        "symlink to a file": str(inside / "link.sqlite"),
        "symlink to a directory": str(inside / "linked" / "other.sqlite"),
        "a name that begins alike": str(inside) + "-x/unmentionable.sqlite",
        "home": "~/x.sqlite",
        "nowhere": str(inside.parent / "absent.sqlite"),
    }[way]
    with pytest.raises(EvidenceError) as caught:
        library.open(reference)
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED
    assert "--root" in caught.value.hint
    assert str(inside.parent) not in caught.value.to_json()
    if "unmentionable" not in reference:
        assert "unmentionable" not in caught.value.to_json()
    assert library.open(str(inside / "a.sqlite")).manifest.rows["kernels"] == 1


def test_a_link_inside_the_roots_and_a_root_that_is_a_link_are_fine(fenced: tuple[Library, Path]) -> None:
    library, inside = fenced
    (inside / "latest.sqlite").symlink_to("a.sqlite")
    assert library.open(str(inside / "latest.sqlite")).id == library.open(str(inside / "a.sqlite")).id
    (inside.parent / "root").symlink_to(inside)
    linked = Library(cache=library.cache.directory, roots=[inside.parent / "root"])
    assert linked.open(str(inside.parent / "root" / "a.sqlite")).id == linked.open(str(inside / "a.sqlite")).id


def test_within_roots_a_profile_id_opens_only_what_was_opened_by_its_path(fenced: tuple[Library, Path]) -> None:
    library, inside = fenced
    anywhere = Library(cache=library.cache.directory)
    outside = write_sqlite(replace(CAPTURE, ranges=[]), inside.parent / "data-x" / "b.sqlite")
    elsewhere = anywhere.open(str(outside))
    with pytest.raises(EvidenceError) as caught:
        library.open(elsewhere.id)
    assert caught.value.code is ErrorCode.PROFILE_NOT_FOUND
    profile = library.open(str(inside / "a.sqlite"))
    assert library.open(profile.id) is profile
    assert [source.profile_id for source in library.sources()] == [profile.id]
    assert len(anywhere.sources()) == 2


def test_within_roots_a_capture_goes_by_its_name_there_and_not_by_that_of_a_copy_elsewhere(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in" / "a.sqlite", tmp_path / "unmentionable.sqlite"
    inside.parent.mkdir()
    write_sqlite(CAPTURE, outside)
    shutil.copy(outside, inside)
    Library(cache=tmp_path / "cache").open(str(outside))
    fenced = Library(cache=tmp_path / "cache", roots=[inside.parent])
    profile = fenced.open(str(inside))
    assert [source.name for source in fenced.sources()] == ["a.sqlite"]
    assert fenced.open(profile.id).name == "a.sqlite"


def test_no_roots_at_all_allow_nothing(tmp_path: Path, good: Path) -> None:
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache", roots=[]).open(str(good))
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED


@pytest.mark.parametrize("name", [b"caf\xe9.sqlite", b"100%?#&.sqlite", "имя ½ 🙂".encode(), b"a\nb\x1b[2J.sqlite"])
def test_a_file_name_may_hold_any_bytes(library: Library, tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    write_sqlite(CAPTURE, tmp_path / "plain.sqlite").rename(path)
    profile = library.open(str(path))
    assert profile.manifest.rows["kernels"] == 1
    profile.name.encode()
    assert profile.name.isprintable()


def snapshot(directory: Path) -> dict[str, tuple[bytes, int, int, int]]:
    """Name, content, mode, and times of every file of a directory."""
    found = {}
    for path in directory.iterdir():
        facts = path.lstat()
        found[path.name] = (path.read_bytes(), stat.S_IMODE(facts.st_mode), facts.st_mtime_ns, facts.st_ctime_ns)
    return found


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_nothing_beside_a_capture_changes_when_it_is_read(library: Library, tmp_path: Path, journal: str) -> None:
    path = write_sqlite(CAPTURE, tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {journal}")
    assert (path.read_bytes()[18:20] == b"\2\2") == (journal == "wal")
    before = snapshot(tmp_path), tmp_path.stat().st_mtime_ns
    assert list(before[0]) == ["a.sqlite"]
    library.open(str(path))
    assert (snapshot(tmp_path), tmp_path.stat().st_mtime_ns) == before
