"""`ingest` and `info`: take captures in, and say what is in one."""

from __future__ import annotations

import time

import click

from ...contracts.errors import EvidenceError
from .running import FAILED, coded, format_option, show_error, user_workspace
from .skill import answer, find_skill

EVENT_TABLES = ("kernels", "copies", "sets", "graphs", "calls", "syncs", "osrt", "nvtx_ranges", "nvtx_spans")
"""The canonical tables whose rows are events; the others hold names or are derived."""


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@format_option
@coded
def ingest(captures: tuple[str, ...], as_json: bool) -> None:
    """Take captures into the cache: one line each, with its profile id and its number of events.

    A capture that cannot be taken in does not keep the others out. How long each took goes to stderr.
    """
    from ...contracts.wire import clean_text, dump_json

    failed = False
    with user_workspace() as workspace:
        for capture in captures:
            began = time.monotonic()
            try:
                profile = workspace.library.open(capture, progress=workspace.progress)
            except EvidenceError as error:
                failed = True
                show_error(error, as_json)
                continue
            name, events = clean_text(profile.name), count_events(profile.manifest.rows)
            if as_json:
                click.echo(dump_json({"profile": profile.id, "name": name, "events": events}))
            else:
                click.echo(f"{profile.id}  {events} events  {name}")
            click.echo(f"{name}: {time.monotonic() - began:.2f} s", err=True)
    if failed:
        raise click.exceptions.Exit(FAILED)


def count_events(rows: dict[str, int]) -> int:
    """Events of a capture, from the rows of its canonical tables."""
    return sum(rows.get(table, 0) for table in EVENT_TABLES)


@click.command()
@click.argument("capture")
@format_option
@coded
def info(capture: str, as_json: bool) -> None:
    """What a capture holds: devices, windows, events, and what was not recorded."""
    answer(find_skill("profile_info"), {"profile": capture}, as_json)
