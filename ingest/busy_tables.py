"""The derived tables of busy time: per device and class, per stream, and where kernels overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .busy import Intervals, busy_rows, common, merged, overlapping
from .numbering import Table
from .order import canonical_order, group_bounds
from .raw import Mask
from .tables import BUSY_KINDS, TABLES


def busy_tables(work: Mapping[str, Table], comm: Mask, devices: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and columns of `busy`, `kernel_overlaps` and `stream_busy`.

    Args:
        work: the GPU work of each kind, kernels first.
        comm: whether each kernel is a collective.
        devices: how many devices have work.
    """
    joined = {
        name: np.concatenate([table[name] for table in work.values()]) for name in ("start", "end", "gpu", "stream")
    }
    sizes = [len(table["start"]) for table in work.values()]
    kernel = np.repeat([kind in ("kernels", "graphs") for kind in work], sizes)
    collective = np.zeros(len(kernel), bool)
    collective[: sizes[0]] = comm
    order = canonical_order(joined["start"])
    joined = {name: values[order] for name, values in joined.items()}
    kernel, collective = kernel[order], collective[order]
    classes = (kernel & ~collective, collective, kernel, np.ones(len(kernel), bool))  # in the order of BUSY_KINDS
    busy: list[Table] = []
    overlaps: list[Table] = []
    for device in range(devices):
        here = joined["gpu"] == device
        unions = [merged(*_times(joined, here & members)) for members in classes]
        unions.append(common(unions[0], merged(*_times(joined, here & ~kernel))))
        for code, union in enumerate(unions):
            found = busy_rows(*union)
            busy.append({**_all(found, "gpu", device), "kind": np.full(len(union[0]), code, np.int8)})
        start, end, depth = overlapping(*_times(joined, here & kernel))
        overlaps.append(_all({"start": start, "end": end, "depth": depth}, "gpu", device))
    columns: dict[str, Any] = dict(_stacked(busy, TABLES["busy"].names))
    kinds = pa.array(columns["kind"], pa.int8())
    columns["kind"] = pa.DictionaryArray.from_arrays(kinds, list(BUSY_KINDS)).cast(pa.string())
    yield "busy", columns
    yield "kernel_overlaps", _stacked(overlaps, TABLES["kernel_overlaps"].names)
    yield "stream_busy", _stacked(list(_of_streams(joined)), TABLES["stream_busy"].names)


def _of_streams(work: Table) -> Iterator[Table]:
    streams = int(work["stream"].max(initial=-1)) + 1
    by_stream, bounds = group_bounds(work["stream"], streams)
    for stream in range(streams):
        rows = by_stream[bounds[stream] : bounds[stream + 1]]
        found = busy_rows(*merged(work["start"][rows], work["end"][rows]))
        yield _all(_all(found, "gpu", work["gpu"][rows[0]]), "stream", stream)


def _times(work: Table, members: Mask) -> Intervals:
    rows = np.flatnonzero(members)
    return work["start"][rows], work["end"][rows]


def _all(rows: Table, name: str, value: int) -> Table:
    """The rows with one more column, which is the same in all."""
    return {**rows, name: np.full(len(rows["start"]), value, np.int32)}


def _stacked(parts: list[Table], names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0, np.int64) for name in names}
