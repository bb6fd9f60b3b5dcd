from __future__ import annotations

from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.thresholds.kinds import all_tables


def test_what_decides_is_listed_once_with_skills_that_there_are() -> None:
    thresholds, patterns = all_tables()
    for listed in (thresholds, patterns):
        names = [one.name for one in listed]
        assert len(set(names)) == len(names)
        assert all(one.skills and set(one.skills) <= set(all_skills()) for one in listed)


def test_the_numbers_that_find_iterations_and_gpus_are_listed() -> None:
    values = {one.name: one.value for one in all_tables()[0]}
    assert values["repetitions that make iterations"] == values["kernels of an iteration"] == 3
    assert (values["memory of a product"], values["memory bandwidth of a product"]) == (12, 5)
    assert "kernels that could use tensor cores" in {one.name for one in all_tables()[1]}
