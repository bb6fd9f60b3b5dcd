"""The registry: one decorator makes a skill of a function; tools, commands, reference and tests read it from here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..contracts.columns import NoTotals, Row
from ..contracts.envelope import DEFAULT_BYTES, MAX_ROWS
from .call import Call
from .result import Result

CATEGORIES = (
    "utility",
    "kernels",
    "memory",
    "communication",
    "nvtx",
    "system",
    "bottlenecks",
    "utilisation",
    "analysis",
)
"""The folders of skills, in the order in which tools are listed."""


class Params(BaseModel):
    """Base of a skill's own parameters: every field has a default or is required, and a description."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoParams(Params):
    """For skills that take the scope parameters only."""


SCOPE = ("device", "trim", "iteration", "marker")
"""The scope parameters; a skill that takes fewer leaves out those that mean nothing to it."""

WindowKind = Literal["gpu", "capture", "none"]
"""The window that a skill looks at by default; `none` for skills without a profile or without a window."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A registered skill: everything that its tool, its command and its reference page need.

    Attributes:
        name: the tool's name.
        category: the folder that it stands in.
        title: a few words.
        when: one line that says when to use it.
        run: the function.
        params: its own parameters.
        row: model of the main rows; None for `get_evidence`, which returns a stored envelope of any skill.
        totals: model of the totals.
        tables: models of further tables by name.
        needs: kinds of event (keys of `Manifest.coverage`) without which it abstains.
        one_of: kinds of event, or canonical tables, of which it takes at least one; it says itself what is missing.
        window: the default window; "none" means no scope parameters but `profile`.
        scope: the scope parameters that it takes, where it has a window.
        profile: whether it takes a profile at all.
        without_profile: whether it answers without one too.
        max_rows: default number of rows.
        max_bytes: byte ceiling of a result when the caller did not ask for a number of rows.
        next: skills that lead on from here.
        reading: notes on how to read it, for the reference.
        example: values for its own parameters, with which the reference and the tests call it; all required ones.
    """

    name: str
    category: str
    title: str
    when: str
    run: Callable[[Call[Any]], Result]
    params: type[Params]
    row: type[Row] | None
    totals: type[Row]
    tables: Mapping[str, type[Row]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    window: WindowKind = "gpu"
    scope: tuple[str, ...] = SCOPE
    profile: bool = True
    without_profile: bool = False
    max_rows: int = 20
    max_bytes: int = DEFAULT_BYTES
    next: tuple[str, ...] = ()
    reading: str = ""
    example: Mapping[str, object] = field(default_factory=dict)


_SKILLS: dict[str, Skill] = {}

SkillFunction = Callable[[Call[Any]], Result]
"""A skill: one call in, one result out."""


def skill(
    *,
    title: str,
    when: str,
    row: type[Row] | None,
    params: type[Params] = NoParams,
    totals: type[Row] = NoTotals,
    tables: Mapping[str, type[Row]] | None = None,
    needs: tuple[str, ...] = (),
    one_of: tuple[str, ...] = (),
    window: WindowKind = "gpu",
    scope: tuple[str, ...] = SCOPE,
    profile: bool = True,
    without_profile: bool = False,
    max_rows: int = 20,
    max_bytes: int = DEFAULT_BYTES,
    next: tuple[str, ...] = (),
    example: Mapping[str, object] | None = None,
) -> Callable[[SkillFunction], SkillFunction]:
    """Register the function as a skill, named after it, in the category of its folder.

    The function's docstring becomes the notes on how to read the result. See `Skill` for the arguments.
    """
    if not 1 <= max_rows <= MAX_ROWS:
        raise ValueError(f"max_rows is between 1 and {MAX_ROWS}")

    def register(function: SkillFunction) -> SkillFunction:
        name = function.__name__
        if name in _SKILLS:
            raise ValueError(f"there are two skills named {name}")
        _SKILLS[name] = Skill(
            name=name,
            category=function.__module__.split(".")[-2],
            title=title,
            when=when,
            run=function,
            params=params,
            row=row,
            totals=totals,
            tables=tables or {},
            needs=needs,
            one_of=one_of,
            window=window,
            scope=scope,
            profile=profile,
            without_profile=without_profile,
            max_rows=max_rows,
            max_bytes=max_bytes,
            next=next,
            reading=(function.__doc__ or "").strip(),
            example=example or {},
        )
        return function

    return register


def all_skills() -> dict[str, Skill]:
    """Every skill by name, in the fixed order of the tool list: by category, then by name."""
    package = __name__.rpartition(".")[0]
    for category in CATEGORIES:
        parent = importlib.import_module(f"{package}.{category}")
        for module in pkgutil.iter_modules(parent.__path__):
            importlib.import_module(f"{parent.__name__}.{module.name}")
    ordered = sorted(_SKILLS.values(), key=lambda s: (CATEGORIES.index(s.category), s.name))
    return {found.name: found for found in ordered}
