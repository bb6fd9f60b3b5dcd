"""The command line: the same registry for people and scripts.

Modules that a command needs are imported when it runs, so that every command starts quickly.
"""

from __future__ import annotations

import io
import os
import sys

import click

from .. import DISTRIBUTION, version
from .cache import cache
from .captures import info, ingest
from .demo import demo
from .doctor import doctor
from .evidence import evidence
from .running import FAILED
from .serve import serve
from .skill import skill


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version(), prog_name=DISTRIBUTION)
def cli() -> None:
    """Answers about NVIDIA Nsight Systems captures, in numbers that can be cited and checked."""


for _command in (serve, demo, skill, ingest, cache, info, doctor, evidence):
    cli.add_command(_command)


def main() -> None:
    """The entry point of the command `nsys-evidence`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names in a capture know no locale
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        cli(prog_name=DISTRIBUTION)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that nothing is tried again at the end
        click.echo(f"{DISTRIBUTION}: the output cannot be written: {error.strerror}", err=True)
        sys.exit(FAILED)
