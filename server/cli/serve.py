"""`serve`: the MCP server."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from .running import chosen_nsys, nsys_option


@click.command()
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Open captures only from this directory (repeatable); from anywhere without it.",
)
@nsys_option
def serve(roots: tuple[Path, ...]) -> None:
    """Serve MCP over stdin and stdout."""
    if sys.stdin.isatty():
        click.echo("Serving MCP on stdin and stdout: an MCP client starts this command. Ctrl-C ends it.", err=True)
    from ..stdio import serve_stdio
    from ..workspace import open_workspace

    serve_stdio(partial(open_workspace, roots, nsys=chosen_nsys()))
