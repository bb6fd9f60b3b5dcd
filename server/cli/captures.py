"""`ingest` and `info`: take captures in, and say what is in one."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ...contracts.errors import EvidenceError
from .running import FAILED, coded, format_option, nsys_option, show_error, user_workspace
from .skill import answer, find_skill

EVENT_TABLES = ("kernels", "copies", "sets", "graphs", "calls", "syncs", "osrt", "nvtx_ranges", "nvtx_spans")
"""The canonical tables whose rows are events; the others hold names or are derived."""


@click.command()
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option(
    "-o", "directory", type=click.Path(path_type=Path), help="Write the profile of one capture to a new directory too."
)
@nsys_option
@format_option
@coded
def ingest(captures: tuple[str, ...], directory: Path | None, as_json: bool) -> None:
    """Take captures into the cache: one line each, with its profile id and its number of events.

    A capture that cannot be taken in does not keep the others out. How long each took goes to stderr. The directory
    that -o writes is a capture like any other: copied to another machine it gives the same answers there.
    """
    from ...contracts.wire import clean_text, dump_json
    from ...ingest.canonical import write_out

    if directory is not None and len(captures) > 1:
        raise click.BadParameter("it takes one capture at a time", param_hint="-o")
    failed = False
    with user_workspace() as workspace:
        for capture in captures:
            began = time.monotonic()
            try:
                profile = workspace.library.open(capture, progress=workspace.progress)
                if directory is not None:
                    write_out(profile.directory, directory)
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
@nsys_option
@format_option
@coded
def info(capture: str, as_json: bool) -> None:
    """What a capture holds: devices, windows, events, and what was not recorded."""
    answer(find_skill("profile_info"), {"profile": capture}, as_json)
