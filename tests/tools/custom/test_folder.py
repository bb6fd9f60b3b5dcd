"""The directory of custom skills: one file a skill, read in a fixed order, never half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.tools.custom.folder import add_skill, find_file, load_skills, names_in
from nsys_evidence.tools.custom.place import skills_directory
from tests.tools.custom.making import text_of


def put(directory: Path, file: str, text: str) -> Path:
    path = directory / file
    path.write_text(text, encoding="utf-8")
    return path


def test_skills_stand_in_the_order_of_their_names_and_wrong_files_are_left_out_and_named(tmp_path: Path) -> None:
    put(tmp_path, "1.md", text_of("SELECT 1 AS a", name="zebra"))
    put(tmp_path, "2.md", text_of("SELECT 1 AS a", name="ant"))
    put(tmp_path, "3.md", text_of("SELECT 2 AS a", name="ant"))
    put(tmp_path, "4.md", text_of("COPY kernels TO 'x'", name="writer"))
    put(tmp_path, "5.md", "no skill\n")
    put(tmp_path, "6.md", text_of("SELECT 1 AS a", name="top_kernels"))
    put(tmp_path, "notes.txt", "no skill\n")
    (tmp_path / "folder.md").mkdir()
    found = load_skills(tmp_path)
    assert list(found.skills) == ["ant", "zebra"]
    assert {name: error.facts["line"] for name, error in found.refused.items()} == {
        "3.md": 1,
        "4.md": 13,
        "5.md": 1,
        "6.md": 1,
    }
    assert {error.code for error in found.refused.values()} == {ErrorCode.SKILL_INVALID}
    assert names_in(tmp_path) == ["ant", "top_kernels", "writer", "zebra"]


def test_a_directory_that_is_not_there_has_no_skills(tmp_path: Path) -> None:
    assert load_skills(tmp_path / "none").skills == {}
    assert find_file(tmp_path / "none", "ant") is None


def test_a_skill_is_added_under_its_name_and_replaced_only_when_asked(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "skills"
    source = put(tmp_path, "x.md", text_of("SELECT 1 AS a", name="ant"))
    _, target = add_skill(source, directory)
    assert target == directory / "ant.md"
    assert target.read_bytes() == source.read_bytes()
    put(tmp_path, "x.md", text_of("SELECT 2 AS b", name="ant"))
    with pytest.raises(FileExistsError):
        add_skill(source, directory)
    assert target.read_bytes() != source.read_bytes()
    add_skill(source, directory, replace=True)
    assert target.read_bytes() == source.read_bytes()
    assert list(directory.iterdir()) == [target]


def test_a_file_that_is_wrong_is_not_added(tmp_path: Path) -> None:
    source = put(tmp_path, "x.md", text_of("SELECT 1 AS a\nFROM 'x.parquet'"))
    with pytest.raises(EvidenceError) as caught:
        add_skill(source, tmp_path / "skills")
    assert (caught.value.code, caught.value.facts["line"]) == (ErrorCode.SKILL_INVALID, 14)
    assert not (tmp_path / "skills").exists()


def test_the_directory_is_the_chosen_one_else_the_variable_else_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_SKILLS_DIR", str(tmp_path / "b"))
    assert skills_directory(tmp_path / "a") == tmp_path / "a"
    assert skills_directory() == tmp_path / "b"
    monkeypatch.delenv("NSYS_EVIDENCE_SKILLS_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in skills_directory().parents
    assert skills_directory().parts[-2:] == ("nsys-evidence", "skills")
