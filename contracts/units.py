"""Units: what a column holds inside, and how it is shown.

Skills work on exact values: integer nanoseconds, integer bytes, and ratios as `Fraction`. Rounding happens once, here,
half to even, on the way out:

| unit | exact value inside | shown |
|---|---|---|
| NS, BYTES, COUNT, ID | int | the same integer (a string beyond 2^53 for NS and BYTES) |
| US, MS | nanoseconds | 3 decimals |
| S | nanoseconds | 9 decimals (a decimal string from 2^23 seconds on, where doubles are more than 1 ns apart) |
| MB | bytes | 3 decimals, MB = 10^6 bytes |
| GB_PER_S | bytes per nanosecond | 3 decimals, GB = 10^9 bytes |
| PCT | a ratio from 0 to 1 | percent, 2 decimals |
| CHANGE | a signed ratio, 0 for no change | percent, 2 decimals |
| FACTOR | a ratio | 4 decimals |
| TFLOPS | FLOP per nanosecond | 3 decimals, TFLOPS = 10^12 FLOP/s |
| FLOP | int | the same integer (a string beyond 2^53) |
| INTEGER | int | the same integer (a string beyond 2^53); of custom skills, which say no unit |
| NUMBER | a ratio | 6 decimals; of custom skills, which say no unit |
| TEXT | str | cleaned of control characters, capped |
| FLAG | bool | true or false |
| CITED | a value of another result, as that one shows it | the same |
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from math import isqrt
from typing import Annotated, Any

from .wire import clean_text, safe_integer

Exact = int | Fraction
"""An exact number: what a skill hands over before the one rounding."""


class Unit(Enum):
    """The unit of a column; see the module's table."""

    TEXT = "text"
    FLAG = "flag"
    ID = "id"
    COUNT = "count"
    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    BYTES = "bytes"
    MB = "mb"
    GB_PER_S = "gb_per_s"
    PCT = "pct"
    CHANGE = "change"
    FACTOR = "factor"
    TFLOPS = "tflops"
    FLOP = "flop"
    CITED = "cited"
    INTEGER = "integer"
    NUMBER = "number"


Text = Annotated[str, Unit.TEXT]
Flag = Annotated[bool, Unit.FLAG]
Id = Annotated[int, Unit.ID]
Count = Annotated[int, Unit.COUNT]
Ns = Annotated[int, Unit.NS]
Us = Annotated[float, Unit.US]
Ms = Annotated[float, Unit.MS]
S = Annotated[float, Unit.S]
Bytes = Annotated[int, Unit.BYTES]
Mb = Annotated[float, Unit.MB]
GbPerS = Annotated[float, Unit.GB_PER_S]
Pct = Annotated[float, Unit.PCT]
Change = Annotated[float, Unit.CHANGE]
Factor = Annotated[float, Unit.FACTOR]
Tflops = Annotated[float, Unit.TFLOPS]
Flop = Annotated[int, Unit.FLOP]
Cited = Annotated[float, Unit.CITED]
Integer = Annotated[int, Unit.INTEGER]
Number = Annotated[float, Unit.NUMBER]

_INTEGER = {"type": "integer"}
_LARGE_INTEGER = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]+$"}]}
_NUMBER = {"type": "number"}
_JSON_SCHEMA: dict[Unit, dict[str, Any]] = {
    Unit.TEXT: {"type": "string"},
    Unit.FLAG: {"type": "boolean"},
    Unit.ID: _INTEGER,
    Unit.COUNT: {"type": "integer", "minimum": 0},
    Unit.NS: _LARGE_INTEGER,
    Unit.BYTES: _LARGE_INTEGER,
    Unit.FLOP: _LARGE_INTEGER,
    Unit.CITED: {"anyOf": [{"type": "number"}, {"type": "string"}]},
    Unit.INTEGER: _LARGE_INTEGER,
    Unit.S: {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^-?[0-9]+\\.[0-9]{9}$"}]},
    Unit.PCT: {"type": "number", "minimum": 0, "maximum": 100},
}


_EXACT_SECONDS = 2**23
"""From here on, 97 days, neighbouring doubles are more than a nanosecond apart."""


def unit_schema(unit: Unit, nullable: bool) -> dict[str, Any]:
    """The JSON schema of one value of this unit; null is one more alternative, never a type array."""
    schema = _JSON_SCHEMA.get(unit, _NUMBER)
    if not nullable:
        return dict(schema)
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


def _decimal(value: Exact, scale: int, decimals: int) -> float:
    """value / scale, rounded half to even at `decimals`."""
    power: int = 10**decimals
    return float(round(Fraction(value) * power / scale) / power)


def _seconds(value: Exact) -> float | str:
    nanoseconds = round(value)
    if abs(nanoseconds) < _EXACT_SECONDS * 10**9:
        return nanoseconds / 10**9
    sign, magnitude = "-" if nanoseconds < 0 else "", abs(nanoseconds)
    return f"{sign}{magnitude // 10**9}.{magnitude % 10**9:09d}"


def _percent(value: Exact) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"a share of {float(value) * 100:.2f} % is outside 0 to 100")
    return round(Fraction(value) * 10_000) / 100


_PRESENT: dict[Unit, Callable[[Any], object]] = {
    Unit.TEXT: clean_text,
    Unit.FLAG: bool,
    Unit.ID: int,
    Unit.COUNT: int,
    Unit.NS: lambda v: safe_integer(round(v)),
    Unit.BYTES: lambda v: safe_integer(round(v)),
    Unit.US: lambda v: _decimal(v, 10**3, 3),
    Unit.MS: lambda v: _decimal(v, 10**6, 3),
    Unit.S: _seconds,
    Unit.MB: lambda v: _decimal(v, 10**6, 3),
    Unit.GB_PER_S: lambda v: _decimal(v, 1, 3),
    Unit.PCT: _percent,
    Unit.CHANGE: lambda v: _decimal(v * 100, 1, 2),
    Unit.FACTOR: lambda v: _decimal(v, 1, 4),
    Unit.TFLOPS: lambda v: _decimal(v, 10**3, 3),
    Unit.FLOP: lambda v: safe_integer(round(v)),
    Unit.CITED: lambda v: v,
    Unit.INTEGER: lambda v: safe_integer(round(v)),
    Unit.NUMBER: lambda v: _decimal(v, 1, 6),
}


def present(unit: Unit, value: object) -> object:
    """The value as the result shows it. None stays None. A share outside 0 to 100 % raises ValueError."""
    return None if value is None else _PRESENT[unit](value)


def ratio(numerator: Exact | None, denominator: Exact | None) -> Fraction | None:
    """numerator / denominator, exactly; None when either is unknown or the denominator is zero."""
    if numerator is None or not denominator:
        return None
    return Fraction(numerator) / Fraction(denominator)


def sample_stddev(count: int, total: int, total_of_squares: int) -> Fraction | None:
    """The sample standard deviation (n - 1) from exact integer sums; None below two values.

    sqrt((n*sum(x^2) - sum(x)^2) / (n*(n-1))), to 2^-20 of the unit: the same on every machine.
    """
    if count < 2:
        return None
    variance = Fraction(count * total_of_squares - total * total, count * (count - 1))
    return Fraction(isqrt(int(variance * 4**20)), 2**20)
