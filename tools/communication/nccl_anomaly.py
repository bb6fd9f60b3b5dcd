"""Which collectives took much longer than others of their kind."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Bytes, Count, Factor, Id, Ms, Ns, Text, Us
from ..call import Call
from ..kernels.kernel_instances import MAX_DURATION_NS
from ..measures.graphs import hidden_kernels
from ..measures.lookups import lookup, range_names
from ..registry import Params, skill
from ..result import Result
from ..thresholds.communication import ANOMALY_GROUP
from .collectives import BY_NAME, NO_COLLECTIVES, collectives

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..measures.grouping import Ints


class NcclAnomalyParams(Params):
    """Parameters of `nccl_anomaly`."""

    threshold: float = Field(3.0, ge=1, le=1_000_000, description="times the median of its group that is too long")


class NcclAnomalyRow(Row):
    """One collective that took longer than the threshold."""

    collective: Text = column("collective by kernel name; Generic where the name does not tell it")
    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    stream: Text = column("stream id, or context:stream where a stream id occurs in several contexts")
    start_ns: Ns = column("start on the capture clock")
    duration_us: Us = column("whole duration")
    times_median: Factor = column("duration over the median duration of its group in the window")
    group_size: Count = column("collectives of its group in the window")
    bytes: Bytes | None = column("message size that the NCCL call around the launch names; null where none is known")
    nvtx: Text | None = column("innermost NVTX range around the launching call; null without one")


class NcclAnomalyTotals(Row):
    """All collectives in scope."""

    collectives: Count = column("collectives that overlap the window")
    anomalies: Count = column("those that took longer than the threshold: the rows")
    excess_ms: Ms = column("what the anomalies took beyond the median of their groups, whole durations, summed")
    groups: Count = column("groups of collectives")
    unjudged: Count = column("collectives of groups that are too small, or whose median is 0")


@dataclass(frozen=True, slots=True)
class _Found:
    """The collectives in the window, sorted by group and in it by duration. Times in ns.

    Attributes:
        columns: those of `_COLUMNS`: `number` is that of the collective, `bytes` -1 where unknown, `stack` -1 for none,
            `ns` the duration, `tie` the place in the table.
        low, high: where each group begins and ends.
        medians: twice the median of each group.
    """

    columns: dict[str, npt.NDArray[np.int64]]
    low: Ints
    high: Ints
    medians: Ints

    @property
    def sizes(self) -> Ints:
        """How many collectives each group has."""
        return self.high - self.low

    @property
    def judged(self) -> npt.NDArray[np.bool_]:
        """The groups whose median tells what is usual."""
        return (self.sizes >= ANOMALY_GROUP.value) & (self.medians > 0)


_KEYS = ("bytes", "number", "gpu")
"""Columns that make up a group, the least first."""

_COLUMNS = ("gpu", "number", "bytes", "stream", "start", "stack", "ns", "tie")


@skill(
    title="Slow collectives",
    when="To find single collectives that took far longer than others of their kind, as when a peer came late.",
    params=NcclAnomalyParams,
    row=NcclAnomalyRow,
    totals=NcclAnomalyTotals,
    needs=("kernels",),
    next=("nccl_breakdown", "gpu_idle_gaps", "kernel_instances"),
)
def nccl_anomaly(call: Call[NcclAnomalyParams]) -> Result:
    """One row per collective that took longer than threshold times the median of its group, worst first.

    A group is the collectives of one device, one kind (by kernel name) and one message size in the window: five or
    more, else nothing is judged. The size is that of the innermost NCCL call with a payload around the launch; where
    payloads were not recorded, and for calls in a group, which ncclGroupEnd launches, it is not known: those of a
    device and kind are one group of all sizes, in which a large message among small ones looks slow. Time in a
    collective includes waiting for peers: the device that waited is listed, and the cause is on the one that came late,
    whose collective is the shorter. Durations are whole, also of collectives that cross an edge of the window.
    """
    import numpy as np

    numbers = _numbers(call)
    found = _collectives(call, numbers)
    group = np.repeat(np.arange(len(found.low)), found.sizes)
    slow = np.flatnonzero(found.columns["ns"] > np.repeat(_limits(call, found), found.sizes))
    of = {name: values[slow] for name, values in found.columns.items()}
    medians, counts = found.medians[group[slow]], found.sizes[group[slow]]
    order = np.lexsort((of["tie"], of["start"], -of["ns"], -(of["ns"] / medians)))
    page = order[call.offset : call.offset + call.max_rows]
    kinds = sorted(numbers)
    labels = lookup(call, "streams", "stream", "label", of["stream"][page].tolist())
    ranges = range_names(call, (stack for stack in of["stack"][page].tolist() if stack >= 0))
    rows = []
    for at in page.tolist():
        gpu, number, size, stream, start, stack, duration, _ = (int(values[at]) for values in of.values())
        times = Fraction(2 * duration, int(medians[at]))
        shown = (start, duration, times, int(counts[at]), None if size < 0 else size, ranges.get(stack))
        rows.append((kinds[number], *call.device_of(gpu), labels[stream], *shown))
    every, unjudged = len(group), int(found.sizes[~found.judged].sum())
    sized = int(np.count_nonzero(found.columns["bytes"] >= 0))
    holes = hidden_kernels(call)
    return Result(
        rows=rows,
        total_rows=len(slow),
        totals={
            "collectives": every,
            "anomalies": len(slow),
            "excess_ms": Fraction(2 * sum(of["ns"].tolist()) - sum(medians.tolist()), 2),
            "groups": len(found.low),
            "unjudged": unjudged,
        },
        notes=[*holes, *_notes(call, every, sized, unjudged, len(slow))],
        status=Status.PARTIAL if holes else Status.OK if len(slow) else Status.EMPTY,
    )


def _notes(call: Call[NcclAnomalyParams], every: int, sized: int, unjudged: int, count: int) -> list[str]:
    if not every:
        return [NO_COLLECTIVES]
    notes = [BY_NAME, *_grouping(every, sized)]
    if unjudged:
        notes.append(
            f"{unjudged} collectives are not judged: fewer than {ANOMALY_GROUP.value} in their group, or a median of 0"
        )
    if not count and unjudged < every:
        notes.append("no collective that is judged took longer than the threshold")
    if count and not call.profile.recorded("nvtx"):
        notes.append("NVTX push/pop ranges were not recorded: nvtx is unknown")
    return notes


def _grouping(every: int, sized: int) -> list[str]:
    """What the groups are by."""
    if not sized:
        return ["groups are by device and collective: messages of all sizes together"]
    notes = ["groups are by device, collective and message size of the NCCL call around the launch"]
    if sized < every:
        notes.append(
            f"no message size is known of {every - sized} collectives: their groups are by device and collective, "
            "messages of all sizes together"
        )
    return notes


def _numbers(call: Call[NcclAnomalyParams]) -> dict[str, int]:
    """The number of each collective of the capture, in the order of their names."""
    return {name: number for number, name in enumerate(sorted({of.name for of in collectives(call).values()}))}


def _collectives(call: Call[NcclAnomalyParams], numbers: dict[str, int]) -> _Found:
    """The collectives in the window, by group."""
    import numpy as np

    from ..measures.nccl_kernels import message_sizes

    of_kernel = {name: numbers[of.name] for name, of in sorted(collectives(call).items())}
    kernels = call.arrays(
        f"""SELECT gpu, name, coalesce(stack, -1) AS stack, stream, start, "end" - start AS ns
        FROM kernels WHERE comm AND {call.on_devices} AND {call.in_window}"""
    )  # in the order of the table: by start, ties by everything else
    number = np.array(list(of_kernel.values()), np.int64)
    kernels["number"] = number[np.searchsorted(np.array(list(of_kernel), np.int64), kernels["name"])]
    kernels["bytes"] = message_sizes(call, kernels["stack"])
    kernels["tie"] = np.arange(len(kernels["ns"]))
    order = np.lexsort((kernels["ns"], *(kernels[name] for name in _KEYS)))
    columns = {name: kernels[name][order].astype(np.int64) for name in _COLUMNS}
    differs = np.any([columns[name][1:] != columns[name][:-1] for name in _KEYS], axis=0)
    low = np.flatnonzero(np.append(True, differs)[: len(order)])
    high = np.append(low[1:], len(order))[: len(low)]
    ns = columns["ns"].astype(np.uint64)  # twice the longest duration fits
    return _Found(columns, low, high, ns[low + (high - low) // 2] + ns[low + (high - low - 1) // 2])


def _limits(call: Call[NcclAnomalyParams], found: _Found) -> Ints:
    """The longest duration of each group, in whole ns, that is no anomaly; none is where it is not judged."""
    import numpy as np

    threshold = Fraction(Decimal(str(call.params.threshold)))
    limits = np.full(len(found.low), MAX_DURATION_NS)
    for place in np.flatnonzero(found.judged).tolist():
        limits[place] = min(floor(threshold * int(found.medians[place]) / 2), MAX_DURATION_NS)
    return limits
