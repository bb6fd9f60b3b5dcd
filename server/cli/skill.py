"""`skill`: list the skills, explain one, run one; add, remove and save custom ones."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .assignments import given_arguments
from .running import chosen_skills, coded, format_option, nsys_option, skills_option, user_workspace

if TYPE_CHECKING:
    from ...tools.registry import Skill
    from ...tools.run import Envelope


@click.group()
def skill() -> None:
    """List, explain and run the skills; add skills of your own."""


@skill.command("list")
@skills_option
@format_option
@coded
def list_skills(as_json: bool) -> None:
    """All skills, in the order of the tools."""
    from ...contracts.wire import dump_json
    from ...tools.custom.folder import load_skills
    from ...tools.registry import all_skills
    from .render import console, show_table

    custom = load_skills(chosen_skills())
    found = [*all_skills().values(), *custom.skills.values()]
    if as_json:
        entries = [{"name": s.name, "category": s.category, "title": s.title, "when": s.when} for s in found]
        click.echo(dump_json(entries))
    else:
        show_table(console(), ["skill", "category", "when"], [[s.name, s.category, s.when] for s in found])
    for name, error in custom.refused.items():
        click.echo(f"{name} is left out: {error.code.value}: {error.message}\nhint: {error.hint}", err=True)


@skill.command()
@click.argument("name")
@skills_option
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
@skills_option
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


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@skill.command()
@click.argument("file", type=_FILE, metavar="FILE.md")
@click.option("--replace", is_flag=True, help="Replace the custom skill of this name.")
@skills_option
@coded
def add(file: Path, replace: bool) -> None:
    """Check a custom skill and copy it into the directory of custom skills.

    The file is Markdown: # name, ## Description, ## Category, ## Parameters (optional) and ## SQL with one SELECT over
    the canonical tables in a fence. A file that is wrong is refused with the line that is wrong.

    The directory is --skills-dir, else NSYS_EVIDENCE_SKILLS_DIR, else "skills" in the user's configuration directory
    for nsys-evidence. It is made if it is not there. Servers that start afterwards have the skill as a tool.
    """
    from ...tools.custom.folder import add_skill

    directory = chosen_skills()
    try:
        added, target = add_skill(file, directory, replace)
    except FileExistsError as error:
        raise click.UsageError(f"there is a custom skill {error} already; --replace replaces it") from None
    except OSError as error:
        raise _failed(directory, error) from None
    click.echo(f"{added.name} is in {target}; run it with: nsys-evidence skill run {added.name} CAPTURE")


@skill.command()
@click.argument("name")
@skills_option
@coded
def remove(name: str) -> None:
    """Remove a custom skill from the directory of custom skills."""
    path = _file_of(name)
    try:
        path.unlink()
    except OSError as error:
        raise _failed(path, error) from None
    click.echo(f"{name} is removed")


@skill.command()
@click.argument("name")
@click.option(
    "-o", "target", required=True, metavar="FILE.md", type=click.Path(dir_okay=False, path_type=Path), help="Where to."
)
@click.option("--replace", is_flag=True, help="Replace the file if it is there.")
@skills_option
@coded
def save(name: str, target: Path, replace: bool) -> None:
    """Write the Markdown of a custom skill to a file, to edit it or to hand it on."""
    from ...tools.custom.folder import write_whole

    path = _file_of(name)
    if target.exists() and not replace:
        raise click.UsageError(f"{target} is there already; --replace replaces it")
    try:
        write_whole(target, path.read_bytes())
    except OSError as error:
        raise _failed(target, error) from None
    click.echo(f"{name} is saved to {target}")


def _failed(path: Path, error: OSError) -> click.ClickException:
    return click.ClickException(f"{path}: {error.strerror}")


def _file_of(name: str) -> Path:
    """The file of a custom skill; a usage error where there is none of this name."""
    from ...tools.custom.folder import find_file, names_in
    from ...tools.registry import all_skills

    if name in all_skills():
        raise click.UsageError(f"{name} is a built-in skill, which is no Markdown file")
    directory = chosen_skills()
    if (path := find_file(directory, name)) is None:
        raise click.UsageError(
            f"there is no custom skill {name!r}; there are: {', '.join(names_in(directory)) or 'none'}"
        )
    return path


def find_skill(name: str) -> Skill:
    """The skill of this name, built-in or custom; a usage error that names the nearest ones when there is none.

    Raises:
        EvidenceError: SKILL_INVALID with the line that is wrong, for a custom skill.
    """
    from ...tools.registry import all_skills

    skills = all_skills()
    if name in skills:
        return skills[name]
    from ...tools.custom.folder import check_skill, find_file, names_in

    directory = chosen_skills()
    if path := find_file(directory, name):
        return check_skill(path)[1]
    near = difflib.get_close_matches(name, [*skills, *names_in(directory)], 3, cutoff=0.4)
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    raise click.UsageError(f"there is no skill {name!r}; {nearest}nsys-evidence skill list names all")


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
