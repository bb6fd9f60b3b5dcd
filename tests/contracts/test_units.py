"""Figures are exact inside and rounded once, half to even, on the way out; absent stays absent."""

from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from statistics import stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from nsys_evidence.contracts.units import Unit, present, ratio, sample_stddev, unit_schema
from nsys_evidence.contracts.wire import MAX_SAFE_INTEGER

quick = settings(max_examples=60, deadline=None)
exact = st.integers(-(2**62), 2**62) | st.fractions(-(10**9), 10**9, max_denominator=10**6)
shares = st.fractions(0, 1)


def rounded(value: Fraction, decimals: int) -> Fraction:
    """The value to this many decimals, half to even, by the rule itself."""
    scaled = value * 10**decimals
    below = scaled.numerator // scaled.denominator
    above_half = 2 * (scaled - below) > 1 or (2 * (scaled - below) == 1 and below % 2)
    return Fraction(below + bool(above_half), 10**decimals)


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        (Unit.US, 1, 0.001),
        (Unit.US, 1_234_567, 1234.567),
        (Unit.MS, 500, 0.0),  # half a µs goes to the even neighbour, 0
        (Unit.MS, 1_500, 0.002),
        (Unit.MS, 2_500, 0.002),
        (Unit.MS, 2_501, 0.003),
        (Unit.MS, -500, 0.0),
        (Unit.MS, -1_500, -0.002),
        (Unit.MS, -2_500, -0.002),
        (Unit.MS, Fraction(5_001, 10), 0.001),
        (Unit.MB, 1_000_000, 1.0),
        (Unit.MB, 1_048_576, 1.049),
        (Unit.MB, 2_500, 0.002),
        (Unit.GB_PER_S, Fraction(1, 3), 0.333),
        (Unit.GB_PER_S, Fraction(5, 10_000), 0.0),
        (Unit.GB_PER_S, Fraction(15, 10_000), 0.002),
        (Unit.FACTOR, Fraction(2, 3), 0.6667),
        (Unit.FACTOR, Fraction(5, 100_000), 0.0),
        (Unit.PCT, Fraction(1, 3), 33.33),
        (Unit.PCT, Fraction(5, 100_000), 0.0),
        (Unit.PCT, Fraction(15, 100_000), 0.02),
        (Unit.PCT, 1, 100.0),
        (Unit.PCT, 0, 0.0),
        (Unit.S, 155_357_525_002, 155.357525002),
        (Unit.S, -1, -1e-09),
        (Unit.NS, Fraction(5, 2), 2),
        (Unit.NS, Fraction(7, 2), 4),
        (Unit.BYTES, Fraction(-5, 2), -2),
        (Unit.INTEGER, -5, -5),
        (Unit.INTEGER, 2**53, 2**53),
        (Unit.INTEGER, 2**53 + 1, str(2**53 + 1)),
        (Unit.INTEGER, -(2**100), str(-(2**100))),
        (Unit.NUMBER, Fraction(1, 3), 0.333333),
        (Unit.NUMBER, Fraction(5, 10**7), 0.0),
        (Unit.NUMBER, Fraction(-15, 10**7), -0.000002),
        (Unit.NUMBER, 10**300, 1e300),
        (Unit.COUNT, 3, 3),
        (Unit.ID, 0, 0),
        (Unit.FLAG, 0, False),
        (Unit.TEXT, "a\x1b[31mb", "a[31mb"),
    ],
)
def test_a_figure_is_shown_in_its_unit_rounded_half_to_even(unit: Unit, value: object, shown: object) -> None:
    found = present(unit, value)
    assert (found, type(found)) == (shown, type(shown))
    assert str(found) != "-0.0"


@pytest.mark.parametrize(
    ("unit", "scale", "decimals"),
    [(Unit.US, 10**3, 3), (Unit.MS, 10**6, 3), (Unit.MB, 10**6, 3), (Unit.GB_PER_S, 1, 3), (Unit.FACTOR, 1, 4)],
)
@quick
@given(value=exact)
def test_decimals_are_the_nearest_double_of_the_exactly_rounded_value(
    unit: Unit, scale: int, decimals: int, value: int | Fraction
) -> None:
    expected = rounded(Fraction(value) / scale, decimals)
    assert present(unit, value) == expected.numerator / expected.denominator


@quick
@given(value=st.integers(-(2**80), 2**80))
def test_milliseconds_agree_with_decimal_arithmetic(value: int) -> None:
    exactly = Decimal(value).scaleb(-6)
    assert present(Unit.MS, value) == float(exactly.quantize(Decimal("0.001"), ROUND_HALF_EVEN))


@quick
@given(share=shares)
def test_a_share_is_shown_in_percent_with_two_decimals(share: Fraction) -> None:
    shown = present(Unit.PCT, share)
    assert shown == float(rounded(share * 100, 2))
    assert isinstance(shown, float)
    assert 0 <= shown <= 100


