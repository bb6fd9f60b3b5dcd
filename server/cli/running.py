"""What commands share: the workspace, errors with their exit codes, the format of the output, progress."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import click

from ...contracts.errors import ErrorCode, EvidenceError

if TYPE_CHECKING:
    from ...tools.workspace import Workspace

P = ParamSpec("P")
R = TypeVar("R")

FAILED = 1
"""Exit code of a command that failed; 0 is for one that ran, also where it abstained, and 2 for wrong usage."""


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--format table|json`, handed over as `as_json`."""
    return click.option(
        "--format",
        "as_json",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        callback=lambda _context, _option, value: value == "json",
        help="For reading, or the tool's own JSON.",
    )(command)


_NSYS = f"{__name__}.nsys"
"""Where the choice of `--nsys` stands in click's context."""


def nsys_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--nsys PROGRAM`, for `chosen_nsys`."""
    return click.option(
        "--nsys",
        type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
        expose_value=False,
        callback=lambda context, _option, value: context.meta.update({_NSYS: value}),
        help="The nsys that exports reports; else NSYS_EVIDENCE_NSYS, PATH, the usual places.",
    )(command)


def chosen_nsys() -> Path | None:
    """What `--nsys` named, if anything."""
    chosen: Path | None = click.get_current_context().meta.get(_NSYS)
    return chosen


_SKILLS = f"{__name__}.skills"
"""Where the choice of `--skills-dir` stands in click's context."""


def skills_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--skills-dir DIR`, for `chosen_skills`."""
    return click.option(
        "--skills-dir",
        type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
        expose_value=False,
        callback=lambda context, _option, value: context.meta.update({_SKILLS: value}),
        help="The directory of custom skills; else NSYS_EVIDENCE_SKILLS_DIR, else the user's configuration directory.",
    )(command)


def chosen_skills() -> Path:
    """The directory of custom skills."""
    from ...tools.custom.place import skills_directory

    return skills_directory(click.get_current_context().meta.get(_SKILLS))


def coded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what goes wrong into a coded error on stderr, or on stdout where JSON was asked for, and exit code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except EvidenceError as error:
            fail(error, as_json=bool(kwargs.get("as_json")))
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            from ..log import describe_failure

            click.echo(f"nsys-evidence: {describe_failure(error)}", err=True)
            fail(unforeseen(), as_json=bool(kwargs.get("as_json")))

    return run


def unforeseen() -> EvidenceError:
    """The error for what was not foreseen."""
    return EvidenceError(
        ErrorCode.INTERNAL,
        "the command failed in a way that it should not",
        "stderr names the place; please report it with the output of nsys-evidence info CAPTURE",
    )


def show_error(error: EvidenceError, as_json: bool) -> None:
    """Print a coded error."""
    if as_json:
        click.echo(error.to_json())
    else:
        click.echo(f"{error.code.value}: {error.message}\nhint: {error.hint}", err=True)


def fail(error: EvidenceError, as_json: bool) -> NoReturn:
    """Print a coded error and end the command."""
    show_error(error, as_json)
    raise click.exceptions.Exit(FAILED)


@contextmanager
def user_workspace() -> Iterator[Workspace]:
    """The user's library and ledger, with progress of an ingest on a terminal."""
    from ..workspace import open_workspace

    with terminal_progress() as progress:
        yield open_workspace(progress=progress, nsys=chosen_nsys())


@contextmanager
def terminal_progress() -> Iterator[Callable[[float, str], None] | None]:
    """Progress on one line of stderr, wiped at the end; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(share: float, what: str) -> None:
        sys.stderr.write(f"\r\x1b[K{share:4.0%}  {what}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
