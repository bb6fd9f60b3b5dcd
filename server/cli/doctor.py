"""`doctor`: whether this machine, or a capture, is in order."""

from __future__ import annotations

import click

from .running import FAILED, coded, format_option, nsys_option
from .skill import answer, find_skill


@click.command()
@click.argument("capture", required=False)
@click.option("--strict", is_flag=True, help="Exit 1 when a check warns or fails; what was not recorded does neither.")
@nsys_option
@format_option
@coded
def doctor(capture: str | None, strict: bool, as_json: bool) -> None:
    """Check a capture, or without one this machine: libraries, nsys, cache."""
    totals = answer(find_skill("doctor"), {"profile": capture}, as_json)["totals"]
    if strict and (totals["warn"] or totals["fail"]):
        raise click.exceptions.Exit(FAILED)
