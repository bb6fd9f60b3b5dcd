"""Numbers for processes, threads, devices and streams, from the events alone, in an order that any source gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .devices import Gpu, Key, build_devices, process_id
from .manifest import Device
from .raw import TID_MASK, Events, Mask, combined
from .reader import NONE

Table = dict[str, npt.NDArray[Any]]
"""Columns of one canonical table."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Final numbers.

    Attributes:
        processes: packed process id to `process`.
        threads: packed thread id to `thread`.
        devices: devices in order of `gpu`.
        gpus: (packed process id, device id) to `gpu`.
    """

    processes: Mapping[int, int]
    threads: Mapping[int, int]
    devices: tuple[Device, ...]
    gpus: Mapping[Key, int]

    @property
    def process_table(self) -> Table:
        """The table `processes`."""
        packed = np.array(list(self.processes), np.int64)
        pid = np.array([process_id(p) for p in self.processes], np.int32)
        return {"process": np.arange(len(packed), dtype=np.int32), "global_pid": packed, "pid": pid}

    @property
    def thread_table(self) -> Table:
        """The table `threads`."""
        packed = list(self.threads)
        return {
            "thread": np.arange(len(packed), dtype=np.int32),
            "global_tid": np.array(packed, np.int64),
            "process": np.array([self.processes[tid & ~TID_MASK] for tid in packed], np.int32),
            "pid": np.array([process_id(tid) for tid in packed], np.int32),
            "tid": np.array([tid & TID_MASK for tid in packed], np.int32),
        }


def number(
    work: Iterable[Events],
    threaded: Iterable[tuple[Events, Mask | None]],
    others: Iterable[Events],
    gpus: dict[int, Gpu],
    cuda_devices: dict[Key, int],
) -> Numbers:
    """Number what GPU work, the events of threads, and other events of processes refer to."""
    keys: set[Key] = set()
    for events in work:
        pids, devices = events.decoded("globalPid"), events.decoded("deviceId", none=0)
        distinct, _ = combined([pids, devices])
        keys |= {(pid, device) for pid, device in distinct.T.tolist()}
    ends = ("globalTid", "endGlobalTid")
    tids = {tid for events, rows in threaded for name in ends for tid in events.used(name, rows)}
    pids_seen = {pid for pid, _ in keys} | {tid & ~TID_MASK for tid in tids}
    pids_seen |= {pid for events in others for pid in events.used("globalPid")}
    devices_found, gpu_numbers = build_devices(keys, gpus, cuda_devices)
    return Numbers(
        processes={pid: place for place, pid in enumerate(sorted(pids_seen))},
        threads={tid: place for place, tid in enumerate(sorted(tids))},
        devices=devices_found,
        gpus=gpu_numbers,
    )


def _shown(number: int) -> str:
    return "none" if number == NONE else str(number)


def number_streams(work: Iterable[Table], pids: Sequence[int]) -> Table:
    """The table `streams`, given the process id of each process.

    `stream` in each work table, a stream id until now, becomes a number of it.
    """
    tables = list(work)
    names = ("gpu", "process", "context", "stream")
    joined = [np.concatenate([table[name] for table in tables]) for name in names]
    distinct, which = combined(joined)
    edges = np.cumsum([0, *(len(table["stream"]) for table in tables)])
    for place, table in enumerate(tables):
        table["stream"] = which[edges[place] : edges[place + 1]].astype(np.int32)
    rows = distinct.T.tolist()
    alone = Counter((gpu, stream) for gpu, _, _, stream in rows)
    in_context = Counter((gpu, context, stream) for gpu, _, context, stream in rows)
    labels = []
    for gpu, process, context, stream in rows:
        label = _shown(stream)
        if alone[gpu, stream] > 1:
            label = f"{_shown(context)}:{label}"
        if in_context[gpu, context, stream] > 1:
            label = f"{pids[process]}/{label}"
        labels.append(label)
    return {
        "stream": np.arange(len(rows), dtype=np.int32),
        "gpu": distinct[0].astype(np.int32),
        "process": distinct[1].astype(np.int32),
        "context": distinct[2],
        "stream_id": distinct[3],
        "label": np.array(labels, object),
    }