@pytest.mark.parametrize("share", [Fraction(-1, 10**9), 1 + Fraction(1, 10**9), 2, -1])
def test_a_share_outside_zero_to_hundred_percent_is_refused_however_near(share: int | Fraction) -> None:
    with pytest.raises(ValueError, match="outside 0 to 100"):
        present(Unit.PCT, share)


@pytest.mark.parametrize("unit", [Unit.NS, Unit.BYTES])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_beyond_2_to_53_travel_as_strings(unit: Unit, sign: int) -> None:
    assert present(unit, sign * MAX_SAFE_INTEGER) == sign * 2**53
    assert present(unit, sign * (MAX_SAFE_INTEGER + 1)) == str(sign * (2**53 + 1))
    assert present(unit, sign * 10**30) == str(sign * 10**30)


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (2**23 * 10**9 - 1, 8388607.999999999),
        (2**23 * 10**9, "8388608.000000000"),
        (2**53 + 1, "9007199.254740993"),
        (-(2**53) - 1, "-9007199.254740993"),
        (2**60, "1152921504.606846976"),
        (10**18, "1000000000.000000000"),
        (-(10**18) - 5, "-1000000000.000000005"),
    ],
)
def test_seconds_late_on_the_clock_travel_as_decimal_strings(nanoseconds: int, shown: str) -> None:
    assert present(Unit.S, nanoseconds) == shown


@quick
@given(
    nanoseconds=st.integers(-(2**70), 2**70)
    | st.integers(2**53 - 10**9, 2**53 + 10**9)
    | st.integers(8_388_607 * 10**9, 8_388_610 * 10**9)
)
def test_every_nanosecond_can_be_told_from_its_seconds(nanoseconds: int) -> None:
    shown = present(Unit.S, nanoseconds)
    assert Decimal(str(shown)).quantize(Decimal("1e-9")) * 10**9 == nanoseconds


@pytest.mark.parametrize("unit", list(Unit))
def test_none_stays_none_in_every_unit(unit: Unit) -> None:
    assert present(unit, None) is None


@quick
@given(unit=st.sampled_from([u for u in Unit if u not in (Unit.TEXT, Unit.FLAG, Unit.PCT, Unit.COUNT)]), value=exact)
def test_what_is_shown_has_the_schema_of_its_unit(unit: Unit, value: int | Fraction) -> None:
    value = int(value) if unit is Unit.ID else value
    shown = present(unit, value)
    for validator in (Draft7Validator, Draft202012Validator):
        validator(unit_schema(unit, nullable=False)).validate(shown)
        validator(unit_schema(unit, nullable=True)).validate(shown)


@pytest.mark.parametrize("unit", list(Unit))
def test_null_has_the_schema_of_a_nullable_column_only(unit: Unit) -> None:
    assert Draft202012Validator(unit_schema(unit, nullable=True)).is_valid(None)
    assert not Draft202012Validator(unit_schema(unit, nullable=False)).is_valid(None)


@pytest.mark.parametrize("unit", list(Unit))
@pytest.mark.parametrize("nullable", [True, False])
def test_no_schema_of_a_value_has_a_list_of_types_or_a_union_in_a_union(unit: Unit, nullable: bool) -> None:
    schema = unit_schema(unit, nullable)
    options = schema.get("anyOf", [schema])
    assert all(isinstance(option["type"], str) and "anyOf" not in option for option in options)


def test_a_schema_is_handed_out_as_a_copy() -> None:
    unit_schema(Unit.MS, nullable=False)["type"] = "string"
    assert unit_schema(Unit.MS, nullable=False) == {"type": "number"}


def test_a_ratio_is_exact_and_none_where_it_means_nothing() -> None:
    assert ratio(1, 3) == Fraction(1, 3)
    assert ratio(0, 5) == 0
    assert ratio(Fraction(1, 2), Fraction(1, 4)) == 2
    assert ratio(1, 0) is None
    assert ratio(0, 0) is None
    assert ratio(None, 3) is None
    assert ratio(3, None) is None


@quick
@given(values=st.lists(st.integers(0, 2**45), min_size=2, max_size=30))
def test_the_standard_deviation_is_that_of_the_statistics_module(values: list[int]) -> None:
    found = sample_stddev(len(values), sum(values), sum(value * value for value in values))
    assert found is not None
    # The module's own square root is exact but for the last bit of a double.
    assert float(found) == pytest.approx(stdev(values), rel=1e-14, abs=2**-20)
    assert found**2 <= stdev_squared(values) < (found + Fraction(1, 2**20)) ** 2


def stdev_squared(values: list[int]) -> Fraction:
    mean = Fraction(sum(values), len(values))
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / (len(values) - 1)


@pytest.mark.parametrize("values", [[], [7]])
def test_fewer_than_two_values_have_no_standard_deviation(values: list[int]) -> None:
    assert sample_stddev(len(values), sum(values), sum(value * value for value in values)) is None


def test_equal_values_have_a_standard_deviation_of_zero_however_large() -> None:
    assert sample_stddev(3, 3 * 2**62, 3 * 2**124) == 0
