"""Gaps: the stretches of the window in which a device, or a stream, has no work. They add up to its idle time."""

from __future__ import annotations

from typing import Any

from .call import Call


def device_gaps_sql(call: Call[Any]) -> str:
    """SQL for the gaps of each selected device: gpu, stream (null), start, "end"; those at the window's edges too.

    A device gap has no kernel, graph, copy or set on any stream. A device without work in the window is one gap.
    """
    devices = " UNION ALL ".join(f"SELECT {device.gpu} AS gpu" for device in call.devices)
    owners = f"SELECT gpu, NULL::INTEGER AS stream FROM ({devices or 'SELECT NULL::INTEGER AS gpu WHERE false'})"
    busy = f"""SELECT gpu, NULL::INTEGER AS stream, start, "end", previous_end
        FROM busy WHERE kind = 'work' AND {call.on_devices}"""
    return _gaps(call, owners, busy)


def stream_gaps_sql(call: Call[Any]) -> str:
    """The same for each stream of the selected devices; never to be added up over streams."""
    owners = f"SELECT gpu, stream FROM streams WHERE {call.on_devices}"
    busy = f'SELECT gpu, stream, start, "end", previous_end FROM stream_busy WHERE {call.on_devices}'
    return _gaps(call, owners, busy)


def _gaps(call: Call[Any], owners: str, busy: str) -> str:
    a, b = call.window.start_ns, call.window.end_ns
    return f"""
        SELECT gpu, stream, start, "end" FROM (
            SELECT gpu, stream, greatest(coalesce(previous_end, {a}), {a}) AS start, least(start, {b}) AS "end"
            FROM ({busy}) WHERE start > {a} AND coalesce(previous_end, {a}) < {b}
            UNION ALL
            SELECT gpu, stream, greatest(coalesce(max("end"), {a}), {a}), {b}
            FROM (SELECT gpu, stream, NULL::BIGINT AS "end" FROM ({owners}) UNION ALL
                  SELECT gpu, stream, "end" FROM ({busy}))
            GROUP BY gpu, stream
        ) WHERE start < "end"
    """
