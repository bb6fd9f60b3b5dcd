"""The Markdown file of a custom skill: its sections, read line by line, so that every error names its line."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Literal, NoReturn

from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.wire import clean_text
from ..registry import CATEGORIES, Params

MAX_FILE_BYTES = 65_536
"""The largest file that is read."""

MAX_SQL = 20_000
"""The longest SQL, in characters."""

MAX_WHEN = 300
"""The longest first paragraph of the description, in characters: clients put it into the model's context."""

MAX_PARAMETERS = 20

CUSTOM_CATEGORIES = (*CATEGORIES, "custom")
"""What `## Category` takes."""

GIVEN = ("start_ns", "end_ns", "gpus")
"""Parameters that every skill's SQL may use undeclared: the window in scope and the devices in scope."""

Type = Literal["integer", "number", "text", "flag"]
TYPES: tuple[Type, ...] = ("integer", "number", "text", "flag")

_TAKEN = {"profile", "device", "trim", "iteration", "marker", "max_rows", "offset", "id", *GIVEN}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r"(```+|~~~+)[ \t]*(\w*)[ \t]*")
_SECTIONS = ("Description", "Category", "Parameters", "SQL")
_PARAMETER = re.compile(
    r"[-*][ \t]+(?P<name>\w+)[ \t]*:[ \t]*(?P<type>\w+)"
    r"(?:[ \t]*=[ \t]*(?P<default>\"(?:[^\"\\]|\\.)*\"|\S+?))?"
    r"[ \t]+(?:—|\u2013|--|-)[ \t]+(?P<description>\S.*)"
)
_PARAMETER_FORM = "- name: type = default — description"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a custom skill.

    Attributes:
        name: its name, `$name` in the SQL.
        type: integer, number, text or flag.
        default: its default; None where the caller has to give it.
        description: what it means.
        line: the line of the file that declares it.
    """

    name: str
    type: Type
    default: int | float | str | bool | None
    description: str
    line: int


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file that reads as a custom skill; its SQL is not checked yet.

    Attributes:
        name: the skill's name.
        name_line: the line of the file that has it.
        when: the first paragraph of the description.
        reading: the rest of the description.
        category: one of `CUSTOM_CATEGORIES`.
        parameters: its parameters, in order.
        sql: the SQL.
        sql_line: the line of the file on which the SQL begins.
    """

    name: str
    name_line: int
    when: str
    reading: str
    category: str
    parameters: tuple[Parameter, ...]
    sql: str
    sql_line: int


def invalid(message: str, line: int, hint: str) -> EvidenceError:
    """The error for a file that is no custom skill: what is wrong on which line."""
    return EvidenceError(ErrorCode.SKILL_INVALID, f"line {line}: {message}", hint, line=line)


def _refuse(message: str, line: int, hint: str) -> NoReturn:
    raise invalid(message, line, hint)


@dataclass(slots=True)
class _Section:
    title: str
    line: int
    body: list[tuple[int, str]]
    fence: tuple[int, list[str]] | None = None


