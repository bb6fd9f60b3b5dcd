"""A result for reading: its scope, rows with their numbers, totals, notes and the evidence id to cite."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 4_000
"""Width of output that goes to no terminal: no row is ever folded there."""


_NARROWEST_TEXT = 16
"""Characters that a text is not folded below."""

_PADDING = 3
"""Characters between two columns."""


def console() -> Console:
    """A console on stdout that takes texts from captures as they are: no markup, no emoji, no colour in a pipe."""
    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        force_terminal=terminal,
        width=None if terminal else WIDE,
        markup=False,
        emoji=False,
        highlight=False,
    )


def show_envelope(out: Console, envelope: Mapping[str, Any]) -> None:
    """Print a result."""
    say(out, _headline(envelope))
    if scope := envelope["scope"]:
        devices = ", ".join(map(str, scope["devices"])) or "none"
        say(
            out,
            f"scope: {scope['by']}, {scope['start_s']} s to {scope['end_s']} s, span {scope['span_ms']} ms, "
            f"devices {devices}",
        )
    if reason := envelope.get("reason"):
        say(out, f"reason: {reason}")
        say(out, f"missing: {', '.join(envelope['missing'])}")
        say(out, f"to record it: {envelope['capture_hint']}")
    _show_part(out, envelope)
    for name, table in envelope["tables"].items():
        _show_part(out, table, name)
    for column, whole in envelope["of"].items():
        table, dot, _ = column.partition(".")
        if not dot or table == "totals" or table in envelope["tables"]:
            say(out, f"{column}: % of {whole}")
    for note in envelope["notes"]:
        say(out, f"note: {note}")
    if envelope["next"]:
        say(out, f"next: {', '.join(envelope['next'])}")
    say(out, f"evidence: {envelope['evidence']}")


def say(out: Console, line: str) -> None:
    """Print one line, however long, as it is."""
    out.print(Text(line), soft_wrap=True)


def show_table(out: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their column names; columns without any text are aligned to the right.

    Texts are folded to fit a terminal, numbers and names of columns never: where they do not fit, the whole table is as
    wide as it needs to be, and the terminal wraps its lines.
    """
    if not columns:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    decimals = []
    needed = 0
    for index, name in enumerate(columns):
        values = [row[index] for row in rows]
        textual = any(isinstance(value, str) for value in values)
        decimals.append(max((_decimals(value) for value in values), default=0))
        natural = max([cell_len(shown(value, decimals[-1])) for value in values], default=0)
        least = max(cell_len(name), min(natural, _NARROWEST_TEXT) if textual else natural)
        needed += least + _PADDING
        justify: Literal["left", "right"] = "left" if textual else "right"
        table.add_column(Text(name), justify=justify, no_wrap=not textual, overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(Text(shown(value, places)) for value, places in zip(row, decimals, strict=True)))
    if needed > out.width:
        out = Console(file=out.file, force_terminal=out.is_terminal, no_color=out.color_system is None, width=WIDE)
    out.print(table)


def shown(value: object, decimals: int = 0) -> str:
    """A value of a result as text: numbers to the digit, with at least so many decimals, unknown as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and _decimals(value) < decimals:
        return f"{value:.{decimals}f}"
    return str(value)


def _decimals(value: object) -> int:
    """Decimals that a float is written with; 0 for everything else, exponents among it."""
    return len(str(value).partition(".")[2]) if isinstance(value, float) and "e" not in str(value) else 0


def _headline(envelope: Mapping[str, Any]) -> str:
    profile = envelope["profile"]
    where = f" of {profile['name']} ({profile['id']})" if profile else ""
    return f"{envelope['skill']}{where}: {envelope['status']}"


def _show_part(out: Console, part: Mapping[str, Any], name: str | None = None) -> None:
    """Rows, totals and truncation of a result or of one of its tables; rows are numbered as cells are addressed."""
    say(out, f"\n{name}:" if name else "")
    if part["rows"]:
        show_table(out, ["row", *part["columns"]], [[number, *row] for number, row in enumerate(part["rows"])])
    if cut := part["truncation"]:
        following = f"; next page: offset {cut['next_offset']}" if cut["next_offset"] is not None else ""
        say(out, f"shown: {cut['shown_rows']} of {cut['total_rows']} rows{following}")
    if totals := part["totals"]:
        say(out, "totals: " + ", ".join(f"{key} {shown(value)}" for key, value in totals.items()))
