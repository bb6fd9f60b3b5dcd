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
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP on a loopback address; needs --root.")
@nsys_option
def serve(roots: tuple[Path, ...], http: str | None) -> None:
    """Serve MCP over stdin and stdout, or over HTTP."""
    if http is not None:
        _serve_http(http, roots)
        return
    if sys.stdin.isatty():
        click.echo("Serving MCP on stdin and stdout: an MCP client starts this command. Ctrl-C ends it.", err=True)
    from ..stdio import serve_stdio
    from ..workspace import open_workspace

    serve_stdio(partial(open_workspace, roots, nsys=chosen_nsys()))


def _serve_http(http: str, roots: tuple[Path, ...]) -> None:
    from ..http import parse_address, serve_http
    from ..workspace import open_workspace

    try:
        address = parse_address(http)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--http") from None
    if not roots:
        raise click.UsageError(
            "--http needs --root: the directory, or directories, that clients may open captures from"
        )
    try:
        serve_http(partial(open_workspace, roots, nsys=chosen_nsys()), address)
    except OSError as error:
        raise click.ClickException(f"{http} cannot be served: {error.strerror}") from None
