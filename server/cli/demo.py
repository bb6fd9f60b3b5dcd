"""`demo`: a small capture with known truths, the first answers about it, and how to add the server to a client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .running import FAILED, coded, user_workspace

if TYPE_CHECKING:
    from ...ingest.synthetic import Truth
    from .planted import Claim

DEFAULT_FILE = "nsys-evidence-demo.sqlite"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=DEFAULT_FILE)
@coded
def demo(file: Path) -> None:
    """Write a small capture with planted, known truths to FILE and run the first skills on it.

    Exits with 1 if an answer were to differ from what was planted.
    """
    from .clients import client_lines, server_command
    from .planted import claims
    from .render import console, say, show_envelope
    from .skill import find_skill

    truth = write_demo(file)
    out = console()
    say(out, f"Wrote {file}: eight training steps of two ranks on two GPUs, with everything about them known.")
    answers: dict[str, Mapping[str, Any]] = {}
    with user_workspace() as workspace:
        from ...tools.run import run_skill

        for name in ("top_kernels", "gpu_idle_gaps"):
            answers[name] = run_skill(find_skill(name), {"profile": str(file)}, workspace)
            say(out, f"\n$ nsys-evidence skill run {name} {file}")
            show_envelope(out, answers[name])
        kept = workspace.ledger.get(answers["top_kernels"]["evidence"])
    say(out, "\nWhat was planted, and what was answered:")
    found = claims(truth, answers, full_names=kept[1] if kept else {})
    for claim in found:
        _show(claim)
    say(out, "\nTo ask from an agent, add the server:")
    for client, lines in client_lines(server_command()):
        say(out, f"\n{client}:\n\n{lines}")
    if not all(claim.agrees for claim in found):
        raise click.exceptions.Exit(FAILED)


def _show(claim: Claim) -> None:
    click.echo(f"  {claim.what}")
    click.echo(f"    planted:  {claim.planted}")
    click.echo(f"    answered: {claim.answered}  [{claim.address}]{'' if claim.agrees else '  DIFFERS'}")


def write_demo(file: Path) -> Truth:
    """Write the demo capture, and return what is true of it. A file of other content is never overwritten."""
    import tempfile

    from ...ingest.synthetic import demo_capture, write_sqlite

    capture, truth = demo_capture()
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".nsys-evidence-") as directory:
            fresh = write_sqlite(capture, Path(directory) / "demo.sqlite")
            if not file.exists():
                fresh.replace(file)
            elif file.read_bytes() != fresh.read_bytes():
                raise click.UsageError(f"{file} exists and is no demo capture: give the name of a new file")
    except OSError as error:
        raise click.UsageError(
            f"{file} cannot be written ({error.strerror}): give a file in another directory"
        ) from None
    return truth
