"""One step against the median step: where the difference lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Change, Count, Id, Ms, Ns, S, Text, Us, ratio
from ..call import Call
from ..measures.busy import Busy, basis_notes, busy_of_devices, busy_together, comm_known, compute_known
from ..measures.gaps import device_gaps_sql
from ..measures.graphs import hidden_kernels
from ..measures.iterations import iterations_to_time
from ..registry import Params, skill
from ..result import Result, Table

_SHOWN = 5
"""Rows of each further table by default."""


class IterationDetailParams(Params):
    """Parameters of `iteration_detail`."""

    iteration: int = Field(ge=0, le=2**31 - 1, description="zero-based, as iteration_timing numbers them")
    marker: str | None = Field(None, min_length=1, description="NVTX range name that bounds a step")


class IterationDetailRow(Row):
    """The step asked about, and the one that it is compared with."""

    iteration: Id = column("the step asked about")
    start_s: S = column("where it begins, on the capture clock")
    wall_ms: Ms = column("how long it lasts")
    median_iteration: Id = column("the step with the median wall time, or next below it; of equal ones the first")
    median_start_s: S = column("where that one begins")
    median_wall_ms: Ms = column("how long that one lasts")
    vs_median_pct: Change | None = column("wall time against that step's, 0 for equal", of="median_wall_ms")
    rank: Count = column("steps that last longer, and one")
    iterations: Count = column("steps in the capture")


class SummaryRow(Row):
    """One measure, summed over devices."""

    measure: Text = column("span, compute, comm, exposed_comm, copy_only or idle")
    this_ms: Ms | None = column("in the step asked about")
    median_ms: Ms | None = column("in the median step")
    change_ms: Ms | None = column("the difference")


class KernelChangeRow(Row):
    """One kernel name."""

    kernel: Text = column("short unique label of the demangled name")
    this_ms: Ms = column("sum of durations in the step asked about, clipped to it, over devices")
    median_ms: Ms = column("the same in the median step")
    change_ms: Ms = column("the difference")
    this_instances: Count = column("launches that overlap the step asked about")
    median_instances: Count = column("launches that overlap the median step")


class CommRow(Row):
    """One collective, by kernel name."""

    collective: Text = column("by kernel name")
    this_ms: Ms = column("sum of durations in the step asked about, clipped to it, over devices; includes waiting")
    median_ms: Ms = column("the same in the median step")
    change_ms: Ms = column("the difference")
    this_instances: Count = column("launches that overlap the step asked about")
    median_instances: Count = column("launches that overlap the median step")


class IdleRow(Row):
    """One gap of a device in the step asked about, the longest first."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    start_ns: Ns = column("where the gap begins, on the capture clock")
    gap_us: Us = column("how long it lasts, cut at the edges of the step")


class IterationDetailTotals(Row):
    """Both steps."""

    change_ms: Ms = column("wall time of the step asked about less that of the median step")
    kernels_changed: Count | None = column("kernel names whose time differs")


@skill(
    title="One iteration against the median",
    when="To see why one step differs: which kernels, collectives and gaps gained or lost time.",
    params=IterationDetailParams,
    row=IterationDetailRow,
    totals=IterationDetailTotals,
    tables={
        "summary": SummaryRow,
        "gained": KernelChangeRow,
        "lost": KernelChangeRow,
        "comm": CommRow,
        "idle": IdleRow,
    },
    window="capture",
    scope=("device", "iteration", "marker"),
    max_rows=_SHOWN,
    next=("gpu_idle_gaps", "nvtx_layer_breakdown"),
    example={"iteration": 1},
)
def iteration_detail(call: Call[IterationDetailParams]) -> Result:
    """The step asked about beside the step of the capture with the median wall time, as iteration_timing shows them.

    Table summary adds up over devices: compute + exposed_comm + copy_only + idle = span. gained and lost are the
    kernels whose summed time grew and shrank most; comm is the same for collectives by kernel name, whose time includes
    waiting for peers; idle lists the longest gaps of the step asked about, with max_rows rows to each table. Times are
    clipped to each step's window. A difference says where time went, not why.
    """
    from ..measures.iteration_times import iteration_times  # numpy, which registering the skill must not load

    capture = call.profile.capture_window
    assert capture is not None
    iterations = iterations_to_time(call, call.params.marker)
    whole = replace(call, scope=capture)
    times = iteration_times(whole, iterations)
    number, typical = call.params.iteration, times.typical
    wall, median_wall = int(times.wall[number]), int(times.wall[typical])
    here, there = call, replace(call, scope=iterations.windows[typical])
    tables = {"summary": _summary(here, there)}
    changed = None
    names: dict[str, str] = {}
    if call.profile.recorded("kernels"):
        changes = _changes(here, there, "name")
        changed = sum(1 for _, this, median, *_ in changes if this != median)
        tables["gained"], tables["lost"], names = _kernels(call, changes)
        tables["comm"] = _comm(here, there)
    if call.profile.devices:
        tables["idle"] = _idle(here)
    holes = hidden_kernels(call)
    notes = [*holes, *basis_notes(call)]
    if number == typical:
        notes.append("the step asked about is the median step itself")
    return Result(
        rows=call.page_of(
            [
                (
                    number,
                    int(times.start[number]),
                    wall,
                    typical,
                    int(times.start[typical]),
                    median_wall,
                    ratio(wall - median_wall, median_wall),
                    int((times.wall > wall).sum()) + 1,
                    len(times.wall),
                )
            ]
        ),
        total_rows=1,
        totals={"change_ms": wall - median_wall, "kernels_changed": changed},
        tables=tables,
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK,
        names=names,
    )


