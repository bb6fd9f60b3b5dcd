"""GPU time by region of the program."""

from __future__ import annotations

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Flag, Ms, Pct, Text, ratio
from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..measures.graphs import hidden_kernels
from ..measures.work import work_recorded
from ..registry import Params, skill
from ..result import AbstentionError, Result


class NvtxLayerBreakdownParams(Params):
    """Parameters of `nvtx_layer_breakdown`."""

    depth: int | None = Field(None, ge=0, le=32_767, description="only ranges nested so deep; 0 is outermost")
    auto_depth: bool = Field(True, description="without depth, find that of the layers; false: all ranges")
    normalize: bool = Field(True, description="cut PyTorch's counters (seq, op_id, sizes) from names")


class NvtxLayerBreakdownRow(Row):
    """One name, over all its ranges at the depth looked at."""

    region: Text = column("name of the ranges; DOMAIN:name in a named domain")
    depth: Count = column("ranges of its thread and domain around it; the least of its instances")
    instances: Count = column("ranges that launched GPU work, whose work from first to last overlaps the window")
    gpu_ops: Count = column("kernels, copies, sets and whole graphs launched inside that overlap the window")
    projected_ms: Ms = column("first start to last end of an instance's GPU work, clipped, summed over instances")
    host_ms: Ms = column("sum of the instances' own durations on the host, not clipped")
    inclusive_ms: Ms | None = column("sum of kernels launched inside, clipped; null without recorded kernels")
    self_ms: Ms | None = column("sum of the kernels whose innermost range is one of these")
    share_pct: Pct | None = column("kernels launched inside, each once", of="kernel time in scope")
    compute_ms: Ms | None = column("part of inclusive_ms in kernels that are no collectives")
    comm_ms: Ms | None = column("part of inclusive_ms in collectives, by kernel name")
    med_ms: Ms = column("median projected time of whole instances")
    outlier: Flag = column("an instance lies over the median by 3 median absolute deviations and by 10 %")
    top_kernel: Text | None = column("short label of the kernel with most time inside; null without a kernel")


class NvtxLayerBreakdownTotals(Row):
    """All regions in scope."""

    regions: Count = column("different names")
    depth: Count | None = column("the depth looked at; null for all ranges")
    instances: Count = column("ranges that launched GPU work")
    kernel_ms: Ms | None = column("kernel time in scope, in a region or not; null without recorded kernels")
    covered_pct: Pct | None = column("kernels launched in some region, each once", of="kernel time in scope")
    clipped: Count = column("instances whose GPU work, from first to last, crosses an edge of the window")


@skill(
    title="GPU time by NVTX region",
    when="To see how GPU time splits over layers or other regions of the program, named by NVTX ranges.",
    params=NvtxLayerBreakdownParams,
    row=NvtxLayerBreakdownRow,
    totals=NvtxLayerBreakdownTotals,
    needs=("calls", "nvtx"),
    one_of=("kernels", "graphs", "copies", "sets"),
    next=("nvtx_kernel_map", "kernel_instances"),
)
def nvtx_layer_breakdown(call: Call[NvtxLayerBreakdownParams]) -> Result:
    """One row per range name, by projected time; with auto_depth=false and normalize=false as nvtx_gpu_proj_sum has it.

    GPU work belongs to the push/pop ranges, of any domain, that contain its launching API call on the calling thread.
    Depth is counted per thread and domain. auto_depth takes the shallowest depth at which three or more ranges under
    one parent differ by a number in their names (layer.0, layer.1, …), of ranges that launch GPU work anywhere in the
    capture; where there are none, depth 0. projected_ms includes the pauses between an instance's kernels, and those of
    other work in it; inclusive_ms adds up concurrent kernels. Where ranges of one name stand in each other, gpu_ops,
    projected_ms and inclusive_ms count work once for each of them, share_pct only once. Rows of different depths do not
    add up; self_ms does, and is less than the kernel time in scope where other ranges or none are innermost. An
    instance counts when the stretch from its first to its last GPU work, on the selected devices, overlaps the window.
    med_ms and outlier are of whole instances. A CUDA graph traced as a whole is one piece of GPU work and no kernel.
    """
    from ..measures.layer_depth import layer_depth  # numpy, which registering the skill must not load
    from ..measures.regions import launching, regions

    if not work_recorded(call):
        raise AbstentionError("GPU work not recorded in this capture", ["kernels"], CAPTURE_HINTS["kernels"])
    ranges = launching(call, "plain_paths" if call.params.normalize else "paths")
    depth, notes = call.params.depth, []
    if depth is None and call.params.auto_depth:
        found_depth = layer_depth(call, ranges if call.params.normalize else launching(call, "plain_paths"))
        depth = found_depth or 0
        notes.append(
            "under no range are there three numbered siblings: depth 0 is shown; choose another with depth"
            if found_depth is None
            else f"depth {depth} is the shallowest with three or more numbered siblings; choose another with depth"
        )
    found = regions(call, ranges, depth)
    if depth is not None and depth > found.deepest:
        notes.append(f"no range at depth {depth} launched GPU work; the deepest that did is at depth {found.deepest}")
    known = call.profile.recorded("kernels")
    holes = hidden_kernels(call)
    if not known:
        holes.append("GPU kernels were not recorded: regions are those of copies, sets and whole graphs alone")
    if found.nested:
        notes.append(f"{found.nested} regions have ranges within ranges of their own name, and count work for each")
    names = call.strings(region.name for region in found.page)
    labels = call.kernel_labels(region.kernel for region in found.page if region.kernel is not None)
    rows = [
        (
            names[region.name],
            region.depth,
            region.instances,
            region.ops,
            region.projected,
            region.host,
            region.inclusive if known else None,
            region.own if known else None,
            ratio(region.once, found.kernel_time) if known else None,
            region.inclusive - region.comm if known else None,
            region.comm if known else None,
            region.med,
            region.outlier,
            None if region.kernel is None else labels[region.kernel][0],
        )
        for region in found.page
    ]
    return Result(
        rows=rows,
        total_rows=found.count,
        totals={
            "regions": found.count,
            "depth": depth,
            "instances": found.instances,
            "kernel_ms": found.kernel_time if known else None,
            "covered_pct": ratio(found.covered, found.kernel_time) if known else None,
            "clipped": found.clipped,
        },
        notes=[*holes, *notes],
        status=Status.PARTIAL if holes else Status.OK if found.count else Status.EMPTY,
        names=dict(labels.values()),
    )
