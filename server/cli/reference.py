"""One skill explained: parameters, columns with their units and meanings, and how to read the result."""

from __future__ import annotations

import inspect
import json

from rich.console import Console

from ...contracts.columns import NoTotals, Row, columns_of
from ...contracts.wire import dump_json
from ...tools.arguments import input_schema
from ...tools.registry import Skill
from ..catalogue import output_schema
from ..pages import describe
from .render import console, say, show_table


def tool_json(skill: Skill) -> str:
    """The tool of a skill as clients see it."""
    return dump_json(
        {
            "name": skill.name,
            "title": skill.title,
            "description": describe(skill),
            "inputSchema": input_schema(skill),
            "outputSchema": output_schema(skill),
        }
    )


def show_reference(skill: Skill) -> None:
    """Print the reference of a skill."""
    out = console()
    say(out, f"{skill.name} ({skill.category}): {skill.title}")
    say(out, describe(skill))
    schema = input_schema(skill)
    if schema["properties"]:
        say(out, "\nparameters:")
        rows = []
        for name, body in schema["properties"].items():
            default = (
                "required" if name in schema["required"] else json.dumps(body["default"]) if "default" in body else ""
            )
            rows.append([name, _type(body), default, body.get("description", "")])
        show_table(out, ["name", "type", "default", "meaning"], rows)
    if skill.row is not None:
        _show_model(out, "rows", skill.row)
    if skill.totals is not NoTotals:
        _show_model(out, "totals", skill.totals)
    for name, model in skill.tables.items():
        _show_model(out, f"table {name}", model)
    if skill.reading:
        say(out, "\n" + inspect.cleandoc(skill.reading))
    if skill.next:
        say(out, f"\nnext: {', '.join(skill.next)}")


def _show_model(out: Console, title: str, model: type[Row]) -> None:
    say(out, f"\n{title}:")
    rows = [
        [c.name, c.unit.value, "yes" if c.nullable else "", c.meaning + (f" (% of {c.of})" if c.of else "")]
        for c in columns_of(model)
    ]
    show_table(out, ["column", "unit", "may be null", "meaning"], rows)


def _type(schema: dict[str, object]) -> str:
    if isinstance(options := schema.get("enum"), list):
        return " | ".join(map(str, options))
    if isinstance(branches := schema.get("anyOf"), list):
        return " or ".join(_type(branch) for branch in branches)
    return str(schema.get("type", "any"))
