"""The command line: the same registry for people and scripts.

Modules that a command needs are imported when it runs, so that every command starts quickly.
"""

from __future__ import annotations

import click

from .. import DISTRIBUTION, version
from .cache import cache
from .captures import info, ingest
from .demo import demo
from .evidence import evidence
from .serve import serve
from .skill import skill


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version(), prog_name=DISTRIBUTION)
def cli() -> None:
    """Answers about NVIDIA Nsight Systems captures, in numbers that can be cited and checked."""


for _command in (serve, demo, skill, ingest, cache, info, evidence):
    cli.add_command(_command)


def main() -> None:
    """The entry point of the command `nsys-evidence`."""
    cli(prog_name=DISTRIBUTION)
