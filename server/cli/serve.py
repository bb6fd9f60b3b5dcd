"""`serve`: the MCP server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click


@click.command()
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Open captures only from this directory (repeatable); from anywhere without it.",
)
def serve(roots: tuple[Path, ...]) -> None:
    """Serve MCP over stdin and stdout."""
    from ..stdio import serve_stdio
    from ..workspace import open_workspace

    serve_stdio(partial(open_workspace, roots))
