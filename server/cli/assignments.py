"""From options and KEY=VALUE assignments to the arguments of a tool."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ...tools.registry import Skill


def given_arguments(skill: Skill, scope: Mapping[str, object], assignments: Iterable[str]) -> dict[str, object]:
    """The arguments of a call: options that were given and assignments. They are checked with the call, not here."""
    from ...tools.arguments import input_schema

    arguments = {name: value for name, value in scope.items() if value is not None}
    if isinstance(trim := arguments.get("trim"), tuple):
        arguments["trim"] = [seconds(text) for text in trim]
    properties = input_schema(skill)["properties"]
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not (name and equals):
            raise click.UsageError(f"-p takes KEY=VALUE, not {assignment!r}")
        if name in arguments:
            raise click.UsageError(f"{name} is given twice")
        arguments[name] = parameter(text, properties.get(name, {}))
    return arguments


def parameter(text: str, schema: Mapping[str, object]) -> object:
    """The value of an assignment: text where the parameter is one, else JSON, else text."""
    if schema.get("type") == "string":
        return text
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def seconds(text: str) -> object:
    """Seconds as a JSON number where that loses no digit, else the text itself."""
    try:
        value = json.loads(text)
        exact = isinstance(value, int | float) and math.isfinite(value) and Decimal(str(value)) == Decimal(text)
    except (ValueError, InvalidOperation):
        return text
    return value if exact else text
