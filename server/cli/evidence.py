"""`evidence`: a kept result, by its id."""

from __future__ import annotations

import click

from .running import coded, format_option
from .skill import answer, find_skill


@click.command()
@click.argument("evidence_id", metavar="EV-ID")
@format_option
@coded
def evidence(evidence_id: str, as_json: bool) -> None:
    """Show again the result that an evidence id stands for."""
    answer(find_skill("get_evidence"), {"id": evidence_id}, as_json)
