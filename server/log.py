"""What is logged: to stderr only, and never what a capture holds."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from pathlib import Path

LEVEL_VARIABLE = "NSYS_EVIDENCE_LOG"
"""Environment variable with the log level: error, warning (the default), info or debug."""

logger = logging.getLogger("nsys_evidence")


def log_to_stderr() -> None:
    """Send all logging of the process to stderr."""
    level = os.environ.get(LEVEL_VARIABLE, "").upper()
    known = level in logging.getLevelNamesMapping()
    logging.basicConfig(
        stream=sys.stderr,
        level=level if known else logging.WARNING,
        format="nsys-evidence: %(levelname)s: %(name)s: %(message)s",
    )


def describe_failure(error: BaseException) -> str:
    """Kind and place of an unforeseen exception, innermost frame first.

    Its message stays out: it may quote what a capture holds, an environment string among it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    return " < ".join([type(error).__name__, *places])
