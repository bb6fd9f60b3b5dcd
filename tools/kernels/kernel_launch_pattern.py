"""How streams are fed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Factor, Id, Ms, Pct, Text, Us, ratio
from ..call import Call
from ..measures.graphs import hidden_in_busy
from ..registry import NoParams, skill
from ..result import Result

if TYPE_CHECKING:
    from ..measures.stream_pattern import StreamPattern


class KernelLaunchPatternRow(Row):
    """One stream with kernels in the window."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    stream: Text = column("stream id, or context:stream where a stream id occurs in several contexts")
    kernels: Count = column("kernels that overlap the window")
    extent_ms: Ms = column("first start to last end of kernels on the stream, in the window; busy + gaps = extent")
    busy_ms: Ms = column("time with a kernel, or a graph traced as a whole, on the stream")
    busy_pct: Pct | None = column("busy time; null where no kernel takes time", of="extent_ms")
    kernels_per_ms: Factor | None = column("kernels over extent; null where no kernel takes time")
    gap_avg_us: Us | None = column("mean length of gaps, in which the stream runs no kernel; null without gaps")
    gap_p99_us: Us | None = column("99th percentile of gaps, interpolated linearly")
    gap_max_us: Us | None = column("longest gap")
    bursts: Count = column("runs of two or more kernels with no gap of 10 µs or more between them")
    kernels_per_burst: Factor | None = column("mean number of kernels of a burst; null without bursts")
    sync_stalls: Count | None = column(
        "gaps of 1 ms or more of which the thread that launched the next kernel spent at least half in synchronisation "
        "calls; null where calls were not recorded"
    )


class KernelLaunchPatternTotals(Row):
    """All streams with kernels in the window. Times of streams are not added up."""

    streams: Count = column("streams with kernels in the window")
    kernels: Count = column("kernels that overlap the window")
    bursts: Count = column("sum over streams")
    sync_stalls: Count | None = column("sum over streams; null where calls were not recorded")
    clipped: Count = column("kernels that cross an edge of the window")


@skill(
    title="Kernel launch pattern",
    when="To see how each stream is fed: steadily, in bursts, or with stalls in which the host waits for the GPU.",
    row=KernelLaunchPatternRow,
    totals=KernelLaunchPatternTotals,
    needs=("kernels",),
    max_rows=10,
    next=("gpu_idle_gaps", "kernel_launch_overhead"),
)
def kernel_launch_pattern(call: Call[NoParams]) -> Result:
    """One row per stream that has kernels in the window, by number of kernels.

    Gaps are between kernels of the stream: from the maximum end so far to the next start, so that back-to-back kernels
    have none. A gap is not idle time: copies and sets of the stream, and all other streams, may be busy in it
    (gpu_idle_gaps counts them as work). Kernels of no length take no part in gaps and bursts. Short gaps within long
    bursts mean that the host runs ahead; many bursts of few kernels and a high gap_p99_us, that it does not. A sync
    stall is a gap in which the thread that launched the next kernel was waiting for the GPU; what launching itself
    costs is in kernel_launch_overhead.
    """
    from ..measures.stream_pattern import copies_in_gaps, stream_patterns  # numpy, which registering must not load

    found = sorted(stream_patterns(call), key=lambda pattern: (-pattern.kernels, pattern.stream))
    stalls, notes = _stalls(call, found)
    streams = {stream: (gpu, label) for stream, gpu, label in call.sql("SELECT stream, gpu, label FROM streams")}
    shown = found[call.offset : call.offset + call.max_rows]
    fed = {streams[of.stream][0] for of in found}
    if copying := copies_in_gaps(call, found):
        notes.append(f"copies or sets ran in gaps between kernels on {copying} of {len(found)} streams")
    holes = hidden_in_busy(call)
    return Result(
        rows=[_row(call, of, *streams[of.stream], stalls) for of in shown],
        total_rows=len(found),
        totals={
            "streams": len(found),
            "kernels": sum(of.kernels for of in found),
            "bursts": sum(of.bursts for of in found),
            "sync_stalls": None if stalls is None else stalls.total(),
            "clipped": sum(of.clipped for of in found),
        },
        notes=[*holes, *_without_kernels(call, fed), *notes],
        status=Status.PARTIAL if holes else Status.OK if found else Status.EMPTY,
    )


def _row(
    call: Call[NoParams], of: StreamPattern, gpu: int, label: str, stalls: Counter[int] | None
) -> tuple[object, ...]:
    return (
        *call.device_of(gpu),
        label,
        of.kernels,
        of.extent,
        of.busy,
        ratio(of.busy, of.extent),
        ratio(of.kernels * 10**6, of.extent),
        ratio(of.extent - of.busy, of.gaps),
        of.gap_p99,
        of.gap_max,
        of.bursts,
        ratio(of.burst_kernels, of.bursts),
        None if stalls is None else stalls[of.stream],
    )


def _stalls(call: Call[NoParams], found: Sequence[StreamPattern]) -> tuple[Counter[int] | None, list[str]]:
    """The stalls of each stream, None where they cannot be told, and notes on what is not known."""
    from ..measures.stream_pattern import sync_stalls

    if not call.profile.recorded("calls"):
        return None, ["CUDA API calls were not recorded: sync_stalls is unknown"]
    unknown = sum(int((of.long_gaps.thread < 0).sum()) for of in found)
    notes = [f"{unknown} gaps of 1 ms or more end with a kernel of unknown launch and are no sync_stalls"]
    return sync_stalls(call, found), notes if unknown else []


def _without_kernels(call: Call[NoParams], fed: Collection[int]) -> list[str]:
    """A note on the selected devices that have no row, because no kernel is in the window on any of their streams."""
    idle = [
        str(device.device) if device.process is None else f"{device.device} of process {device.process}"
        for device in call.devices
        if device.gpu not in fed
    ]
    return [f"no kernel in the window on device {', '.join(idle)}"] if idle else []
