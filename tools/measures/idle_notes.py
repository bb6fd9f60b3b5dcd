"""What keeps the idle time of devices from being known, for host skills that report it beside their own figures."""

from __future__ import annotations

from typing import Any

from ..call import Call
from ..result import AbstentionError
from .busy import basis_notes, work_holes


def idle_holes(call: Call[Any]) -> list[str]:
    """Notes on holes in the idle time of devices: any of them makes an answer that reports it partial."""
    try:
        return work_holes(call)
    except AbstentionError:
        return ["GPU work was not recorded: what devices did meanwhile is unknown"]


def idle_notes(call: Call[Any]) -> list[str]:
    """Whose idle time it is, and that it is a sum where there are several devices."""
    together = [f"idle_ms is a sum over {len(call.devices)} devices"] if len(call.devices) > 1 else []
    return [*basis_notes(call), *together]
