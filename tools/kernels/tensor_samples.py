"""Tensor activity as nsys sampled it among its GPU metrics: measured, where kernel names only say what could be."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ..call import Call
from ..result import Table
from ..thresholds.kernels import TENSOR_METRICS


def pipes_of(metric: str) -> str | None:
    """The pipes whose activity a metric is, by its name; None for a metric of something else or in another unit."""
    name, _, unit = metric.lower().rstrip("]").partition("[")
    if unit and "%" not in unit:
        return None
    return next((says for pattern, says in TENSOR_METRICS.rows if pattern in name), None)


def sampled_activity(call: Call[Any]) -> tuple[dict[str, Table], list[str]]:
    """The table of sampled tensor activity in scope, and notes on it; neither where it was not recorded.

    Rows of devices in their order; then, unless a device was asked for, those of GPUs that the capture does not map.
    """
    if not call.profile.recorded("gpu_metrics"):
        return {}, []
    percent = f"{call.starts_in_window} AND value BETWEEN 0 AND 100"
    groups = call.sql(
        f"SELECT gpu, gpu_id, metric, count(*) FILTER ({percent}), sum(value) FILTER ({percent}), "
        f"max(value) FILTER ({percent}), count(*) FILTER ({call.starts_in_window}) FROM tensor_samples "
        "GROUP BY gpu, gpu_id, metric ORDER BY gpu NULLS LAST, gpu_id, metric"
    )
    texts = call.strings(metric for _, _, metric, *_ in groups)
    chosen = {device.gpu for device in call.devices}
    rows: list[tuple[object, ...]] = []
    unmapped, sampled, beyond = set[int](), set[int](), 0
    for gpu, gpu_id, metric, samples, total, highest, all_samples in groups:
        name = texts[metric] or ""
        pipes = pipes_of(name)
        if pipes is None or (gpu is not None and gpu not in chosen):
            continue
        (unmapped if gpu is None else sampled).add(gpu_id if gpu is None else gpu)
        if gpu is None and call.device_asked:
            continue
        beyond += all_samples - samples
        device, process = (None, None) if gpu is None else call.device_of(gpu)
        mean, top = (Fraction(int(total), 100 * samples), Fraction(highest, 100)) if samples else (None, None)
        rows.append((device, process, gpu_id, name, pipes, samples, mean, top))
    return ({"sampled": Table(rows, len(rows))} if rows else {}), _notes(call, sampled, unmapped, beyond)


def _notes(call: Call[Any], sampled: set[int], unmapped: set[int], beyond: int) -> list[str]:
    notes = []
    if unmapped:
        left = ": left out" if call.device_asked else ": they have rows of their own in `sampled`"
        gpus = ", ".join(map(str, sorted(unmapped)))
        notes.append(f"tensor activity was sampled on GPUs {gpus}, of which the capture does not say the device{left}")
    elif absent := [str(device.device) for device in call.devices if device.gpu not in sampled]:
        notes.append(f"tensor activity was not sampled on devices {', '.join(absent)}")
    if beyond:
        notes.append(f"{beyond} samples of tensor activity that are no percentage were left out")
    return notes
