"""Which tools a server offers: one for every skill, only some categories, or five that reach every skill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tools.registry import Skill

ALWAYS = ("get_evidence", "list_profiles", "profile_info")
"""Skills that every server offers, whatever its toolsets: without them no capture is found and no number cited."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What a server offers, from its start to its end.

    Attributes:
        toolsets: categories of skills that are offered; none for all of them.
        compact: whether the skills are behind `list_skills`, `describe_skill` and `run_skill`, for clients with a limit
            on the number of tools.
    """

    toolsets: tuple[str, ...] = ()
    compact: bool = False

    def skills(self) -> dict[str, Skill]:
        """The skills that are offered, in the order of the registry."""
        from ..tools.registry import all_skills

        return {
            name: skill
            for name, skill in all_skills().items()
            if not self.toolsets or skill.category in self.toolsets or name in ALWAYS
        }


def parse_toolsets(text: str) -> tuple[str, ...]:
    """Categories from a list with commas, in the order of the tool list. Raises ValueError, naming the valid ones."""
    from ..tools.registry import CATEGORIES

    named = {part.strip() for part in text.split(",")}
    if unknown := sorted(named - set(CATEGORIES)):
        there_is = ", ".join(repr(name) for name in unknown)
        raise ValueError(f"there is no category {there_is}; valid ones are {', '.join(CATEGORIES)}")
    return tuple(category for category in CATEGORIES if category in named)
