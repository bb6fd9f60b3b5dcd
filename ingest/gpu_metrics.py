"""GPU metrics, which nsys samples at a fixed rate: of all of them, those about tensor activity.

An export has one row a sample and metric. Metrics are named per type of sample, and a type is one GPU: its low byte is
the number under which the capture lists the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .event_tables import sorted_rows
from .numbering import Table
from .raw import believable
from .reader import NONE, ColumnKind, Columns, Reader
from .strings import StringPool

SAMPLES, TIME = "GPU_METRICS", "timestamp"
"""The table of samples, and its column of times."""

_NAMES = "TARGET_INFO_GPU_METRICS"
_GPU = 0xFF


def says_tensor(metric: str) -> bool:
    """Whether samples of a metric are kept, by its name."""
    return "tensor" in metric.lower()


def tensor_samples(reader: Reader, pool: StringPool, tick: Callable[[float], None]) -> tuple[Table, int]:
    """The table `tensor_samples` without devices, unsorted, and how many samples were set aside.

    `metric` holds provisional codes. A sample without a time or a value is set aside.
    """
    metrics = _metrics(reader)
    wanted: dict[str, ColumnKind] = {TIME: "int", "typeId": "code", "metricId": "code", "value": "code"}
    found = Columns(0)
    if metrics and {column.lower() for column in wanted} <= reader.column_names(SAMPLES):
        found = reader.read(SAMPLES, wanted, tick, only={"metricId": {number for _, number in metrics}})
    names = sorted(set(metrics.values()))
    types, numbers = (found.values.get(column, []) for column in ("typeId", "metricId"))
    lookup = [[_place(names, metrics.get((kind, number))) for number in [*numbers, None]] for kind in [*types, None]]
    metric = np.array(lookup, np.int32)[found.code("typeId"), found.code("metricId")]
    value = np.array([*found.values.get("value", []), NONE], np.int64)[found.code("value")]
    gpu = np.array([*(kind & _GPU for kind in types), -1], np.int32)[found.code("typeId")]
    start = found.integer(TIME)
    keep, _ = believable(start, start, np.where(value == NONE, np.int32(-1), metric))
    codes = np.full(len(names), -1, np.int32)
    for place in np.unique(metric[keep]).tolist():
        codes[place] = pool.add(names[place])
    table: Table = {"start": start[keep], "gpu_id": gpu[keep], "metric": codes[metric[keep]], "value": value[keep]}
    return table, int((metric >= 0).sum() - keep.sum())


def on_devices(samples: Table, devices: Mapping[int, int]) -> Table:
    """The table with the device that each GPU is, sorted; -1 for a GPU of which the capture does not say it."""
    device = np.array([devices.get(number, -1) for number in range(_GPU + 1)], np.int32)
    ordered = {"start": samples["start"], "gpu": device[samples["gpu_id"]], **samples}
    return sorted_rows(ordered)


def _metrics(reader: Reader) -> dict[tuple[int, int], str]:
    """The names of the metrics about tensors, by type and number: a number is one within its type only."""
    found = reader.read(_NAMES, {"typeId": "code", "metricId": "code", "metricName": "text"}, _ignore)
    metrics: dict[tuple[int, int], str] = {}
    for row in range(found.rows):
        kind, number = (found.value(column, row, None) for column in ("typeId", "metricId"))
        name = found.value("metricName", row, "")
        if kind is not None and number is not None and says_tensor(name):
            metrics[kind, number] = min(name, metrics.get((kind, number), name))
    return metrics


def _place(names: list[str], name: str | None) -> int:
    return -1 if name is None else names.index(name)


def _ignore(share: float) -> None:
    """Progress of tables too small to count."""
