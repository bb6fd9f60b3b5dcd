"""The skills in words: the line that a tool shows, and the pages of the reference, as Markdown."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from itertools import groupby

from ..contracts.columns import NoTotals, Row, columns_of
from ..contracts.glossary import WORDS_FOR_TIME
from ..tools.arguments import input_schema
from ..tools.capture_hints import KIND_NAMES
from ..tools.registry import Skill

_WORDS = "".join(f"\n| {word} | {meaning} |" for word, meaning in WORDS_FOR_TIME.items())

INTRODUCTION = f"""\
Every skill that takes a profile takes `profile` (path or profile id); most take `device`, `trim`, `iteration` and
`marker`, which choose what is looked at, and `max_rows` and `offset`, which choose what is shown. Units stand in column
names: ns, µs, ms and s are time; MB is 10^6 and GB 10^9 bytes; a percentage says what it is a share of. `null` is
unknown, never zero.

## Words for time

| word | meaning |
|---|---|{_WORDS}
"""
"""What holds for all skills."""


def describe(skill: Skill) -> str:
    """The description of a tool: when to use it, and what a capture must hold for it."""
    needs = " and ".join(KIND_NAMES[kind] for kind in skill.needs)
    return f"{skill.when} Needs {needs}." if needs else skill.when


def contents_page(skills: Mapping[str, Skill], address: str) -> str:
    """What holds for all skills, and a line for each with a link to its page, at `address` with its name filled in."""
    parts = ["# Skills\n", INTRODUCTION]
    for category in dict.fromkeys(skill.category for skill in skills.values()):
        found = [skill for skill in skills.values() if skill.category == category]
        parts.append(f"## {category}\n")
        parts += [f"- [`{s.name}`]({address.format(name=s.name)}): {describe(s)}" for s in found]
        parts.append("")
    return "\n".join(parts)


def skill_page(skill: Skill, level: int) -> list[str]:
    """The lines of a skill's page, its heading at this level: parameters, columns with units, and how to read it."""
    lines = [f"{'#' * level} {skill.name}\n", f"**{skill.title}.** {describe(skill)}\n"]
    own = {name: body for name, body in input_schema(skill)["properties"].items() if name in skill.params.model_fields}
    if own:
        lines += ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        for name, body in own.items():
            default = "required" if name in input_schema(skill)["required"] else json.dumps(body.get("default"))
            kind = ", ".join(map(str, body["enum"])) if "enum" in body else body.get("type", "")
            lines.append(f"| `{name}` | {kind} | {default} | {body.get('description', '')} |")
        lines.append("")
    if skill.row is not None:
        lines += _columns("Rows", skill.row)
    if skill.totals is not NoTotals:
        lines += _columns("Totals", skill.totals)
    for name, model in skill.tables.items():
        lines += _columns(f"Table `{name}`", model)
    return [*lines, inspect.cleandoc(skill.reading), ""]


def _columns(title: str, model: type[Row]) -> list[str]:
    lines = [f"{title}:\n", "| column | unit | meaning |", "|---|---|---|"]
    for c in columns_of(model):
        meaning = f"{c.meaning} (of {c.of})" if c.of else c.meaning
        lines.append(f"| `{c.name}` | {c.unit.value}{', or null' if c.nullable else ''} | {meaning} |")
    return [*lines, ""]


def thresholds_page(level: int) -> list[str]:
    """The lines of what decides in results: thresholds, tables of name patterns, and the peak rates of GPUs."""
    from ..tools.thresholds.kinds import all_tables

    thresholds, patterns = all_tables()
    lines = [
        f"{'#' * level} Thresholds and patterns\n",
        "Numbers and names that decide something in a result. They are chosen, not measured, and the same for every",
        "capture.\n",
        "| threshold | value | decides | skills |",
        "|---|---|---|---|",
    ]
    lines += [f"| {t.name} | {t.value} {t.unit} | {_cell(t.decides)} | {_names(t.skills)} |" for t in thresholds]
    lines.append("")
    for table in patterns:
        lines += [
            f"{'#' * (level + 1)} Patterns: {table.name}\n",
            f"Read from the top: the first that matches decides. Matching: {table.how}.",
            f"Used by {_names(table.skills)}.\n",
            "| pattern | says |",
            "|---|---|",
        ]
        for says, rows in groupby(table.rows, key=lambda row: row[1]):
            lines.append(f"| {', '.join(f'`{_cell(pattern)}`' for pattern, _ in rows)} | {_cell(says)} |")
        lines.append("")
    return lines


def peaks_page(level: int) -> list[str]:
    """The lines of the table of GPUs: peak rates and the documents that they are from."""
    from ..tools.gpus.peaks import GPUS, PRECISIONS

    lines = [
        f"{'#' * level} Peak rates of GPUs\n",
        "What `region_mfu` and `arithmetic_intensity` compare with. Rates are dense, in TFLOPS (int8: TOPS), at the",
        "boost clock of the document; ½ marks one that the document gives with sparsity only, halved. fp16, bf16 and",
        "fp8 accumulate in fp32. An empty cell is a rate that is not given, or not there. The device name is matched",
        'whole, without a leading "NVIDIA " or "Tesla ". A GPU that is not listed has no peak: give `peak_tflops`.\n',
        f"| GPU | device name | GB | GB/s | {' | '.join(PRECISIONS)} | document |",
        "|---|---|---|---|" + "---|" * (len(PRECISIONS) + 1),
    ]
    for gpu in GPUS:
        names = ", ".join(f"`{_cell(name)}`" for name in gpu.names)
        rates = []
        for precision in PRECISIONS:
            peak = gpu.peak(precision)
            rates.append("" if peak is None else f"{peak / 1000:g}{' ½' if precision in gpu.halved else ''}")
        lines.append(
            f"| {gpu.product} | {names} | {gpu.memory_gb} | {gpu.gb_per_s} | {' | '.join(rates)} | {gpu.reference} |"
        )
    return [*lines, ""]


def _names(skills: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in skills)


def _cell(text: str) -> str:
    """Text that stands in a cell of a table."""
    return text.replace("|", "\\|")
