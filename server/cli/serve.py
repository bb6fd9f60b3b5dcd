"""`serve`: the MCP server."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from ..address import Address, parse_address
from ..surface import Surface, parse_toolsets
from .running import chosen_nsys, chosen_skills, nsys_option, skills_option


def _address(_context: click.Context, _option: click.Parameter, text: str | None) -> Address | None:
    try:
        return None if text is None else parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _toolsets(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    try:
        return () if text is None else parse_toolsets(text)
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
@click.option(
    "--surface",
    "shape",
    type=click.Choice(["full", "compact"]),
    default="full",
    show_default=True,
    help="A tool for every skill; or, for clients with a limit on tools, list_skills, describe_skill, run_skill, "
    "get_evidence and profile_info, which reach every skill.",
)
@click.option(
    "--toolsets",
    metavar="A,B",
    callback=_toolsets,
    help="Only the skills of these categories: utility, kernels, memory, communication, nvtx, system, bottlenecks, "
    "utilisation, analysis; and custom, when there are custom skills. get_evidence, profile_info and list_profiles are "
    "always there.",
)
@nsys_option
@skills_option
def serve(address: Address | None, roots: tuple[Path, ...], shape: str, toolsets: tuple[str, ...]) -> None:
    """Serve MCP over stdin and stdout, or over HTTP.

    What is offered is settled here, and never changes while the server runs.
    """
    from ..workspace import open_workspace

    surface = Surface(toolsets, shape == "compact", chosen_skills())
    if address is not None:
        if not roots:
            raise click.UsageError("--http needs --root DIR: whoever can connect may read captures, but only below it")
        _serve_http(roots, address, surface)
        return
    if sys.stdin.isatty():
        click.echo("Serving MCP on stdin and stdout: an MCP client starts this command. Ctrl-C ends it.", err=True)
    from ..stdio import serve_stdio

    serve_stdio(partial(open_workspace, roots, nsys=chosen_nsys()), surface=surface)


def _serve_http(roots: tuple[Path, ...], address: Address, surface: Surface) -> None:
    from ..http import serve_http
    from ..workspace import open_workspace

    try:
        serve_http(partial(open_workspace, roots, nsys=chosen_nsys()), address, surface=surface)
    except OSError as error:
        raise click.ClickException(f"{address.host}:{address.port} cannot be listened on: {error.strerror}") from None
