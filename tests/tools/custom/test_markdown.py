"""A file that is wrong is refused with the line that is wrong; a file that is right is read as it was written."""

from __future__ import annotations

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.tools.custom.markdown import MAX_FILE_BYTES, MAX_SQL, Parameter, decode, parse_skill
from nsys_evidence.tools.registry import Skill
from tests.tools.custom.making import refused, text_of, tried

WHOLE = """\
# slow_copies

## Description
To see copies that
take long.

One row a copy.

Times are whole events.

## Category
Memory

## Parameters
- min_us: number = 0.5 — shortest copy
* label: text = "two words" - a label
- kind: text = DtoH -- a word
- flags: flag = true — a flag

- least: integer — no default

## SQL
```sql
-- # no heading
SELECT start AS start_ns
FROM copies

```
"""


def error_of(text: str) -> tuple[int, str]:
    """Line and message of the error of a file."""
    with pytest.raises(EvidenceError) as caught:
        parse_skill(text)
    error = caught.value
    assert error.code is ErrorCode.SKILL_INVALID
    assert error.hint
    line = error.facts["line"]
    assert isinstance(line, int)
    assert error.message.startswith(f"line {line}: ")
    return line, error.message


def test_a_file_is_read_as_it_was_written() -> None:
    file = parse_skill(WHOLE)
    assert (file.name, file.category, file.when) == ("slow_copies", "memory", "To see copies that take long.")
    assert file.reading == "One row a copy.\n\nTimes are whole events."
    assert file.sql == "-- # no heading\nSELECT start AS start_ns\nFROM copies\n"
    assert WHOLE.split("\n")[file.sql_line - 1] == "-- # no heading"
    assert file.parameters == (
        Parameter("min_us", "number", 0.5, "shortest copy", 15),
        Parameter("label", "text", "two words", "a label", 16),
        Parameter("kind", "text", "DtoH", "a word", 17),
        Parameter("flags", "flag", True, "a flag", 18),
        Parameter("least", "integer", None, "no default", 20),
    )


def test_ends_of_lines_a_mark_of_byte_order_and_the_order_of_sections_change_nothing() -> None:
    assert parse_skill(decode(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())) == parse_skill(WHOLE)
    head, description, category, parameters, sql = WHOLE.replace("\n## ", "\f\n## ").split("\f")
    other = parse_skill(head + sql + parameters + category + description)
    assert (other.sql, other.when) == (parse_skill(WHOLE).sql, parse_skill(WHOLE).when)


def changed(old: str, new: str) -> str:
    assert WHOLE.count(old) == 1
    return WHOLE.replace(old, new)


