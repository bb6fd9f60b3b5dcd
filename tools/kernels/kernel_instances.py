"""Single kernel launches, to point at."""

from __future__ import annotations

from decimal import Decimal
from math import ceil
from typing import Literal

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Bytes, Count, Id, Ms, Ns, Text, Us
from ..call import Call
from ..measures.graphs import hidden_kernels
from ..measures.lookups import lookup, range_names
from ..registry import Params, skill
from ..result import Result, Table


class KernelInstancesParams(Params):
    """Parameters of `kernel_instances`."""

    name: str | None = Field(None, description="part of the demangled name, case-sensitive")
    order: Literal["duration", "start"] = Field("duration", description="longest first, or earliest first")
    min_us: float = Field(0, ge=0, allow_inf_nan=False, description="only launches of at least this duration, µs")


class KernelInstancesRow(Row):
    """One kernel launch."""

    kernel: Text = column("short unique label of the demangled name")
    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    stream: Text = column("stream id, or context:stream where a stream id occurs in several contexts")
    start_ns: Ns = column("start on the capture clock")
    duration_us: Us = column("whole duration")
    grid: Text | None = column("blocks in x,y,z")
    block: Text | None = column("threads of a block in x,y,z")
    registers: Count | None = column("registers per thread")
    shared_bytes: Bytes | None = column("static and dynamic shared memory of a block")
    nvtx: Text | None = column("innermost NVTX range around the launching call; null without one")
    tid: Id | None = column("thread id of the launching call; null where the call was not recorded")


class KernelInstancesTotals(Row):
    """All launches that match, in scope."""

    kernels: Count = column("different kernel names")
    instances: Count = column("launches that overlap the window")
    total_ms: Ms = column("sum of durations, clipped to the window")
    clipped: Count = column("launches that cross an edge of the window")


class KernelNameRow(Row):
    """The full name behind a label."""

    kernel: Text = column("label, as in the rows")
    demangled: Text = column("full demangled name, cut at 2,000 characters like every text")


MAX_DURATION_NS = 2**63 - 1
"""What a duration cannot pass in the canonical tables."""

_ORDER = {"duration": '"end" - start DESC, start', "start": 'start, "end" - start DESC'}
TIES = (
    "gpu, stream, name, correlation, graph_node, process, context, grid_x, grid_y, grid_z, block_x, block_y, block_z, "
    "registers, static_shared, dynamic_shared, thread, stack"
)
"""Every other column that is shown, or that one shown is read by, so that the order is total."""


@skill(
    title="Kernel instances",
    when="To point at single kernel launches: the longest or earliest, of one kernel or of all.",
    params=KernelInstancesParams,
    row=KernelInstancesRow,
    totals=KernelInstancesTotals,
    tables={"names": KernelNameRow},
    needs=("kernels",),
    max_rows=10,
    next=("nvtx_kernel_map", "top_kernels"),
    example={"name": "gemm"},
)
def kernel_instances(call: Call[KernelInstancesParams]) -> Result:
    """One row per launch, longest first (order=start: earliest first).

    duration_us is whole, also of a launch that crosses an edge of the window; total_ms is clipped to it. nvtx is the
    innermost push/pop range, of any domain, that contains the launching API call on its thread. Table names gives the
    full demangled name of each kernel shown.
    """
    where, parameters = _condition(call)
    [(kernels, instances, total, clipped)] = call.sql(
        f"""SELECT count(DISTINCT name), count(*), sum({call.clipped}), count(*) FILTER ({call.crosses})
        FROM kernels WHERE {where}""",
        parameters,
    )
    launches = call.sql(
        f"""SELECT name, gpu, stream, start, "end" - start, grid_x, grid_y, grid_z, block_x, block_y, block_z,
            registers, static_shared::BIGINT + dynamic_shared, stack, thread
        FROM kernels WHERE {where} ORDER BY {_ORDER[call.params.order]}, {TIES} {call.page}""",
        parameters,
    )
    texts = call.kernel_labels(name for name, *_ in launches)
    streams = lookup(call, "streams", "stream", "label", (row[2] for row in launches))
    ranges = range_names(call, (row[13] for row in launches))
    tids = lookup(call, "threads", "thread", "tid", (row[14] for row in launches))
    rows = [
        (
            texts[name][0],
            *call.device_of(gpu),
            streams[stream],
            start,
            duration,
            _shape(shape[:3]),
            _shape(shape[3:]),
            registers,
            shared,
            ranges.get(stack),
            tids.get(thread),
        )
        for name, gpu, stream, start, duration, *shape, registers, shared, stack, thread in launches
    ]
    named = sorted(set(texts.values()))
    holes = hidden_kernels(call)
    return Result(
        rows=rows,
        total_rows=instances,
        totals={"kernels": kernels, "instances": instances, "total_ms": total or 0, "clipped": clipped},
        tables={"names": Table(named, len(named))},
        notes=holes,
        status=Status.PARTIAL if holes else Status.OK if instances else Status.EMPTY,
        names=dict(named),
    )


def _condition(call: Call[KernelInstancesParams]) -> tuple[str, list[object]]:
    """The SQL condition on the launches asked for, and its parameters."""
    parts, parameters = [call.on_devices, call.in_window], list[object]()
    if call.params.min_us:
        nanoseconds = ceil(Decimal(str(call.params.min_us)) * 1000)
        parts.append(f'"end" - start >= {min(nanoseconds, MAX_DURATION_NS)}')
    if call.params.name is not None:
        parts.append("name IN (SELECT name FROM kernel_names WHERE contains(demangled, ?))")
        parameters.append(call.params.name)
    return " AND ".join(parts), parameters


def _shape(sides: list[int | None]) -> str | None:
    return None if None in sides else ",".join(map(str, sides))
