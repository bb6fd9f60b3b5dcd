"""The directory that custom skills are kept in: one Markdown file a skill."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...contracts.errors import EvidenceError
from ..registry import Skill
from .markdown import MAX_FILE_BYTES, SkillFile, decode, invalid, parse_skill
from .skills import make_skills


@dataclass(slots=True)
class CustomSkills:
    """What a directory holds.

    Attributes:
        skills: skills by name, in the order of names.
        refused: files that are no skill, by file name, with the error of each.
    """

    skills: dict[str, Skill] = field(default_factory=dict)
    refused: dict[str, EvidenceError] = field(default_factory=dict)


def load_skills(directory: Path) -> CustomSkills:
    """The skills of a directory, which need not exist; a file that is wrong takes no other with it."""
    found = CustomSkills()
    files: dict[str, SkillFile] = {}
    for path in _paths(directory):
        try:
            file = read_skill(path)
            first = next((other for other, known in files.items() if known.name == file.name), None)
            if first is not None:
                raise invalid(f"{first} is called {file.name} too", file.name_line, "give each skill its own name")
            files[path.name] = file
        except EvidenceError as error:
            found.refused[path.name] = error
    for (name, file), made in zip(files.items(), make_skills(list(files.values())), strict=True):
        if isinstance(made, EvidenceError):
            found.refused[name] = made
        else:
            found.skills[file.name] = made
    found.skills = dict(sorted(found.skills.items()))
    return found


def check_skill(path: Path) -> tuple[SkillFile, Skill]:
    """The skill of a file.

    Raises:
        EvidenceError: SKILL_INVALID with the line that is wrong.
    """
    file = read_skill(path)
    [made] = make_skills([file])
    if isinstance(made, EvidenceError):
        raise made
    return file, made


def read_skill(path: Path) -> SkillFile:
    """The parsed file; its SQL is not checked. Raises EvidenceError for a file that is wrong."""
    return parse_skill(decode(_bytes(path)))


def find_file(directory: Path, name: str) -> Path | None:
    """The file of the skill of this name, whether its SQL is right or not; None where there is none."""
    for path in _paths(directory):
        try:
            if read_skill(path).name == name:
                return path
        except EvidenceError:
            if path.stem == name:
                return path
    return None


def names_in(directory: Path) -> list[str]:
    """Names of the skills in a directory, as their files say."""
    names = set()
    for path in _paths(directory):
        try:
            names.add(read_skill(path).name)
        except EvidenceError:
            continue
    return sorted(names)


def add_skill(path: Path, directory: Path, replace: bool = False) -> tuple[Skill, Path]:
    """Check a file and copy it into the directory under the skill's name.

    Raises:
        EvidenceError: SKILL_INVALID with the line that is wrong.
        FileExistsError: when the directory has a skill of this name, and it is not to be replaced.
        OSError: when the directory cannot be written to.
    """
    data = _bytes(path)
    file, skill = check_skill(path)
    if parse_skill(decode(data)) != file:
        raise invalid("the file changed while it was read", 1, "add it again")
    target = directory / f"{file.name}.md"
    existing = find_file(directory, file.name)
    if existing is not None and not replace:
        raise FileExistsError(file.name)
    directory.mkdir(parents=True, exist_ok=True)
    write_whole(target, data)
    if existing is not None and existing != target:
        existing.unlink()
    return skill, target


def write_whole(target: Path, data: bytes) -> None:
    """Write a file so that nobody ever reads half of it."""
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".skill-")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, 0o666 & ~_umask())  # a directory may be shared; mkstemp's file is its owner's alone
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _paths(directory: Path) -> Sequence[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == ".md" and path.is_file())
    except OSError:  # none, no directory, or not ours to read
        return []


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise invalid(f"the file cannot be read: {error.strerror}", 1, "make it readable, or take it away") from None