WRONG = {
    "no name": (changed("# slow_copies\n", "\n"), 3),
    "nothing": ("", 1),
    "a name with capitals": (changed("# slow_copies", "# SlowCopies"), 1),
    "a name with a path": (changed("# slow_copies", "# ../x"), 1),
    "a name that is too long": (changed("# slow_copies", "# " + "a" * 41), 1),
    "two names": (changed("## Category", "# other\n## Category"), 11),
    "text before the name": ("hello\n" + WHOLE, 1),
    "a section that is none": (changed("## Category", "## Author\nme\n## Category"), 11),
    "a section too deep": (changed("## Category", "### Category"), 11),
    "a section twice": (changed("## Parameters", "## Category\nmemory\n## Parameters"), 14),
    "no description": (
        changed("To see copies that\ntake long.\n\nOne row a copy.\n\nTimes are whole events.\n", ""),
        3,
    ),
    "a description that is too long": (changed("take long.", "x" * 300), 4),
    "no category": (changed("Memory\n", ""), 11),
    "two categories": (changed("Memory\n", "memory\nkernels\n"), 13),
    "an unknown category": (changed("Memory\n", "cooking\n"), 12),
    "no SQL section": (WHOLE[: WHOLE.index("## SQL")], 20),
    "no fence": (WHOLE.replace("```sql\n", "").replace("```\n", ""), 22),
    "a fence of another language": (changed("```sql", "```python"), 23),
    "an open fence": (WHOLE[: WHOLE.rindex("```")], 28),
    "two fences": (WHOLE + "```sql\nSELECT 2\n```\n", 29),
    "text beside the fence": (WHOLE + "and more\n", 29),
    "an empty fence": (changed("-- # no heading\nSELECT start AS start_ns\nFROM copies\n", ""), 23),
    "a fence elsewhere": (changed("One row a copy.", "```\nx\n```"), 7),
    "a parameter without a description": (changed(" — a flag", ""), 18),
    "a parameter without a type": (changed("- flags: flag = true", "- flags = true"), 18),
    "a parameter of no type": (changed("flags: flag", "flags: date"), 18),
    "a parameter twice": (changed("- flags: flag = true", "- kind: flag = true"), 18),
    "a parameter that every skill has": (changed("flags: flag", "device: flag"), 18),
    "a parameter of the scope": (changed("flags: flag", "start_ns: flag"), 18),
    "a parameter that pydantic has": (changed("flags: flag", "copy: flag"), 18),
    "a parameter in capitals": (changed("flags: flag", "FLAGS: flag"), 18),
    "a flag that is none": (changed("flag = true", "flag = yes"), 18),
    "an integer with a point": (changed("- least: integer", "- least: integer = 1.5"), 20),
    "an integer that is too large": (changed("- least: integer", f"- least: integer = {2**63}"), 20),
    "a number that is infinite": (changed("number = 0.5", "number = 1e999"), 15),
    "a number that is none": (changed("number = 0.5", "number = NaN"), 15),
    "a number that is a flag": (changed("number = 0.5", "number = true"), 15),
    "an injected default": (changed("kind: text = DtoH", "kind: text = x'; DROP TABLE kernels"), 17),
    "very long SQL": (changed("FROM copies", "FROM copies --" + "x" * MAX_SQL), 24),
    "a NUL in the SQL": (changed("FROM copies", "FROM copies \x00"), 26),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_with_its_line(wrong: tuple[str, int]) -> None:
    text, line = wrong
    assert error_of(text)[0] == line


def test_a_file_that_is_no_text_or_too_large_is_refused() -> None:
    for data, line in ((b"# x\n\n\xff\n", 3), (b"x" * (MAX_FILE_BYTES + 1), 1)):
        with pytest.raises(EvidenceError) as caught:
            decode(data)
        assert (caught.value.code, caught.value.facts["line"]) == (ErrorCode.SKILL_INVALID, line)


def test_messages_carry_no_control_characters_of_the_file() -> None:
    _, message = error_of("# \x1b[31mred\u202e\n")
    assert "\x1b" not in message
    assert "\u202e" not in message


def test_errors_of_the_sql_name_the_line_in_the_file() -> None:
    lines = {
        "SELECT 1 AS a\nFROM\n  kernel": 15,
        "SELECT 'é' AS a,\n  random() AS b": 14,
        "SELECT start AS a,\n  nothing AS b\nFROM kernels": 14,
        "SELECT 1 AS a;\n\nSELECT 2 AS a": 15,
        "SELECT 1 AS a\nFROM kernels\nWHERE $other = 1": 15,
        "SELECT 1 AS a\nFROM kernels WHERE (": 14,
    }
    for sql, error in zip(lines, tried(*lines), strict=True):
        assert isinstance(error, EvidenceError)
        assert error.facts["line"] == lines[sql], (sql, error.message)


def test_a_parameter_that_the_sql_does_not_use_is_refused_with_its_line() -> None:
    error = refused("SELECT $a AS a", "- a: integer = 1 — used\n- b: integer = 2 — not used")
    assert error.facts["line"] == 13
    assert "$b" in error.message


def test_a_part_of_the_window_is_refused() -> None:
    errors = tried("SELECT $start_ns AS a", "SELECT $end_ns AS a", "SELECT list_contains($gpus, 0) AS a")
    assert all(isinstance(error, EvidenceError) for error in errors)
    assert isinstance(tried("SELECT $start_ns AS a, $end_ns AS b")[0], Skill)


def test_a_built_in_name_is_taken() -> None:
    error = refused_text(text_of("SELECT 1 AS a", name="top_kernels"))
    assert error.facts["line"] == 1
    assert "built-in" in error.message


def refused_text(text: str) -> EvidenceError:
    from nsys_evidence.tools.custom.skills import make_skills

    [error] = make_skills([parse_skill(text)])
    assert isinstance(error, EvidenceError)
    return error
