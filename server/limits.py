"""Limits of the server: how long a call may take and how many run at once."""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass

DEADLINE_VARIABLE = "NSYS_EVIDENCE_DEADLINE_S"
"""Environment variable with the longest time of a call, in seconds."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows.

    Attributes:
        deadline_s: longest time of a call, the wait for its turn among it, in seconds.
        calls: calls that run at the same time; further ones wait.
        body_bytes: longest request over HTTP, in bytes.
        sessions: clients of the handshake era that are served over HTTP at the same time.
        grace_s: how long a stopped call is waited for before it is left behind, in seconds.
    """

    deadline_s: float = 300.0
    calls: int = 4
    grace_s: float = 0.5
    body_bytes: int = 1 << 20
    sessions: int = 256


def limits_from_environment() -> Limits:
    """The limits, with the deadline of `NSYS_EVIDENCE_DEADLINE_S` where that is a positive number."""
    text = os.environ.get(DEADLINE_VARIABLE)
    if not text:
        return Limits()
    try:
        deadline = float(text)
    except ValueError:
        deadline = math.nan
    if 0 < deadline < math.inf:
        return Limits(deadline_s=deadline)
    logger.warning("%s is no positive number of seconds; the deadline is %s s", DEADLINE_VARIABLE, Limits().deadline_s)
    return Limits()
