"""One capture in every form is one profile: same id, same bytes of every answer; where it lies, nothing is touched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.canonical import write_out
from nsys_evidence.ingest.integrity import SUMS, add_sums, digest_of
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.source import read_source
from nsys_evidence.ingest.synthetic import Capture, write_sqlite
from nsys_evidence.ingest.tables import FORMAT_VERSION
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.workspace import Workspace
from tests.ingest.caching import DEMO, OTHER, SMALL, opened
from tests.parquet_export import write_parquetdir
from tests.server.questions import example_arguments
from tests.strategies import captures
from tests.support import SHARED, MemoryLedger, needs_shared

OF_THE_SOURCE = ("profile_info", "schema_inspect", "doctor")
"""Skills that describe the file that was handed over, so that forms may differ in them."""

REAL = sorted(path.name for path in (SHARED / "captures").glob("*.sqlite"))


CITING = ("root_cause_matcher", "profile_health_manifest")
"""Skills that cite those: their figures are the same in every form, the ids of what they cite of the source are not."""


def answers(library: Library, capture: Path) -> dict[str, str]:
    """The result of every skill about a capture, as bytes of JSON, without the capture's name.

    Evidence ids of results about the source stand as the names of their skills.
    """
    ledger = MemoryLedger()
    workspace = Workspace(library, ledger)
    found = {}
    for name, skill in all_skills().items():
        if skill.profile and name not in OF_THE_SOURCE:
            envelope = run_skill(skill, example_arguments(skill, str(capture), ""), workspace)
            found[name] = dump_json({**envelope, "profile": envelope["profile"]["id"]})
    for evidence, (envelope, _) in ledger.kept.items():
        if envelope["skill"] in (*OF_THE_SOURCE, *CITING):
            for name in CITING:
                found[name] = found[name].replace(evidence, envelope["skill"])
    return found


OF_THE_SOURCE_FILES = ("source.json", SUMS)


def same(place: Path, one: Path, other: Path) -> None:
    """Fail unless two captures, each ingested for itself, are one profile to the byte, and every answer the same."""
    first, second = Library(cache=place / "first"), Library(cache=place / "second")
    profiles = first.open(str(one)), second.open(str(other))
    assert profiles[0].id == profiles[1].id
    for path in profiles[0].directory.iterdir():
        if path.name not in OF_THE_SOURCE_FILES:
            assert path.read_bytes() == (profiles[1].directory / path.name).read_bytes(), path.name
    assert answers(first, one) == answers(second, other)
    for library in (first, second):
        library.cache.clear()


@needs_shared
@pytest.mark.parametrize("name", REAL)
def test_every_real_capture_gives_the_same_answers_as_a_parquet_export(name: str, tmp_path: Path) -> None:
    capture = SHARED / "captures" / name
    for seed in (None, 1):
        same(tmp_path, capture, write_parquetdir(capture, tmp_path / f"export-{seed}", seed))


@needs_shared
def test_the_real_parquet_export_gives_the_same_answers_as_its_sqlite_twin(tmp_path: Path) -> None:
    capture = SHARED / "captures" / "cpu_nvtx_osrt-2023.4.4.sqlite"
    same(tmp_path, capture, capture.with_suffix(".parquetdir"))


def test_the_demo_gives_the_same_answers_in_every_form_that_is_read_without_nsys(tmp_path: Path) -> None:
    capture = write_sqlite(DEMO, tmp_path / "demo.sqlite")
    library = Library(cache=tmp_path / "cache")
    same(tmp_path, capture, write_parquetdir(capture, tmp_path / "any name"))
    write_out(library.open(str(capture)).directory, tmp_path / "laptop")
    elsewhere = Library(cache=tmp_path / "elsewhere")
    assert answers(elsewhere, tmp_path / "laptop") == answers(library, capture)


@given(capture=captures(), seed=st.integers(0, 2**16))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_any_capture_is_the_same_profile_as_a_parquet_export_of_it(
    tmp_path_factory: pytest.TempPathFactory, capture: Capture, seed: int
) -> None:
    place = tmp_path_factory.mktemp("any")
    path = write_sqlite(capture, place / "a.sqlite")
    export = write_parquetdir(path, place / "export", seed)
    first, second = (Library(cache=place / p.stem).open(str(p)) for p in (path, export))
    assert first.id == second.id
    for file in first.directory.iterdir():
        if file.name not in OF_THE_SOURCE_FILES:
            assert file.read_bytes() == (second.directory / file.name).read_bytes(), file.name
    shutil.rmtree(place)


def as_sqlite(capture: Capture, path: Path) -> Path:
    return write_sqlite(capture, path)


def as_parquetdir(capture: Capture, path: Path) -> Path:
    source = write_sqlite(capture, path.parent.parent / "source.sqlite")
    export = write_parquetdir(source, path)
    source.unlink()
    return export


def as_canonical(capture: Capture, path: Path) -> Path:
    source = write_sqlite(capture, path.parent.parent / "source.sqlite")
    library = Library(cache=path.parent.parent / "cache of its own")
    write_out(library.open(str(source)).directory, path)
    source.unlink()
    return path


FORMS: dict[str, Callable[[Capture, Path], Path]] = {
    "sqlite": as_sqlite,
    "parquetdir": as_parquetdir,
    "canonical": as_canonical,
}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_where_a_capture_lies_nothing_changes(form: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    capture = FORMS[form](DEMO, place / "capture")

    def state() -> dict[Path, tuple[int, int, int, bytes]]:
        found = {}
        for path in (place, *place.rglob("*")):
            seen = path.stat()
            content = path.read_bytes() if path.is_file() else b""
            found[path] = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, content)
        return found

    before = state()
    answers(Library(cache=tmp_path / "cache"), capture)
    assert state() == before


def test_a_capture_is_known_again_moved_copied_and_changed(form: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    library = Library(cache=tmp_path / "cache")
    capture = FORMS[form](SMALL, tmp_path / "a" / "capture")
    first, steps = opened(library, capture)
    assert (steps > 0, opened(library, capture)[1]) == (True, 0)
    moved = tmp_path / "moved"
    capture.rename(moved)
    (shutil.copytree if moved.is_dir() else shutil.copyfile)(moved, tmp_path / "copied")
    for path in (moved, tmp_path / "copied"):
        again, steps = opened(library, path)
        assert (again.id, again.name, steps) == (first.id, path.name, 0)
    (tmp_path / "b").mkdir()
    changed = FORMS[form](OTHER, tmp_path / "b" / "capture")
    (shutil.rmtree if moved.is_dir() else os.unlink)(moved)
    changed.rename(moved)
    third, steps = opened(library, moved)
    assert (third.id != first.id, steps > 0) == (True, True)


def test_the_form_of_the_source_is_said(form: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    capture = FORMS[form](SMALL, tmp_path / "a" / "capture")
    assert Library(cache=tmp_path / "cache").open(str(capture)).source.form == form


@pytest.mark.parametrize(
    ("form", "member"),
    [("parquetdir", "StringIds.parquet"), ("parquetdir", "CUPTI_ACTIVITY_KIND_KERNEL.parquet")]
    + [("canonical", name) for name in ("kernels.parquet", "manifest.json", "source.json", SUMS)],
)
def test_a_file_of_a_directory_that_leads_out_of_the_roots_is_not_read(form: str, member: str, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    capture = FORMS[form](SMALL, root / "capture")
    (capture / member).rename(outside)
    (capture / member).symlink_to(outside)
    assert Library(cache=tmp_path / "cache").open(str(capture)).name == "capture"
    library = Library(cache=tmp_path / "cache", roots=[root])  # also of what the cache knows
    with pytest.raises(EvidenceError) as caught:
        library.open(str(capture))
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED
    assert str(tmp_path) not in caught.value.to_json()
    assert library.sources() == []


@pytest.mark.parametrize("there", ["a file", "a directory", "nothing"])
@pytest.mark.parametrize(
    ("form", "member"),
    [
        ("parquetdir", "StringIds.parquet"),
        ("parquetdir", "NVTX_EVENTS.parquet"),
        ("canonical", "kernels.parquet"),
        ("canonical", "manifest.json"),
        ("canonical", SUMS),
        ("sqlite", "capture-wal"),
        ("sqlite", "capture-journal"),
    ],
)
def test_what_a_link_out_of_the_roots_leads_to_is_not_told(form: str, member: str, there: str, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    capture = FORMS[form](SMALL, root / "capture")
    link = (capture if capture.is_dir() else root) / member
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    if there == "a file":
        outside.write_text("x")
    elif there == "a directory":
        outside.mkdir()
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache", roots=[root]).open(str(capture))
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED
    assert caught.value.message == f"{member} of capture leads outside the directories that this server may read"


def test_a_parquet_export_to_which_a_table_is_added_while_it_is_read_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    export = FORMS["parquetdir"](DEMO, tmp_path / "a" / "export")
    table = export / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table.rename(tmp_path / "later")

    def add(share: float, words: str) -> None:
        if (tmp_path / "later").exists():
            (tmp_path / "later").rename(table)

    library = Library(cache=tmp_path / "cache")
    with pytest.raises(EvidenceError) as caught:
        library.open(str(export), progress=add)
    assert caught.value.code is ErrorCode.PROFILE_IN_USE
    assert library.open(str(export)).manifest.rows["kernels"] == len(DEMO.kernels)


@pytest.mark.parametrize(
    "column",
    [pa.array(["abc"]), pa.array([[1, 2]]), pa.array([{"a": 1}])],
    ids=["text", "list", "struct"],
)
def test_a_column_of_a_parquet_export_that_is_no_number_is_damage_and_no_failure(
    column: pa.Array[Any], tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    export = FORMS["parquetdir"](SMALL, tmp_path / "a" / "export")
    path = export / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("start"), "start", column), path)
    with pytest.raises(EvidenceError) as caught:
        Library(cache=tmp_path / "cache").open(str(export))
    assert caught.value.code is ErrorCode.PROFILE_CORRUPT
    assert path.name in caught.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300, -1e300, 2.0**63, 150.9, -0.5])
def test_a_column_of_floats_is_read_as_from_sqlite(value: float, tmp_path: Path) -> None:
    sqlite = write_sqlite(SMALL, tmp_path / "a.sqlite")
    with closing(sqlite3.connect(sqlite)) as database, database:
        database.execute("CREATE TABLE k AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
        database.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        database.execute("ALTER TABLE k RENAME TO CUPTI_ACTIVITY_KIND_KERNEL")
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = ?", [value])
    export = write_parquetdir(write_sqlite(SMALL, tmp_path / "b.sqlite"), tmp_path / "export")
    path = export / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("correlationId")
    pq.write_table(table.set_column(place, "correlationId", pa.array([value], pa.float64())), path)
    first, second = (Library(cache=tmp_path / f"{p.name}-cache").open(str(p)) for p in (sqlite, export))
    assert first.id == second.id


def test_the_string_table_is_found_however_its_name_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    export = FORMS["parquetdir"](SMALL, tmp_path / "a" / "export")
    before = Library(cache=tmp_path / "cache").open(str(export)).id
    (export / "StringIds.parquet").rename(export / "STRINGIDS.parquet")
    assert Library(cache=tmp_path / "cache").open(str(export)).id == before


def forged(directory: Path, profile_id: str) -> None:
    """Give a canonical directory another id, with digests that fit."""
    manifest = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps({**manifest, "profile_id": profile_id}))
    source = replace(read_source(directory / "source.json"), profile_id=profile_id)
    (directory / "source.json").write_text(source.to_json())
    add_sums(directory, {name: digest_of(directory / name) for name in ("manifest.json", "source.json")})


def test_a_canonical_directory_cannot_name_a_place_outside_the_cache(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    copy = FORMS["canonical"](SMALL, tmp_path / "a" / "copy")
    for profile_id in ("../../../victim", "/" + str(victim), "p-..", "p-" + "0" * 19):
        forged(copy, profile_id)
        with pytest.raises(EvidenceError) as caught:
            Library(cache=tmp_path / "cache").open(str(copy))
        assert caught.value.code is ErrorCode.PROFILE_CORRUPT
    assert (victim / "precious").read_text() == "x"


def test_a_canonical_directory_that_lies_about_its_id_changes_no_answer_about_a_capture(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    real = write_sqlite(SMALL, tmp_path / "real.sqlite")
    expected = answers(Library(cache=tmp_path / "elsewhere"), real)
    copy = FORMS["canonical"](OTHER, tmp_path / "a" / "copy")
    forged(copy, Library(cache=tmp_path / "elsewhere").open(str(real)).id)
    library = Library(cache=tmp_path / "cache")
    library.open(str(copy))
    assert answers(library, real) == expected
    library.open(str(copy))
    assert answers(library, real) == expected


def test_a_canonical_directory_with_any_damage_is_refused(tmp_path: Path) -> None:
    source = write_sqlite(SMALL, tmp_path / "a.sqlite")
    profile = Library(cache=tmp_path / "cache").open(str(source))
    for number, name in enumerate(sorted(path.name for path in profile.directory.iterdir())):
        for damage in ("changed", "gone"):
            copy = tmp_path / f"{number}-{damage}"
            write_out(profile.directory, copy)
            if damage == "gone":
                (copy / name).unlink()
            else:
                content = bytearray((copy / name).read_bytes())
                content[len(content) // 2] ^= 1
                (copy / name).write_bytes(content)
            library = Library(cache=tmp_path / "other")
            with pytest.raises(EvidenceError) as caught:
                library.open(str(copy))
            assert caught.value.code is ErrorCode.PROFILE_CORRUPT
            assert "nsys-evidence ingest CAPTURE -o DIRECTORY" in caught.value.hint
            assert library.sources() == []


def test_a_canonical_directory_of_another_format_is_not_read(tmp_path: Path) -> None:
    source = write_sqlite(SMALL, tmp_path / "a.sqlite")
    library = Library(cache=tmp_path / "cache")
    write_out(library.open(str(source)).directory, tmp_path / "copy")
    manifest = tmp_path / "copy" / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace(f'"format_version": {FORMAT_VERSION}', '"format_version": 99'))
    with pytest.raises(EvidenceError) as caught:
        library.open(str(tmp_path / "copy"))
    assert caught.value.code is ErrorCode.UNSUPPORTED_FORMAT
    assert "format 99" in caught.value.message


def test_a_profile_is_written_only_where_nothing_is(tmp_path: Path) -> None:
    profile = Library(cache=tmp_path / "cache").open(str(write_sqlite(replace(SMALL), tmp_path / "a.sqlite")))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    for target in (tmp_path / "full", tmp_path / "a.sqlite"):
        with pytest.raises(EvidenceError) as caught:
            write_out(profile.directory, target)
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "new" / "deeper"):
        write_out(profile.directory, target)
        assert Library(cache=tmp_path / "other").open(str(target)).id == profile.id
    with pytest.raises(EvidenceError) as caught:
        write_out(profile.directory, tmp_path / "a.sqlite" / "x")
    assert caught.value.code is ErrorCode.CACHE_UNWRITABLE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite", "cache", "empty", "full", "new", "other"]
