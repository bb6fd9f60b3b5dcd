"""Which host events belong to the devices in scope: those of the processes that use the device that was asked for."""

from __future__ import annotations

from typing import Any

from ..call import Call


def of_processes(call: Call[Any]) -> str:
    """SQL condition on `process`: a process that uses the device asked for; any process where none was asked for."""
    if not call.device_asked:
        return "TRUE"
    return f"process IN (SELECT process FROM streams WHERE {call.on_devices})"


def of_threads(call: Call[Any]) -> str:
    """The same condition on `thread`, for events that do not name their process."""
    if not call.device_asked:
        return "TRUE"
    return f"thread IN (SELECT thread FROM threads WHERE {of_processes(call)})"


def process_notes(call: Call[Any]) -> list[str]:
    """A note where a device was asked for: host events have none."""
    if not call.device_asked:
        return []
    users = ", ".join(str(pid) for pid in sorted({pid for device in call.devices for pid in device.pids}))
    return [f"only of processes that use the device: {users}" if users else "no process uses the device"]
