"""`serve`: the MCP server."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from ..address import Address, parse_address
from .running import chosen_nsys, chosen_skills, nsys_option, skills_option


def _address(_context: click.Context, _option: click.Parameter, text: str | None) -> Address | None:
    try:
        return None if text is None else parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    callback=_address,
    help="Serve over streamable HTTP at http://HOST:PORT/mcp, on this machine only. Needs --root.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Open captures only from this directory (repeatable); from anywhere without it.",
)
@nsys_option
@skills_option
def serve(address: Address | None, roots: tuple[Path, ...]) -> None:
    """Serve MCP over stdin and stdout, or over HTTP."""
    from ..workspace import open_workspace

    if address is not None:
        if not roots:
            raise click.UsageError("--http needs --root DIR: whoever can connect may read captures, but only below it")
        _serve_http(roots, address)
        return
    if sys.stdin.isatty():
        click.echo("Serving MCP on stdin and stdout: an MCP client starts this command. Ctrl-C ends it.", err=True)
    from ..stdio import serve_stdio

    serve_stdio(partial(open_workspace, roots, nsys=chosen_nsys()), chosen_skills())


def _serve_http(roots: tuple[Path, ...], address: Address) -> None:
    from ..http import serve_http
    from ..workspace import open_workspace

    try:
        serve_http(partial(open_workspace, roots, nsys=chosen_nsys()), address, chosen_skills())
    except OSError as error:
        raise click.ClickException(f"{address.host}:{address.port} cannot be listened on: {error.strerror}") from None
