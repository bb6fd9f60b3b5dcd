"""Where custom skills are kept."""

from __future__ import annotations

import os
from pathlib import Path

DIRECTORY_VARIABLE = "NSYS_EVIDENCE_SKILLS_DIR"
"""Environment variable with the directory of custom skills."""


def skills_directory(chosen: Path | None = None) -> Path:
    """Where custom skills are: as chosen, else `NSYS_EVIDENCE_SKILLS_DIR`, else in the user's configuration."""
    if chosen is not None:
        return chosen
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_config_dir("nsys-evidence", appauthor=False)) / "skills"
