"""Which collectives took much longer than others of their kind."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, Id, Ms, Ns, Text, Us
from ..call import Call
from ..kernels.kernel_instances import MAX_DURATION_NS, TIES
from ..measures.graphs import hidden_kernels
from ..measures.lookups import lookup, range_names
from ..registry import Params, skill
from ..result import Result
from ..thresholds.communication import ANOMALY_GROUP
from .collectives import BY_NAME, NO_COLLECTIVES, collectives, numbered_sql


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
    nvtx: Text | None = column("innermost NVTX range around the launching call; null without one")


class NcclAnomalyTotals(Row):
    """All collectives in scope."""

    collectives: Count = column("collectives that overlap the window")
    anomalies: Count = column("those that took longer than the threshold: the rows")
    excess_ms: Ms = column("what the anomalies took beyond the median of their groups, whole durations, summed")
    groups: Count = column("groups of collectives")
    unjudged: Count = column("collectives of groups that are too small, or whose median is 0")


@dataclass(frozen=True, slots=True)
class _Group:
    """The collectives of a group; durations are whole, in ns.

    Attributes:
        key: what the group has in common, in the order of `_KEYS`.
        size: how many there are.
        median: the median of their durations.
    """

    key: tuple[int, ...]
    size: int
    median: Fraction

    @property
    def judged(self) -> bool:
        """Whether the median tells what is usual."""
        return self.size >= ANOMALY_GROUP.value and self.median > 0


_KEYS = ("gpu", "number")
"""Columns of `_collectives` that make up a group; each an integer without nulls."""


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

    A group is the collectives of one device and one kind, by kernel name, in the window: five or more, else nothing is
    judged. The sizes of messages are not in a kernel's name, so that a group mixes sizes, and a large message among
    small ones looks slow. Time in a collective includes waiting for peers: the device that waited is listed, and the
    cause is on the one that came late, whose collective is the shorter. Durations are whole, also of collectives that
    cross an edge of the window.
    """
    numbers = _numbers(call)
    groups = _groups(call, numbers)
    limits = _limits(call, groups)
    found = _slow(call, numbers, groups, limits)
    kinds = sorted(numbers)
    labels = lookup(call, "streams", "stream", "label", (row[2] for row in found))
    ranges = range_names(call, (row[5] for row in found))
    rows = []
    for place, gpu, stream, start, duration, stack in found:
        group = groups[place]
        times = Fraction(duration) / group.median
        of = kinds[group.key[_KEYS.index("number")]]
        shown = (start, duration, times, group.size, ranges.get(stack))
        rows.append((of, *call.device_of(gpu), labels[stream], *shown))
    count, excess = _counts(call, numbers, groups, limits)
    every = sum(group.size for group in groups)
    unjudged = sum(group.size for group in groups if not group.judged)
    holes = hidden_kernels(call)
    return Result(
        rows=rows,
        total_rows=count,
        totals={
            "collectives": every,
            "anomalies": count,
            "excess_ms": excess,
            "groups": len(groups),
            "unjudged": unjudged,
        },
        notes=[*holes, *_notes(call, every, unjudged, count)],
        status=Status.PARTIAL if holes else Status.OK if count else Status.EMPTY,
    )


def _notes(call: Call[NcclAnomalyParams], every: int, unjudged: int, count: int) -> list[str]:
    if not every:
        return [NO_COLLECTIVES]
    notes = [BY_NAME, "groups are by device and collective: messages of all sizes together"]
    if unjudged:
        notes.append(
            f"{unjudged} collectives are not judged: fewer than {ANOMALY_GROUP.value} in their group, or a median of 0"
        )
    if not count and unjudged < every:
        notes.append("no collective that is judged took longer than the threshold")
    if count and not call.profile.recorded("nvtx"):
        notes.append("NVTX push/pop ranges were not recorded: nvtx is unknown")
    return notes


def _numbers(call: Call[NcclAnomalyParams]) -> dict[str, int]:
    """The number of each collective of the capture, in the order of their names."""
    return {name: number for number, name in enumerate(sorted({of.name for of in collectives(call).values()}))}


def _collectives(call: Call[NcclAnomalyParams], numbers: dict[str, int]) -> str:
    """SQL: the collectives in the window, with the columns of `_KEYS` and of kernels, and `ns`, the duration."""
    of_kernel = {name: numbers[of.name] for name, of in collectives(call).items()}
    return f"""SELECT *, "end" - start AS ns FROM kernels JOIN {numbered_sql(of_kernel)} USING (name)
        WHERE {call.on_devices} AND {call.in_window}"""


def _groups(call: Call[NcclAnomalyParams], numbers: dict[str, int]) -> list[_Group]:
    """The groups of the collectives in the window, in the order of their keys."""
    if not numbers:
        return []
    keys = ", ".join(_KEYS)
    rows = call.sql(
        f"SELECT count(*), median(ns), {keys} FROM ({_collectives(call, numbers)}) GROUP BY {keys} ORDER BY {keys}"
    )
    return [_Group(tuple(key), size, Fraction(median)) for size, median, *key in rows]


def _limits(call: Call[NcclAnomalyParams], groups: list[_Group]) -> dict[int, int]:
    """The longest duration, in whole ns, that is no anomaly yet, by place of the group that is judged."""
    threshold = Fraction(Decimal(str(call.params.threshold)))
    return {
        place: min(floor(threshold * group.median), MAX_DURATION_NS)
        for place, group in enumerate(groups)
        if group.judged
    }


def _anomalies(
    call: Call[NcclAnomalyParams], numbers: dict[str, int], groups: list[_Group], limits: dict[int, int]
) -> str:
    """SQL: the collectives beyond the limit of their group, with its `place` and twice its median, an integer."""
    judged = [(place, longest, int(2 * groups[place].median), *groups[place].key) for place, longest in limits.items()]
    values = ", ".join(f"({', '.join(f'{value}::BIGINT' for value in row)})" for row in judged)
    return f"""SELECT * FROM ({_collectives(call, numbers)})
        JOIN (VALUES {values}) judged(place, longest, medians, {", ".join(_KEYS)}) USING ({", ".join(_KEYS)})
        WHERE ns > longest"""


def _slow(
    call: Call[NcclAnomalyParams], numbers: dict[str, int], groups: list[_Group], limits: dict[int, int]
) -> list[tuple[int, int, int, int, int, int | None]]:
    """The page of anomalies, worst first: place of the group, gpu, stream, start, duration, stack."""
    if not limits:
        return []
    return call.sql(
        f"""SELECT place, gpu, stream, start, ns, stack FROM ({_anomalies(call, numbers, groups, limits)})
        ORDER BY ns::DOUBLE / medians DESC, ns DESC, start, {TIES} {call.page}"""
    )


def _counts(
    call: Call[NcclAnomalyParams], numbers: dict[str, int], groups: list[_Group], limits: dict[int, int]
) -> tuple[int, Fraction]:
    """How many anomalies there are, and what they took beyond their medians, in ns."""
    if not limits:
        return 0, Fraction(0)
    [(count, doubled)] = call.sql(
        f"SELECT count(*), sum(2 * ns::HUGEINT - medians) FROM ({_anomalies(call, numbers, groups, limits)})"
    )
    return count, Fraction(int(doubled or 0), 2)
