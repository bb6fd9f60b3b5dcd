"""Prompts: ways through the skills for the common questions, with the citing of every number at their end.

A prompt names only skills that the server offers, and leaves a step out whose skill is not there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import mcp_types as types
from mcp import MCPError

from ..contracts.columns import NoTotals, columns_of
from ..contracts.wire import clean_text
from ..tools.registry import Skill
from .compact import RUN_SKILL, TOOLS_AS_THEY_ARE
from .guides import GUIDES, Guide, Step
from .surface import ALWAYS, Surface

Skills = Mapping[str, Skill]

MAX_PROFILE = 1_000
"""The longest path or profile id that a prompt repeats, in characters."""


_ANSWER = """\
The answer:
- Every number in it stands in a result. Write it as it stands there, with its unit, and its cell behind it:
  (ev-…:ROW.COLUMN) with rows from 0, (ev-…:totals.KEY) or (ev-…:TABLE.ROW.COLUMN). Sums come from totals.
- Say which window and devices were looked at (scope), and what a percentage is a share of (of).
- Say what could not be judged: status partial or abstained, with the capture_hint that would record it. null and not
  recorded are unknown, neither zero nor fine."""


def offered_guides(skills: Skills) -> dict[str, Guide]:
    """The prompts of a server: those of which it offers a step beyond what every server does."""

    def leads_on(guide: Guide) -> bool:
        return any(step.skill not in ALWAYS for step in _steps(guide, skills))

    return {name: guide for name, guide in GUIDES.items() if leads_on(guide)}


def list_prompts(skills: Skills) -> list[types.Prompt]:
    """The prompts as clients list them."""
    profile = types.PromptArgument(
        name="profile", description="Path or profile id of the capture; left out to look for it.", required=False
    )
    return [
        types.Prompt(name=name, title=guide.title, description=guide.description, arguments=[profile])
        for name, guide in offered_guides(skills).items()
    ]


def get_prompt(name: str, given: Mapping[str, str], surface: Surface, skills: Skills) -> types.GetPromptResult:
    """A prompt filled in.

    Raises:
        MCPError: for a prompt or an argument that does not exist.
    """
    guides = offered_guides(skills)
    if name not in guides:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {clean_text(name, 80)}; there are {', '.join(guides)}")
    if unknown := [clean_text(argument, 80) for argument in given if argument != "profile"]:
        raise MCPError(types.INVALID_PARAMS, f"{name} has no argument {', '.join(unknown)}; it takes profile")
    text = prompt_text(guides[name], surface, skills, given.get("profile"))
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=guides[name].description, messages=[message])


def _steps(guide: Guide, skills: Skills) -> list[Step]:
    """The steps of which the skills are offered."""
    return [step for step in guide.steps if step.skill in skills and step.without not in skills]


def prompt_text(guide: Guide, surface: Surface, skills: Skills, profile: str | None) -> str:
    """The prompt for a server with these skills, about a capture or about one to be found."""
    named = clean_text(profile.strip(), MAX_PROFILE) if profile else ""
    capture = f"the Nsight Systems capture {json.dumps(named, ensure_ascii=False)}"
    about = capture if named else "an Nsight Systems capture"
    lines = [f"{guide.question} Find out about {about} in this order (words in capitals are for you to fill in):", ""]
    calls = []
    if not named:
        find = _call("list_profiles", {}, surface)
        calls.append(f"{find}: which capture is meant, by its path or profile id; ask when that is not clear")
    steps = _steps(guide, skills)
    for step in steps:
        call = _call(step.skill, {"profile": named or "PROFILE", **step.given}, surface)
        calls.append(f"{call}: {step.why}{_cells(step, skills[step.skill])}")
    lines += [f"{number}. {call}." for number, call in enumerate(calls, 1)]
    further = set(skills) - {step.skill for step in steps}
    branches = [(b.when, [f"`{name}`" for name in b.skills if name in further]) for b in guide.branches]
    if follow := [f"- {when}: {', '.join(names)}." for when, names in branches if names]:
        through = f", each through `{RUN_SKILL}` as above" if surface.compact else ""
        lines += ["", f"Then follow what these results show, the largest share first{through}:", *follow]
    return "\n".join([*lines, "", guide.judge, "", _ANSWER])


def _call(skill: str, arguments: dict[str, object], surface: Surface) -> str:
    """A call as the agent has to make it on this surface."""
    tool = skill
    if surface.compact and skill not in TOOLS_AS_THEY_ARE:
        tool, arguments = RUN_SKILL, {"skill": skill, "arguments": arguments}
    return f"`{tool}` {json.dumps(arguments, ensure_ascii=False)}"


def _cells(step: Step, skill: Skill) -> str:
    found = [cell for cell in step.cells if cell in cells_of(skill)]
    return f" (look at {', '.join(found)})" if found else ""


def cells_of(skill: Skill) -> set[str]:
    """The columns of a skill's rows, and its totals as `totals.KEY`."""
    rows = {column.name for column in columns_of(skill.row or NoTotals)}
    return rows | {f"totals.{column.name}" for column in columns_of(skill.totals)}
