"""The fence: which paths a server may touch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..contracts.errors import ErrorCode, EvidenceError


class Roots:
    """Directories below which every path that a caller gives must lie.

    Args:
        directories: the directories; None for anywhere.
    """

    def __init__(self, directories: Sequence[Path] | None) -> None:
        self._directories = None if directories is None else tuple(Path(os.path.realpath(d)) for d in directories)

    @property
    def anywhere(self) -> bool:
        """Whether there is no fence."""
        return self._directories is None

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories, free of links; none where there is no fence."""
        return self._directories or ()

    def resolve(self, reference: str) -> Path:
        """The path that a caller means, free of links and of `..`, below one of the directories.

        Links are followed before the path is compared, part by part and to the letter. What is said of a path outside
        is the same whether or not there is something. To be opened is what this returns, never `reference`.

        Raises:
            EvidenceError: PATH_NOT_ALLOWED outside the directories, PROFILE_NOT_FOUND where no path can be meant.
        """
        own = reference == "~" or reference.startswith("~/")  # another user's home would tell who exists
        try:
            path = Path(os.path.realpath(os.path.expanduser(reference) if own else reference)) if reference else None
        except (OSError, ValueError):  # a NUL, or characters that no file system has
            path = None
        if path is not None and not self.hold(path):
            raise EvidenceError(
                ErrorCode.PATH_NOT_ALLOWED,
                f"{Path(reference).name} is outside the directories that this server may read",
                "give the absolute path of a capture below a directory that this server was given (serve --root DIR)",
            )
        if path is None or os.path.islink(path):  # what is still a link leads in a circle
            raise EvidenceError(
                ErrorCode.PROFILE_NOT_FOUND,
                "that is no path",
                "give the absolute path of a capture, or a profile id that list_profiles shows",
            )
        return path

    def check_still(self, path: Path) -> None:
        """Check that a resolved path has not become a link meanwhile, nor any directory on the way to it.

        Raises:
            EvidenceError: PATH_NOT_ALLOWED when it leads elsewhere now.
        """
        if not self.anywhere and os.path.realpath(path) != str(path):
            raise EvidenceError(
                ErrorCode.PATH_NOT_ALLOWED,
                f"{path.name} became a link while it was read",
                "give the path of a regular file below a directory that this server was given (serve --root DIR)",
            )

    def hold(self, path: Path) -> bool:
        """Whether a path, with its links followed, lies below one of the directories."""
        real = Path(os.path.realpath(path))
        return self._directories is None or any(real.is_relative_to(directory) for directory in self._directories)
