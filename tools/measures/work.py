"""The tables of GPU work: which there are, and whether a capture has any."""

from __future__ import annotations

from typing import Any

from ..call import Call

WORK_TABLES = ("kernels", "graphs", "copies", "sets")
"""The tables of GPU work, in the order in which equal ones are named. Each has the columns of work and of launches."""


def work_recorded(call: Call[Any]) -> bool:
    """Whether the capture recorded any kind of GPU work, be it none."""
    return any(call.profile.recorded(table) for table in WORK_TABLES)
