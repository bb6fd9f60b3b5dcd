"""Every fault that others met has a test that is there, or a reason why it cannot occur."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from nsys_evidence.tools.registry import all_skills
from tests.pitfalls import faults
from tests.pitfalls.faults import FAULTS
from tests.support import SHARED

TESTS = Path(__file__).resolve().parents[1]
COLLECTION = SHARED / "PITFALLS.md"
LEFT_OUT = {6, 14, 15, 16, 26, 27, 38, 40, 41}
"""Numbers that the collection does not use."""


@cache
def functions(module: str) -> frozenset[str]:
    """The test functions at the top of a module of tests."""
    tree = ast.parse((TESTS / module).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_number_has_its_fault() -> None:
    assert [number for number in FAULTS if number.isdigit()] == [str(n) for n in range(1, 93) if n not in LEFT_OUT]


@pytest.mark.skipif(not COLLECTION.is_file(), reason="the collection is not beside the checkout")
def test_every_row_of_the_collection_has_its_fault_and_no_other_has() -> None:
    first, second = COLLECTION.read_text(encoding="utf-8").split("\n## ")[2:4]
    numbers = re.findall(r"^(\d+)\. ", first.partition("\n")[2], re.MULTILINE)
    assert numbers == [number for number in FAULTS if number.isdigit()]
    assert re.findall(r"^\| (N\d+) ", second, re.MULTILINE) == [number for number in FAULTS if number[0] == "N"]


@pytest.mark.parametrize("number", FAULTS)
def test_the_tests_of_a_fault_are_there_or_it_cannot_occur(number: str) -> None:
    fault = FAULTS[number]
    assert fault.what.endswith(".")
    assert fault.tests or fault.impossible
    for test in fault.tests:
        module, _, name = test.partition("::")
        assert name in functions(module), test


def test_no_fault_stands_in_two_sections() -> None:
    sections = (value for name, value in vars(faults).items() if name.isupper() and isinstance(value, dict))
    assert sum(len(section) for section in sections) == 2 * len(FAULTS)


def test_no_skill_takes_two_captures() -> None:
    for name, skill in all_skills().items():
        given = set(skill.params.model_fields)
        assert not {field for field in given if re.search("profile|baseline|before|after|other|capture", field)}, name
