"""Quantities that a caller gives as a number or as decimal text: exact to the last digit, and in a plausible range."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from ...contracts.wire import safe_integer

_DECIMAL = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_LONGEST = 40
_NUMBER_OR_TEXT = WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "maxLength": _LONGEST}]})
_NUMBER = WithJsonSchema({"type": "number"})


def _within(least: Decimal, most: Decimal) -> Callable[[object], Decimal]:
    def check(value: object) -> Decimal:
        text = str(value).strip()
        number = Decimal(text) if len(text) <= _LONGEST and _DECIMAL.fullmatch(text) else None
        if number is None or not least <= number <= most:
            raise ValueError(f"{text[:_LONGEST]!r} is no number from {_shown(least)} to {_shown(most)}")
        return number

    return check


def _shown(number: Decimal) -> str:
    return f"{number:f}" if number < 10**6 else f"{number.normalize():e}"


def _dumped(given: Decimal | int) -> int | str:
    """Equal numbers alike, however they were written."""
    number = Decimal(given)
    if number == number.to_integral_value():
        return safe_integer(int(number))
    return f"{number.normalize():f}"


_DUMPED = PlainSerializer(_dumped)

FlopCount = Annotated[Decimal, BeforeValidator(_within(Decimal("1"), Decimal("1e30"))), _DUMPED, _NUMBER_OR_TEXT]
"""FLOPs: a number or decimal text from 1 to 1e30."""

ByteCount = Annotated[Decimal, BeforeValidator(_within(Decimal("1"), Decimal("1e24"))), _DUMPED, _NUMBER_OR_TEXT]
"""Bytes moved: a number or decimal text from 1 to 1e24."""

Rate = Annotated[Decimal, BeforeValidator(_within(Decimal("0.001"), Decimal("1e6"))), _DUMPED, _NUMBER]
"""A peak in TFLOPS or GB/s: from 0.001 to 1e6."""

Milliseconds = Annotated[Decimal, BeforeValidator(_within(Decimal("0"), Decimal("1e12"))), _DUMPED, _NUMBER]
"""A time in ms, from 0 to 1e12."""

PositiveMilliseconds = Annotated[
    Decimal, BeforeValidator(_within(Decimal("0.000001"), Decimal("1e12"))), _DUMPED, _NUMBER
]
"""A time in ms of a nanosecond at least, to 1e12."""

Percent = Annotated[Decimal, BeforeValidator(_within(Decimal("0"), Decimal("100"))), _DUMPED, _NUMBER]
"""A share from 0 to 100."""

Gigabytes = Annotated[Decimal, BeforeValidator(_within(Decimal("0"), Decimal("1e6"))), _DUMPED, _NUMBER]
"""A size in units of 10^9, from 0 to 1e6."""


def in_percent(share: Fraction) -> str:
    """A share in percent to two decimals, for words: it may pass 100."""
    hundredths = round(share * 10_000)
    return f"{hundredths // 100}.{hundredths % 100:02d}"