def decode(data: bytes) -> str:
    """The text of a file.

    Raises:
        EvidenceError: SKILL_INVALID when it is no UTF-8 text, or too large.
    """
    if len(data) > MAX_FILE_BYTES:
        _refuse(f"the file is larger than {MAX_FILE_BYTES} bytes", 1, "a custom skill is one short Markdown file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        _refuse("this is no UTF-8 text", line, "save the file as UTF-8")


def parse_skill(text: str) -> SkillFile:
    """Read the Markdown of a custom skill.

    Raises:
        EvidenceError: SKILL_INVALID with the line that is wrong.
    """
    name, name_line, sections = _sections(text.split("\n"))
    last = max(text.rstrip().count("\n") + 1, 1)
    for title in ("Description", "Category", "SQL"):
        if title not in sections:
            _refuse(f"the section ## {title} is missing", last, "a skill has ## Description, ## Category and ## SQL")
    when, reading = _description(sections["Description"])
    category = _category(sections["Category"])
    parameters = _parameters(sections["Parameters"]) if "Parameters" in sections else ()
    sql, sql_line = _sql(sections["SQL"])
    return SkillFile(name, name_line, when, reading, category, parameters, sql, sql_line)


def _sections(lines: list[str]) -> tuple[str, int, dict[str, _Section]]:
    """The name, its line, and the sections by title. Headings inside a fence are none."""
    name, name_line = "", 0
    sections: dict[str, _Section] = {}
    current: _Section | None = None
    fence = ""
    for number, raw in enumerate(lines, 1):
        line = raw.removesuffix("\r")
        if fence:
            if line.strip() == fence:
                fence = ""
            elif current is not None and current.fence is not None:
                current.fence[1].append(line)
        elif heading := _HEADING.fullmatch(line):
            if len(heading[1]) == 1:
                if name:
                    _refuse("there is a second # heading", number, "a file is one skill: one # name")
                name, name_line = _skill_name(heading[2], number), number
                continue
            current = _Section(_title(heading[2], len(heading[1]), number, sections), number, [])
            if not name:
                _refuse("the name does not come first", number, "begin the file with # name")
            sections[current.title] = current
        elif opening := _FENCE.fullmatch(line):
            if current is None or current.title != "SQL":
                _refuse("a fence outside ## SQL", number, "only the SQL stands in a fence")
            if current.fence is not None:
                _refuse("## SQL has a second fence", number, "put one SELECT into one fence")
            if opening[2].lower() not in ("", "sql"):
                _refuse(f"the fence is one of {opening[2]}", number, "open it with ```sql")
            current.fence, fence = (number + 1, []), opening[1]
        elif line.strip():
            if current is None:
                _refuse("text outside a section", number, "begin with # name, then ## Description")
            current.body.append((number, line.strip()))
        elif current is not None:
            current.body.append((number, ""))
    if fence:
        _refuse("the fence is not closed", len(lines), f"end the SQL with a line {fence}")
    if not name:
        _refuse("the skill has no name", 1, "begin the file with # name")
    return name, name_line, sections


def _skill_name(text: str, line: int) -> str:
    if not _NAME.fullmatch(text):
        _refuse(
            f"{clean_text(text, 60)!r} is no name of a skill",
            line,
            "a name is lower-case letters, digits and _, begins with a letter and has at most 40 characters",
        )
    return text


def _title(text: str, level: int, line: int, seen: dict[str, _Section]) -> str:
    title = next((known for known in _SECTIONS if known.lower() == text.lower()), None)
    if title is None or level != 2:
        _refuse(f"{clean_text(text, 60)!r} is no section", line, f"sections are ## {', ## '.join(_SECTIONS)}")
    if title in seen:
        _refuse(f"## {title} stands twice", line, f"it stands on line {seen[title].line} already")
    return title


def _description(section: _Section) -> tuple[str, str]:
    paragraphs: list[list[str]] = [[]]
    for _, line in section.body:
        if line:
            paragraphs[-1].append(line)
        elif paragraphs[-1]:
            paragraphs.append([])
    texts = [clean_text(" ".join(lines)) for lines in paragraphs if lines]
    if not texts or not texts[0]:
        _refuse("the description is empty", section.line, "say when to use the skill, in a sentence")
    if len(texts[0]) > MAX_WHEN:
        _refuse(
            f"the first paragraph of the description has more than {MAX_WHEN} characters",
            next(number for number, line in section.body if line),
            "say when to use the skill in a sentence, and how to read its rows in a second paragraph",
        )
    return texts[0], "\n\n".join(texts[1:])


def _category(section: _Section) -> str:
    words = [(number, line) for number, line in section.body if line]
    hint = f"a category is one of {', '.join(CUSTOM_CATEGORIES)}"
    if not words:
        _refuse("the category is empty", section.line, hint)
    if len(words) > 1:
        _refuse("there is more than one category", words[1][0], hint)
    number, category = words[0]
    if category.lower() not in CUSTOM_CATEGORIES:
        _refuse(f"there is no category {clean_text(category, 60)!r}", number, hint)
    return category.lower()


def _parameters(section: _Section) -> tuple[Parameter, ...]:
    found: dict[str, Parameter] = {}
    for number, line in section.body:
        if not line:
            continue
        parameter = _parameter(line, number)
        if parameter.name in found:
            _refuse(f"the parameter {parameter.name} stands twice", number, "give each parameter a name of its own")
        found[parameter.name] = parameter
    if len(found) > MAX_PARAMETERS:
        _refuse(f"there are more than {MAX_PARAMETERS} parameters", section.line, "leave some out")
    return tuple(found.values())


def _parameter(line: str, number: int) -> Parameter:
    match = _PARAMETER.fullmatch(line)
    if match is None:
        _refuse("this is no parameter", number, f"write {_PARAMETER_FORM}; the default is optional")
    name, kind = match["name"], match["type"]
    if not _NAME.fullmatch(name):
        _refuse(f"{clean_text(name, 60)!r} is no name of a parameter", number, "lower-case letters, digits and _")
    if name in _TAKEN or hasattr(Params, name):
        _refuse(f"the name {name} is taken", number, "every skill has parameters of that name; choose another")
    if kind not in TYPES:
        _refuse(f"there is no type {clean_text(kind, 60)!r}", number, f"types are {', '.join(TYPES)}")
    default = None if match["default"] is None else _default(match["default"], kind, number)
    return Parameter(name, kind, default, clean_text(match["description"], 200), number)


def _default(text: str, kind: str, line: int) -> int | float | str | bool:
    value: object = text
    if text.startswith('"') or kind != "text":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
    if kind == "text" and isinstance(value, str):
        return clean_text(value, 200)
    if kind == "flag" and isinstance(value, bool):
        return value
    if kind == "integer" and isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        with_point = float(value) if abs(value) < 10**300 else math.inf
        if math.isfinite(with_point):
            return with_point
    _refuse(
        f"the default {clean_text(text, 60)} is no {kind}",
        line,
        'write 10 for an integer, 0.5 for a number, true or false for a flag, a word or a "text" for a text',
    )


def _sql(section: _Section) -> tuple[str, int]:
    if section.fence is None:
        _refuse("## SQL has no fence", section.line, "put the SELECT between ```sql and ```")
    for number, line in section.body:
        if line:
            _refuse("text beside the fence of ## SQL", number, "only the SQL stands here; explain it in ## Description")
    first, lines = section.fence
    sql = "\n".join(lines)
    if not sql.strip():
        _refuse("the SQL is empty", first - 1, "write one SELECT over the canonical tables")
    if len(sql) > MAX_SQL:
        _refuse(f"the SQL has more than {MAX_SQL} characters", first, "make it shorter")
    for offset, line in enumerate(lines):
        if "\x00" in line:
            _refuse("the SQL has a NUL character", first + offset, "remove it")
    return sql, first
