"""The profile id stands for the rows, in any order and split; a changed row changes it."""

from itertools import permutations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.fingerprint import RowsHash, profile_id

quick = settings(max_examples=60, deadline=None)
Rows = list[tuple[int, int]]

numbers = st.integers(0, 3) | st.integers(-(2**63), 2**63 - 1)
tables = st.lists(st.tuples(numbers, numbers), max_size=8)


def columns(rows: Rows) -> dict[str, npt.NDArray[np.int64]]:
    return {name: np.array([row[place] for row in rows], np.int64) for place, name in enumerate(("start", "end"))}


def digest(*parts: Rows, table: str = "kernels", names: tuple[str, ...] = ("start", "end")) -> str:
    found = RowsHash(table, names)
    for rows in parts:
        found.add(columns(rows))
    return found.digest()


def test_the_hash_is_the_same_with_every_version_of_every_library() -> None:
    assert digest([(1, 2), (3, 4)]) == "0daaa0986e3d4a6b7e4c4713267fe67f"
    assert profile_id({"rows": {"kernels": "00"}, "marks": 3}) == "p-925bab94c008851f3cd9"


@quick
@given(rows=tables, cut=st.integers(0, 8), random=st.randoms(use_true_random=False))
def test_order_and_split_of_the_rows_do_not_matter(rows: Rows, cut: int, random: object) -> None:
    shuffled = rows[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert digest(shuffled) == digest(rows[:cut], rows[cut:]) == digest(rows)


def test_rows_of_more_than_one_block_are_all_counted() -> None:
    rows = [(n, n * n) for n in range(70_000)]
    assert digest(rows) == digest(rows[:32_768], rows[32_768:]) == digest(rows[::-1])
    assert digest(rows) != digest([*rows[:-1], (69_999, 0)])


@quick
@given(rows=tables.filter(bool), place=st.integers(0, 7), other=numbers, column=st.integers(0, 1))
def test_one_changed_value_changes_the_hash(rows: Rows, place: int, other: int, column: int) -> None:
    place %= len(rows)
    changed = list(rows[place])
    changed[column] = other
    rows_after = [*rows[:place], (changed[0], changed[1]), *rows[place + 1 :]]
    assert (digest(rows_after) == digest(rows)) == (rows_after == rows)


@quick
@given(rows=tables, row=st.tuples(numbers, numbers))
def test_a_row_more_changes_the_hash_also_one_that_is_there_already(rows: Rows, row: tuple[int, int]) -> None:
    assert len({digest([*rows, row] * times + rows) for times in (0, 1, 2)}) == 3


def test_values_in_other_columns_rows_or_tables_are_other_rows() -> None:
    tables: list[Rows] = [[(a, b), (c, d)] for a, b, c, d in permutations((1, 2, 3, 4))]
    assert len({digest(rows) for rows in tables}) == len({frozenset(rows) for rows in tables})
    same = [(5, 5)]
    assert len({digest(same), digest(same, table="copies"), digest(same, names=("start",)), digest([])}) == 4


def test_types_do_not_matter_where_values_are_equal() -> None:
    narrow, wide = RowsHash("t", ("a", "b")), RowsHash("t", ("a", "b"))
    narrow.add({"a": np.array([1, -1], np.int8), "b": np.array([True, False])})
    wide.add({"a": np.array([1, -1], np.int64), "b": np.array([1, 0], np.int32)})
    assert narrow.digest() == wide.digest()


def test_the_profile_id_depends_on_every_part_and_not_on_their_order() -> None:
    parts: dict[str, object] = {"rows": {"kernels": "ab"}, "capture": (1, 2), "marks": 0}
    assert profile_id(dict(reversed(parts.items()))) == profile_id(parts)
    others = [{**parts, "marks": 1}, {**parts, "capture": (1, 3)}, {**parts, "rows": {"copies": "ab"}}]
    assert len({profile_id(parts), *map(profile_id, others)}) == 4
