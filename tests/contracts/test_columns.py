"""A row model is the columns of a table: every column has a unit and a meaning, every share its denominator."""

from fractions import Fraction
from typing import Annotated

import pytest
from jsonschema import Draft202012Validator

from nsys_evidence.contracts.columns import (
    Column,
    NoTotals,
    Row,
    column,
    columns_of,
    present_row,
    present_totals,
    rows_schema,
    totals_schema,
)
from nsys_evidence.contracts.units import Bytes, Count, Ms, Pct, Text, Unit


class Kernel(Row):
    kernel: Text = column("short label")
    total_ms: Ms = column("summed duration")
    share_pct: Pct | None = column("share", of="kernel time in scope")


class Totals(Row):
    kernels: Count = column("kernels")
    moved_bytes: Bytes | None = column("bytes")


class Unmeasured(Row):
    kernels: int = column("no unit")


class Foreign(Row):
    kernels: Annotated[int, "count"] = column("an annotation that is no unit")


class Shareless(Row):
    share_pct: Pct = column("a share of what?")


def test_columns_come_in_the_order_of_the_fields_with_unit_meaning_and_denominator() -> None:
    assert columns_of(Kernel) == (
        Column("kernel", Unit.TEXT, nullable=False, meaning="short label", of=None),
        Column("total_ms", Unit.MS, nullable=False, meaning="summed duration", of=None),
        Column("share_pct", Unit.PCT, nullable=True, meaning="share", of="kernel time in scope"),
    )
    assert columns_of(NoTotals) == ()


@pytest.mark.parametrize("model", [Unmeasured, Foreign])
def test_a_field_without_a_unit_is_refused(model: type[Row]) -> None:
    with pytest.raises(TypeError, match="column kernels has no unit"):
        columns_of(model)


def test_a_share_without_a_denominator_is_refused() -> None:
    with pytest.raises(TypeError, match="share_pct of Shareless is a share and names no denominator"):
        columns_of(Shareless)


def test_a_row_is_shown_in_column_order() -> None:
    assert present_row(Kernel, ["gemm\x00", 1_234_567, Fraction(1, 3)]) == ["gemm", 1.235, 33.33]
    assert present_row(Kernel, ["gemm", 0, None]) == ["gemm", 0.0, None]


@pytest.mark.parametrize("values", [["gemm", 1], ["gemm", 1, None, 4]])
def test_a_row_of_another_length_is_refused(values: list[object]) -> None:
    with pytest.raises(ValueError, match="zip"):
        present_row(Kernel, values)


def test_totals_have_every_key_of_the_model_in_its_order() -> None:
    assert list(present_totals(Totals, {"moved_bytes": 2**60, "kernels": 3}).items()) == [
        ("kernels", 3),
        ("moved_bytes", str(2**60)),
    ]
    with pytest.raises(KeyError):
        present_totals(Totals, {"kernels": 3})


def test_rows_are_arrays_typed_by_position() -> None:
    validator = Draft202012Validator(rows_schema(Kernel))
    assert validator.is_valid([["gemm", 1.5, None], ["copy", 2, 100]])
    for row in (["gemm", 1.5], ["gemm", 1.5, None, 1], [1, 1.5, None], ["gemm", None, None], ["gemm", 1.5, 100.1]):
        assert not validator.is_valid([row]), row


def test_totals_are_an_object_with_exactly_these_keys_or_null() -> None:
    validator = Draft202012Validator(totals_schema(Totals))
    assert validator.is_valid({"kernels": 3, "moved_bytes": str(2**60)})
    assert validator.is_valid({"kernels": 3, "moved_bytes": None})
    assert validator.is_valid(None)
    more: dict[str, object] = {"kernels": 3, "moved_bytes": 0, "more": 1}
    wrong: list[object] = [{"kernels": 3}, {"kernels": -1, "moved_bytes": 0}, more, []]
    assert not any(map(validator.is_valid, wrong))