def _summary(here: Call[IterationDetailParams], there: Call[IterationDetailParams]) -> Table:
    this, median = (busy_together(busy_of_devices(step)) for step in (here, there))
    compute, comm = compute_known(here), comm_known(here)
    work = bool(here.profile.devices)
    rows: list[tuple[object, ...]] = []
    for measure, known in (
        ("span", work),
        ("compute", compute),
        ("comm", comm),
        ("exposed_comm", comm),
        ("copy_only", work),
        ("idle", work),
    ):
        rows.append((measure, *(_pair(this, median, measure) if known else (None, None, None))))
    return Table(rows, len(rows))


def _pair(this: Busy, median: Busy, measure: str) -> tuple[int, int, int]:
    first, second = getattr(this, measure), getattr(median, measure)
    return first, second, first - second


Changed = tuple[object, int, int, int, int]
"""A key, its time in the step asked about and in the median step, and its launches in each."""


def _changes(here: Call[IterationDetailParams], there: Call[IterationDetailParams], key: str) -> list[Changed]:
    """By key, over the kernels of both steps, in the order of the keys."""
    sides = []
    for step in (here, there):
        rows = step.sql(
            f"""SELECT {key} AS key, sum({step.clipped})::BIGINT, count(*) FROM kernels
            JOIN kernel_names USING (name) WHERE {step.on_devices} AND {step.in_window} AND {key} IS NOT NULL
            GROUP BY key"""
        )
        sides.append({key: (time, count) for key, time, count in rows})
    first, second = sides
    changes: list[Changed] = []
    for each in sorted(first.keys() | second.keys()):
        (this, this_count), (median, median_count) = first.get(each, (0, 0)), second.get(each, (0, 0))
        changes.append((each, this, median, this_count, median_count))
    return changes


def _kernels(call: Call[IterationDetailParams], changes: Sequence[Changed]) -> tuple[Table, Table, dict[str, str]]:
    """The kernels that gained most, those that lost most, and their full names."""
    gained = sorted((c for c in changes if c[1] > c[2]), key=lambda c: (c[2] - c[1], c[0]))
    lost = sorted((c for c in changes if c[1] < c[2]), key=lambda c: (c[1] - c[2], c[0]))
    shown = [*gained[: call.max_rows], *lost[: call.max_rows]]
    texts = call.kernel_labels(int(str(name)) for name, *_ in shown)

    def table(these: Sequence[Changed]) -> Table:
        rows = [
            (texts[int(str(name))][0], this, median, this - median, *counts)
            for name, this, median, *counts in these[: call.max_rows]
        ]
        return Table(rows, len(these))

    return table(gained), table(lost), dict(texts.values())


def _comm(here: Call[IterationDetailParams], there: Call[IterationDetailParams]) -> Table:
    changes = _changes(here, there, "collective")
    changes.sort(key=lambda c: (-abs(c[1] - c[2]), str(c[0])))
    rows = [(name, this, median, this - median, *counts) for name, this, median, *counts in changes[: here.max_rows]]
    return Table(rows, len(changes))


def _idle(call: Call[IterationDetailParams]) -> Table:
    gaps = device_gaps_sql(call)
    [(count,)] = call.sql(f"SELECT count(*) FROM ({gaps})")
    rows = call.sql(
        f"""SELECT gpu, start, "end" - start FROM ({gaps}) ORDER BY "end" - start DESC, gpu, start
        LIMIT {call.max_rows}"""
    )
    return Table([(*call.device_of(gpu), start, length) for gpu, start, length in rows], count)
