"""What a generated capture must yield, by the slow and obvious method, from its plan and never from a file.

Times are nanoseconds. Busy time is the union of kernels, copies and sets; a kernel is communication when its name says
NCCL. CUDA graphs traced as a whole are not looked at.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import Capture, Copy, Kernel, Set

Interval = tuple[int, int]
COMM_PREFIXES = ("ncclDevKernel", "ncclKernel")
HOST_TO_DEVICE = 1
PAGEABLE = 0


@dataclass(frozen=True, slots=True)
class DeviceTruth:
    """One device over the whole GPU window: compute + exposed comm + copy-only + idle = span."""

    device: int
    kernels: int
    kernel_total_ns: int
    compute_busy_ns: int
    comm_busy_ns: int
    overlap_ns: int
    exposed_comm_ns: int
    copy_only_ns: int
    busy_ns: int
    idle_ns: int
    span_ns: int
    largest_gap: tuple[int, int]
    h2d_bytes: int
    h2d_pageable_bytes: int


@dataclass(frozen=True, slots=True)
class KernelTruth:
    """All executions of one kernel name, over devices."""

    name: str
    instances: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class Truth:
    """The facts that every analysis of the capture must agree with.

    Attributes:
        devices: one entry for each device with GPU work; `largest_gap` there is (start, length).
        capture_window: the first start and the last end of all events.
        gpu_window: the first start and the last end of kernels, copies and sets over all devices.
        top_kernel: the kernel with the most total time.
        iterations: how many `iteration N` ranges each rank has.
        slowest_iteration: (rank, index) of the longest of them on the host.
    """

    devices: tuple[DeviceTruth, ...]
    capture_window: Interval
    gpu_window: Interval
    top_kernel: KernelTruth
    iterations: int
    slowest_iteration: tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The merged intervals, in order; intervals that touch become one, empty ones vanish."""
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    """The length of the union of the intervals."""
    return sum(end - start for start, end in union(intervals))


def intersection(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """The time that both unions cover."""
    pairs = ((max(a, c), min(b, d)) for a, b in union(first) for c, d in union(second))
    return union(pairs)


def gaps(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """The parts of the window that no interval covers."""
    edges = [window[0], *(edge for interval in union(intervals) for edge in interval), window[1]]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]


def is_comm(kernel: Kernel) -> bool:
    """Whether the name says collective communication."""
    return kernel.name.startswith(COMM_PREFIXES)


def times(event: object) -> Interval | None:
    """Start and end of an event (an instant ends where it starts), None for a row that cannot be true."""
    start: int | None = getattr(event, "start", None)
    end: int | None = getattr(event, "end", start)
    if start is None or end is None or end < start or start == end == 0:
        return None
    return start, end


def gpu_window(capture: Capture) -> Interval:
    """The first start and the last end of kernels, copies and sets over all devices."""
    return _window((*capture.kernels, *capture.copies, *capture.sets))


def capture_window(capture: Capture) -> Interval:
    """The first start and the last end of all events."""
    gpu_side = (*capture.kernels, *capture.copies, *capture.sets, *capture.graph_launches, *capture.syncs)
    host_side = (*capture.calls, *capture.ranges, *capture.marks, *capture.osrt_calls)
    return _window((*gpu_side, *host_side, *capture.running, *capture.samples, *capture.gpu_metrics))


def _window(events: Iterable[object]) -> Interval:
    intervals = [interval for event in events if (interval := times(event))]
    return min(start for start, _ in intervals), max(end for _, end in intervals)


def _intervals(events: Iterable[Kernel | Copy | Set], device: int) -> list[Interval]:
    return [interval for event in events if event.device == device and (interval := times(event))]


def device_truth(capture: Capture, device: int) -> DeviceTruth:
    """Busy and idle time of one device id over the GPU window."""
    window = gpu_window(capture)
    compute = _intervals((kernel for kernel in capture.kernels if not is_comm(kernel)), device)
    comm = _intervals((kernel for kernel in capture.kernels if is_comm(kernel)), device)
    moved = _intervals((*capture.copies, *capture.sets), device)
    busy = length((*compute, *comm, *moved))
    overlap = length(intersection(compute, comm))
    idle = gaps((*compute, *comm, *moved), window)
    longest = max(idle, key=lambda gap: (gap[1] - gap[0], -gap[0]), default=(window[0], window[0]))
    uploads = [copy for copy in capture.copies if copy.device == device and copy.kind == HOST_TO_DEVICE]
    return DeviceTruth(
        device=device,
        kernels=len(compute) + len(comm),
        kernel_total_ns=sum(end - start for start, end in compute + comm),
        compute_busy_ns=length(compute),
        comm_busy_ns=length(comm),
        overlap_ns=overlap,
        exposed_comm_ns=length(comm) - overlap,
        copy_only_ns=busy - length(compute + comm),
        busy_ns=busy,
        idle_ns=sum(end - start for start, end in idle),
        span_ns=window[1] - window[0],
        largest_gap=(longest[0], longest[1] - longest[0]),
        h2d_bytes=sum(copy.bytes for copy in uploads),
        h2d_pageable_bytes=sum(copy.bytes for copy in uploads if copy.src_kind == PAGEABLE),
    )


def top_kernel(capture: Capture) -> KernelTruth:
    """The kernel name with the most total time, the first by name where two are equal."""
    found: dict[str, list[int]] = {}
    for kernel in capture.kernels:
        if interval := times(kernel):
            found.setdefault(kernel.name, []).append(interval[1] - interval[0])
    name = min(found, key=lambda candidate: (-sum(found[candidate]), candidate))
    return KernelTruth(name, len(found[name]), sum(found[name]))


def capture_truth(capture: Capture, ranks: Sequence[int], marker: str = "iteration ") -> Truth:
    """The truth of a training capture: `ranks` are the process ids by rank, `marker` begins each step's range."""
    work: list[Kernel | Copy | Set] = [*capture.kernels, *capture.copies, *capture.sets]
    steps = {
        (ranks.index(step.pid), int(step.text.removeprefix(marker))): interval[1] - interval[0]
        for step in capture.ranges
        if step.text and step.text.startswith(marker) and (interval := times(step))
    }
    return Truth(
        devices=tuple(device_truth(capture, device) for device in sorted({event.device for event in work})),
        capture_window=capture_window(capture),
        gpu_window=gpu_window(capture),
        top_kernel=top_kernel(capture),
        iterations=len({index for _, index in steps}),
        slowest_iteration=max(steps, key=lambda step: (steps[step], step)),
    )
