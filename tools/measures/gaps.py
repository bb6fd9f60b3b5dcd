"""Gaps: the stretches of the window in which a device, or a stream, has no work. They add up to its idle time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..call import Call

Owner = tuple[int, int | None]
"""A device (`gpu`, None) or a stream of it (`gpu`, `stream`)."""


def device_gaps_sql(call: Call[Any]) -> str:
    """SQL for the gaps of each selected device: gpu, stream (null), start, "end"; those at the window's edges too.

    A device gap has no kernel, graph, copy or set on any stream. A device without work in the window is one gap.
    """
    owners: list[Owner] = [(device.gpu, None) for device in call.devices]
    return _gaps(call, owners, "SELECT *, NULL::INTEGER AS stream FROM busy WHERE kind = 'work'")


def stream_gaps_sql(call: Call[Any]) -> str:
    """The same for each stream of the selected devices; never to be added up over streams."""
    owners = call.sql(f"SELECT gpu, stream FROM streams WHERE {call.on_devices} ORDER BY gpu, stream")
    return _gaps(call, owners, "SELECT * FROM stream_busy")


def _gaps(call: Call[Any], owners: Iterable[Owner], busy: str) -> str:
    a, b = call.window.start_ns, call.window.end_ns
    last = call.profile.once(f"last ends of {busy}", lambda: _last_ends(call, busy))
    after = [(owner, max(last.get(owner, a), a)) for owner in owners]
    trailing = [
        f"SELECT {gpu}, {'NULL' if stream is None else stream}::INTEGER, {end}, {b}"
        for (gpu, stream), end in after
        if end < b
    ]
    before_each = f"""
        SELECT gpu, stream, CASE WHEN previous_end > {a} THEN previous_end ELSE {a} END AS start,
            CASE WHEN start < {b} THEN start ELSE {b} END AS "end"
        FROM ({busy}) WHERE {call.on_devices} AND start > {a} AND (previous_end < {b} OR previous_end IS NULL)"""
    return " UNION ALL ".join([before_each, *trailing])


def _last_ends(call: Call[Any], busy: str) -> dict[Owner, int]:
    """When the last work of each device or stream of the capture ends."""
    rows = call.sql(f'SELECT gpu, stream, max("end") FROM ({busy}) GROUP BY gpu, stream')
    return {(gpu, stream): end for gpu, stream, end in rows}
