"""`skill`: list the skills, explain one, run one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import click

from .assignments import given_arguments
from .running import coded, format_option, nsys_option, user_workspace

if TYPE_CHECKING:
    from ...tools.registry import Skill
    from ...tools.run import Envelope


@click.group()
def skill() -> None:
    """List, explain and run the skills."""


@skill.command("list")
@format_option
@coded
def list_skills(as_json: bool) -> None:
    """All skills, in the order of the tools."""
    from ...contracts.wire import dump_json
    from ...tools.registry import all_skills
    from .render import console, show_table

    found = all_skills().values()
    if as_json:
        entries = [{"name": s.name, "category": s.category, "title": s.title, "when": s.when} for s in found]
        click.echo(dump_json(entries))
    else:
        show_table(console(), ["skill", "category", "when"], [[s.name, s.category, s.when] for s in found])


@skill.command()
@click.argument("name")
@format_option
@coded
def info(name: str, as_json: bool) -> None:
    """What a skill answers, its parameters and its columns."""
    from .reference import show_reference, tool_json

    found = find_skill(name)
    if as_json:
        click.echo(tool_json(found))
    else:
        show_reference(found)


@skill.command()
@click.argument("name")
@click.argument("capture", required=False)
@click.option("-p", "assignments", multiple=True, metavar="KEY=VALUE", help="A parameter of the skill (repeatable).")
@click.option("--device", type=int, help="One device id; all devices without it.")
@click.option("--trim", nargs=2, metavar="START END", help="A window in seconds on the capture clock.")
@click.option("--iteration", type=int, help="A zero-based iteration as the window.")
@click.option("--marker", help="The NVTX range that bounds iterations.")
@click.option("--max-rows", type=int, help="Rows to show, 200 at most.")
@click.option("--offset", type=int, help="Rows to pass over.")
@nsys_option
@format_option
@coded
def run(name: str, capture: str | None, assignments: tuple[str, ...], as_json: bool, **scope: Any) -> None:
    """Run a skill on a capture, given by path or profile id."""
    found = find_skill(name)
    if found.profile and not found.without_profile and capture is None:
        raise click.UsageError(f"{name} needs a CAPTURE: a path or a profile id")
    if capture is not None and not found.profile:
        raise click.UsageError(f"{name} takes no CAPTURE")
    answer(found, given_arguments(found, {"profile": capture, **scope}, assignments), as_json)


def find_skill(name: str) -> Skill:
    """The skill of this name; a usage error that names the nearest ones when there is none."""
    from ...tools.registry import all_skills

    skills = all_skills()
    if name not in skills:
        near = difflib.get_close_matches(name, skills, 3, cutoff=0.4)
        nearest = f"nearest: {', '.join(near)}; " if near else ""
        raise click.UsageError(f"there is no skill {name!r}; {nearest}nsys-evidence skill list names all")
    return skills[name]


def answer(found: Skill, arguments: dict[str, object], as_json: bool) -> Envelope:
    """Run a skill and print its result."""
    from ...contracts.wire import dump_json
    from ...tools.run import run_skill

    with user_workspace() as workspace:
        envelope = run_skill(found, arguments, workspace)
    if as_json:
        click.echo(dump_json(envelope))
    else:
        from .render import console, show_envelope

        show_envelope(console(), envelope)
    return envelope
