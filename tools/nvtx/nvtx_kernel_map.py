"""Which NVTX ranges launch which kernels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, Ns, Pct, Text, ratio
from ..call import Call
from ..measures.graphs import hidden_kernels
from ..measures.lookups import lookup
from ..registry import Params, skill
from ..result import Result, Table
from .path_texts import NO_RANGE, path_texts


class NvtxKernelMapParams(Params):
    """Parameters of `nvtx_kernel_map`."""

    detail: Literal["summary", "instances"] = Field(
        "summary", description="instances: also give, in table instances, the first max_rows kernels one by one"
    )
    normalize: bool = Field(
        True, description="cut PyTorch's counters (seq, op_id, sizes) from range names; steps and layers keep theirs"
    )


class NvtxKernelMapRow(Row):
    """One path of ranges and one kernel."""

    path: Text = column("names of the nested ranges, outermost first; (no range) for kernels in none")
    kernel: Text = column("short unique label of the demangled name")
    ranges: Count = column("ranges with this path that contain a launch of the kernel; 0 without a range")
    kernels: Count = column("kernels launched inside (inclusive)")
    self_ms: Ms = column("time of the kernels whose innermost range this is; adds up over rows")
    inclusive_ms: Ms = column("time of all kernels launched inside; does not add up over rows")


class NvtxKernelMapTotals(Row):
    """All kernels in scope."""

    kernels: Count = column("kernels that overlap the window")
    kernel_ms: Ms = column("sum of durations, clipped to the window: the sum of self_ms over all rows")
    attributed_pct: Pct | None = column("time of kernels in some range", of="kernel time in scope")
    paths: Count = column("different paths with kernels, outer ones too; without (no range)")
    clipped: Count = column("kernels that cross an edge of the window")


class KernelInstanceRow(Row):
    """One kernel."""

    range: Text = column("path of its innermost range; (no range) for none")
    kernel: Text = column("short unique label of the demangled name")
    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    start_ns: Ns = column("start on the capture clock")
    end_ns: Ns = column("end; start and end are not clipped to the window")


@skill(
    title="NVTX ranges and their kernels",
    when="To see which parts of the program, named by NVTX ranges, launch which kernels and how long those run.",
    params=NvtxKernelMapParams,
    row=NvtxKernelMapRow,
    totals=NvtxKernelMapTotals,
    tables={"instances": KernelInstanceRow},
    needs=("kernels", "calls", "nvtx"),
    max_rows=50,
    next=("kernel_instances", "gpu_idle_gaps"),
)
def nvtx_kernel_map(call: Call[NvtxKernelMapParams]) -> Result:
    """One row per path of ranges and kernel, by inclusive time.

    A kernel belongs to the push/pop ranges, of any domain, that contain its launching API call on the calling thread;
    when it runs on the GPU does not matter. self_ms counts it in the innermost of them alone, inclusive_ms in each: a
    row that is only an ancestor has self_ms 0. A range of a named domain is DOMAIN:name. Kernels whose launching call
    is not recorded count as (no range). Times are clipped to the window. Table instances lists the first max_rows
    kernels by start and has no next page: kernel_instances with order=start pages through all of them.
    """
    from ..measures.kernel_paths import kernel_paths  # numpy, which registering the skill must not load

    table = "plain_paths" if call.params.normalize else "paths"
    found = kernel_paths(call, table)
    page = slice(call.offset, call.offset + call.max_rows)
    paths, names = found.path[page].tolist(), found.name[page].tolist()
    instances = _instances(call, table) if call.params.detail == "instances" else []
    texts = path_texts(call, {*paths, *(path for path, *_ in instances if path is not None)} - {-1}, table)
    labels = call.kernel_labels([*names, *(name for _, name, *_ in instances)])
    figures = (found.ranges, found.kernels, found.own, found.inclusive)
    rows = [
        (texts.get(path, NO_RANGE), labels[name][0], *values)
        for path, name, *values in zip(paths, names, *(values[page].tolist() for values in figures), strict=True)
    ]
    shown = [
        (NO_RANGE if path is None else texts[path], labels[name][0], *call.device_of(gpu), start, end)
        for path, name, gpu, start, end in instances
    ]
    time = int(found.own.sum())
    notes = holes = hidden_kernels(call)
    if found.without_call:
        unknown = f"{found.without_call} kernels have no recorded launching call and count as {NO_RANGE}"
        notes = [*holes, unknown]
    return Result(
        rows=rows,
        total_rows=len(found.path),
        totals={
            "kernels": found.count,
            "kernel_ms": time,
            "attributed_pct": ratio(found.attributed, time),
            "paths": len(set(found.path[found.path >= 0].tolist())),
            "clipped": found.clipped,
        },
        tables={"instances": Table(shown, found.count)} if call.params.detail == "instances" else {},
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK if found.count else Status.EMPTY,
        names=dict(labels.values()),
    )


def _instances(call: Call[NvtxKernelMapParams], table: str) -> list[tuple[int | None, int, int, int, int]]:
    """The first kernels in scope: innermost path, name, gpu, start, end."""
    column_of = "plain_path" if table == "plain_paths" else "path"
    first = call.sql(
        f"""SELECT stack, name, gpu, start, "end" FROM kernels WHERE {call.on_devices} AND {call.in_window}
        ORDER BY start, "end", gpu, stream, name, correlation, graph_node, stack LIMIT {call.max_rows}"""
    )
    paths = lookup(call, "stacks", "node", column_of, (stack for stack, *_ in first))
    return [(paths.get(stack), *values) for stack, *values in first]
