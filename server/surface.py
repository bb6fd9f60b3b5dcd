"""Which tools a server offers: one for every skill, only some categories, or five that reach every skill."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tools.registry import Skill

logger = logging.getLogger(__name__)

ALWAYS = ("get_evidence", "list_profiles", "profile_info")
"""Skills that every server offers, whatever its toolsets: without them no capture is found and no number cited."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What a server offers, from its start to its end.

    Attributes:
        toolsets: categories of skills that are offered, of custom ones too; none for all of them.
        compact: whether the skills are behind `list_skills`, `describe_skill` and `run_skill`, for clients with a limit
            on the number of tools.
        skills_directory: where custom skills are; None for none.
    """

    toolsets: tuple[str, ...] = ()
    compact: bool = False
    skills_directory: Path | None = None

    def skills(self) -> dict[str, Skill]:
        """The skills that are offered: in the order of the registry, then custom ones in the order of their names."""
        from ..tools.registry import all_skills

        return {
            name: skill
            for name, skill in {**all_skills(), **_custom_skills(self.skills_directory)}.items()
            if not self.toolsets or skill.category in self.toolsets or name in ALWAYS
        }


def _custom_skills(directory: Path | None) -> Mapping[str, Skill]:
    """The custom skills of a directory; files that are no skill are named in the log and left out."""
    if directory is None:
        return {}
    from ..contracts.wire import clean_text
    from ..tools.custom.folder import load_skills

    found = load_skills(directory)
    for name, error in found.refused.items():
        logger.warning("%s is left out: %s: %s", clean_text(name, 80), error.code.value, error.message)
    return found.skills


def parse_toolsets(text: str) -> tuple[str, ...]:
    """Categories from a list with commas, in the order of the tool list. Raises ValueError, naming the valid ones."""
    from ..tools.custom.markdown import CUSTOM_CATEGORIES

    named = {part.strip() for part in text.split(",")}
    if unknown := sorted(named - set(CUSTOM_CATEGORIES)):
        there_is = ", ".join(repr(name) for name in unknown)
        raise ValueError(f"there is no category {there_is}; valid ones are {', '.join(CUSTOM_CATEGORIES)}")
    return tuple(category for category in CUSTOM_CATEGORIES if category in named)
