"""Canonical columns of each kind of event: codes become numbers, "none" becomes null, names enter the string pool."""

from __future__ import annotations

import numpy as np

from .host_class import api_name, host_class
from .numbering import Numbers, Table
from .order import canonical_order
from .raw import TID_MASK, Events, Ints32
from .reader import NONE
from .strings import StringPool

WORK_KINDS = ("kernels", "copies", "sets", "graphs")
"""Kinds of GPU work."""

UNKNOWN_KERNEL = "(unknown kernel)"

_CODED = {  # canonical column: source column; small integers, -1 for none
    "kernels": {
        **{f"{part}_{axis.lower()}": f"{part}{axis}" for part in ("grid", "block") for axis in "XYZ"},
        "registers": "registersPerThread",
        "static_shared": "staticSharedMemory",
        "dynamic_shared": "dynamicSharedMemory",
    },
    "copies": {"kind": "copyKind", "src_kind": "srcKind", "dst_kind": "dstKind"},
    "sets": {"mem_kind": "memKind"},
    "graphs": {},
}
_WIDE = {  # the same, 64 bits
    "kernels": {"graph_node": "graphNodeId"},
    "copies": {"graph_node": "graphNodeId", "copy_count": "copyCount"},
    "sets": {"graph_node": "graphNodeId"},
    "graphs": {"graph_id": "graphId"},
}


def sorted_rows(table: Table) -> Table:
    """The rows by start, ties by the other columns in turn."""
    start, *others = table.values()
    order = canonical_order(start, *others)
    return {name: values[order] for name, values in table.items()}


def work_table(kind: str, events: Events, numbers: Numbers, pool: StringPool) -> Table:
    """GPU work of one kind, unsorted, without its launch; `stream` still holds stream ids, `name` provisional codes."""
    table: Table = {
        "start": events.integer("start"),
        "end": events.integer("end"),
        "gpu": _gpu(events, numbers),
        "process": events.mapped("globalPid", numbers.processes),
        "context": events.decoded("contextId", sentinels=True),
        "stream": events.decoded("streamId", sentinels=True),
        "correlation": events.integer("correlationId"),
    }
    if kind == "kernels":
        table["name"] = _kernel_names(events, pool)
    if kind in ("copies", "sets"):
        size = events.integer("bytes")
        table["bytes"] = np.where(size < 0, NONE, size)  # no copy is that small: unknown
    for name, source in _CODED[kind].items():
        wide = events.decoded(source, none=-1, sentinels=True)
        table[name] = np.where(np.abs(wide) < 2**31, wide, -1).astype(np.int32)  # no such number exists: unknown
    for name, source in _WIDE[kind].items():
        table[name] = events.decoded(source, sentinels=True)
    return table


def _gpu(events: Events, numbers: Numbers) -> Ints32:
    pids = [*events.columns.values.get("globalPid", []), None]
    devices = [*events.columns.values.get("deviceId", []), 0]
    lookup = np.array([[numbers.gpus.get((pid, device), -1) for device in devices] for pid in pids], np.int32)
    found: Ints32 = lookup[events.coded("globalPid"), events.coded("deviceId")]
    return found


def _kernel_names(events: Events, pool: StringPool) -> Ints32:
    """Provisional codes of demangled names; of short names where there is none."""
    name = np.full(events.rows, -1, np.int32)
    for column in ("demangledName", "shortName"):
        codes = np.where(name < 0, events.coded(column), -1).astype(np.int32)
        found = pool.codes(events.columns.values.get(column, []), codes)[codes]
        name = np.where(name < 0, found, name)
    if (name < 0).any():
        name[name < 0] = pool.add(UNKNOWN_KERNEL)
    return name


def threaded_table(events: Events, numbers: Numbers, pool: StringPool) -> Table:
    """Events of a thread with a name: start, end, process, thread, name (provisional codes)."""
    owners = {tid: numbers.processes[tid & ~TID_MASK] for tid in numbers.threads}
    codes = events.coded("nameId")
    name = pool.codes(events.columns.values.get("nameId", []), codes)[codes]
    if (name < 0).any():
        name[name < 0] = pool.add("")
    return {
        "start": events.integer("start"),
        "end": events.integer("end"),
        "process": events.mapped("globalTid", owners),
        "thread": events.mapped("globalTid", numbers.threads),
        "name": name,
    }


def call_table(events: Events, numbers: Numbers, pool: StringPool) -> Table:
    """CUDA API calls, unsorted; names as nsys shows them, in provisional codes."""
    table = threaded_table(events, numbers, pool)
    shown = np.arange(len(pool.values) + 1, dtype=np.int32)
    classes = np.zeros(len(pool.values) + 1, np.int8)
    for code in np.unique(table["name"]).tolist():
        text = api_name(pool.values[code])
        shown[code], classes[code] = pool.add(text), host_class(text)
    recorded = table["name"]
    return {
        **table,
        "name": shown[recorded],
        "correlation": events.integer("correlationId"),
        "driver": events.decoded("eventClass", none=0) == 1,
        "host_class": classes[recorded],
    }


def osrt_table(events: Events, numbers: Numbers, pool: StringPool) -> Table:
    """OS runtime calls, unsorted."""
    event_class = events.decoded("eventClass", none=-1).astype(np.int32)
    return {**threaded_table(events, numbers, pool), "event_class": event_class}


def sync_table(events: Events, numbers: Numbers) -> Table:
    """CUDA synchronisation as the GPU's side recorded it, unsorted."""
    return {
        "start": events.integer("start"),
        "end": events.integer("end"),
        "process": events.mapped("globalPid", numbers.processes),
        "context": events.decoded("contextId", sentinels=True),
        "stream_id": events.decoded("streamId", sentinels=True),
        "correlation": events.integer("correlationId"),
        "sync_type": events.decoded("syncType", none=-1).astype(np.int32),
    }
