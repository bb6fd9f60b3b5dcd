"""Generated captures, and what must be true of them by the slow and obvious method.

Nothing in here reads a file or runs a query: figures are computed in plain Python from the rows that were generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from statistics import median
from typing import Any, Protocol

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import (
    Call,
    Capture,
    Copy,
    CudaDevice,
    Domain,
    Gpu,
    Kernel,
    Process,
    Range,
    Set,
    capture_window,
    gpu_window,
)

generated = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""For tests that write and ingest a capture per example: few examples, the same ones on every run."""

PIDS = (101, 102)
ORIGINS = (10**9, 155_357_525_002_123, 2**60)
"""Where the capture clock stands: near, usual, and beyond what a double holds."""

KERNEL_NAMES = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_tn>(T1::Params)",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma",
    "void scale<float>(float *, int)",
    "void scale<double>(double *, int)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
)
RANGE_NAMES = ("step 1", "step 2", "forward", "aten::mm")
DOMAIN = "Lib"


class Timed(Protocol):
    """Anything with a start and an end."""

    @property
    def start(self) -> int | None: ...
    @property
    def end(self) -> int | None: ...


Work = Kernel | Copy | Set


# Captures.


@st.composite
def captures(draw: st.DrawFn, *, min_launches: int = 1, max_launches: int = 24) -> Capture:
    """A small capture: 1-2 processes with equal correlation ids, 1-3 devices, 1-3 streams, 1-2 threads a process.

    Work ties and overlaps, some has no length, some launches have no call, some a driver call inside the runtime call,
    some launch several kernels, as CUDA graphs do. NVTX ranges nest within a thread and domain, and cross between two
    domains. Durations are either a few nanoseconds or large enough to show in milliseconds.
    """
    origin = draw(st.sampled_from(ORIGINS))
    scale = draw(st.sampled_from((1, 997, 100_003)))
    pids = PIDS[: draw(st.integers(1, 2))]
    devices = draw(st.integers(1, 3))
    threads = draw(st.integers(1, 2))
    count = draw(st.integers(min_launches, max_launches))
    capture = Capture(processes=[Process(pid) for pid in pids])
    next_correlation = dict.fromkeys(pids, 1)

    def at(offset: int) -> int:
        return origin + offset * scale

    for _ in range(count):
        pid = draw(st.sampled_from(pids))
        correlation = next_correlation[pid]
        next_correlation[pid] += 1
        begin = draw(st.integers(0, 60))
        _add_work(draw, capture, pid, devices, correlation, begin, at)
        call_start = begin - draw(st.integers(0, 10))
        call_end = call_start + draw(st.integers(0, 8))
        tid = pid + draw(st.integers(0, threads - 1))
        apis = draw(st.sampled_from(("runtime", "driver", "both", "none")))
        if apis in ("runtime", "both"):
            capture.calls.append(Call(at(call_start), at(call_end), pid, tid, "cudaLaunchKernel_v7000", correlation))
        if apis == "both" and call_end - call_start >= 2:
            inner = (at(call_start + 1), at(call_end - 1))
            capture.calls.append(Call(*inner, pid, tid, "cuLaunchKernel", correlation, driver=True))
        if apis == "driver":
            capture.calls.append(
                Call(at(call_start), at(call_end), pid, tid, "cuLaunchKernel", correlation, driver=True)
            )

    for pid in pids:
        if draw(st.booleans()):
            start = draw(st.integers(0, 60))
            wait = (at(start), at(start + draw(st.integers(0, 20))))
            capture.calls.append(Call(*wait, pid, pid, "cudaDeviceSynchronize_v3020", next_correlation[pid]))
        for tid in range(pid, pid + threads):
            for domain in (0, 1):
                capture.ranges.extend(
                    Range(at(start), at(end), pid, tid, name, domain) for start, end, name in draw(nested_ranges())
                )
        if any(r.domain and r.pid == pid for r in capture.ranges):
            capture.domains.append(Domain(pid, 1, DOMAIN))
    if draw(st.booleans()):
        for device in range(devices):
            capture.gpus.append(Gpu(device, "NVIDIA Test", "GT000", 10**12, 10**10, 100, device))
            capture.cuda_devices.extend(CudaDevice(device, device, pid) for pid in pids)
    return capture


def _add_work(draw: st.DrawFn, capture: Capture, pid: int, devices: int, correlation: int, begin: int, at: Any) -> None:
    """What one launch puts on the GPU: a copy, a set, a kernel, or several kernels."""
    what = draw(st.sampled_from(("kernel", "kernel", "kernel", "copy", "set", "graph")))
    context = draw(st.integers(1, 2))
    kinds = st.sampled_from((0, 1, 2, 3, 4, 7))
    for node in range(draw(st.integers(2, 3)) if what == "graph" else 1):
        start = begin + (draw(st.integers(0, 9)) if node else 0)
        length = draw(st.integers(0, 20))
        device = draw(st.integers(0, devices - 1))
        stream = draw(st.sampled_from((7, 13, 14)))
        where = (at(start), at(start + length), device, context, stream, correlation, pid)
        size = draw(st.sampled_from((0, 4, 4096, 1 << 20, 8 << 20)))
        if what == "copy":
            kind = draw(st.integers(0, 13))
            capture.copies.append(Copy(*where, size, kind, draw(kinds), draw(kinds)))
        elif what == "set":
            capture.sets.append(Set(*where, size, draw(kinds)))
        else:
            name = draw(st.sampled_from(KERNEL_NAMES))
            graph_node = node + 1 if what == "graph" else None
            shape = {"grid": (node + 1, 2, 1), "block": (128, 1, 1), "registers": 32, "dynamic_shared": size % 97}
            capture.kernels.append(Kernel(*where, name, graph_node=graph_node, **shape))  # type: ignore[arg-type]


@st.composite
def nested_ranges(draw: st.DrawFn) -> list[tuple[int, int, str]]:
    """Properly nested ranges of one thread and domain, as push and pop make them: start, end, name."""
    now = draw(st.integers(-12, 20))
    open_ranges: list[tuple[int, str]] = []
    closed: list[tuple[int, int, str]] = []
    for push in draw(st.lists(st.booleans(), max_size=8)):
        if push:
            open_ranges.append((now, draw(st.sampled_from(RANGE_NAMES))))
        elif open_ranges:
            start, name = open_ranges.pop()
            closed.append((start, now, name))
        now += draw(st.integers(0, 12))
    closed.extend((start, now, name) for start, name in reversed(open_ranges))
    return closed


# Windows.


@dataclass(frozen=True, slots=True)
class Span:
    """A window as the tests see it: half-open, or with its end where it reaches the end of the capture."""

    start: int
    end: int
    includes_end: bool = False

    def contains(self, instant: int) -> bool:
        """Whether an instant is in the window."""
        return self.start <= instant < self.end or (self.includes_end and instant == self.end)

    def has(self, event: Timed) -> bool:
        """Whether the event is in the window."""
        start, end = ends(event)
        return self.contains(start) if start == end else start < self.end and end > self.start

    def begins(self, event: Timed) -> bool:
        """Whether the event starts in the window."""
        return self.contains(ends(event)[0])

    def part(self, event: Timed) -> int:
        """The part of the event's duration that lies in the window."""
        start, end = ends(event)
        return max(0, min(end, self.end) - max(start, self.start))

    def cuts(self, event: Timed) -> bool:
        """Whether the event is in the window and crosses one of its edges."""
        start, end = ends(event)
        return self.has(event) and (start < self.start or end > self.end)

    @property
    def trim(self) -> list[str]:
        """The window as the argument `trim`, exact to the nanosecond."""
        return [f"{t // 10**9}.{t % 10**9:09d}" for t in (self.start, self.end)]


def ends(event: Timed) -> tuple[int, int]:
    """Start and end of an event that has both."""
    assert event.start is not None
    assert event.end is not None
    return event.start, event.end


def duration(event: Timed) -> int:
    """The whole duration of an event."""
    start, end = ends(event)
    return end - start


def gpu_span(capture: Capture) -> Span:
    """The GPU window: the default of skills about GPU work."""
    return Span(*gpu_window(capture), includes_end=True)


def trims(capture: Capture) -> st.SearchStrategy[Span]:
    """Windows inside the capture window of any length but zero, often at the edge of an event."""
    first, last = capture_window(capture)
    work: Sequence[Timed] = (*capture.kernels, *capture.copies, *capture.sets, *capture.calls)
    edges = sorted({time for event in work for time in ends(event)} | {first, last})
    instant = st.one_of(st.sampled_from(edges), st.integers(first, last))
    pairs = st.tuples(instant, instant).filter(lambda pair: pair[0] != pair[1])
    return pairs.map(lambda pair: Span(min(pair), max(pair), includes_end=max(pair) >= last))


def has_length(capture: Capture) -> bool:
    """Whether the capture window is longer than an instant, so that it can be trimmed."""
    first, last = capture_window(capture)
    return first < last


# Identity.


def all_work(capture: Capture) -> list[Work]:
    """Kernels, copies and sets."""
    return [*capture.kernels, *capture.copies, *capture.sets]


def device_key(capture: Capture, event: Work) -> tuple[int, int | None]:
    """The first columns of a per-device row: device id, and process id where several processes have that device id.

    Generated captures map every process's device to the same GPU, or map nothing.
    """
    if capture.cuda_devices:
        return event.device, None
    owners = {work.pid for work in all_work(capture) if work.device == event.device}
    return event.device, event.pid if len(owners) > 1 else None


def stream_label(capture: Capture, event: Work) -> str:
    """The stream id, or `context:stream` where it occurs in several contexts of the device, or with the process too."""
    device = device_key(capture, event)
    twins = [w for w in all_work(capture) if w.stream == event.stream and device_key(capture, w) == device]
    contexts = {(work.pid, work.context) for work in twins}
    label = str(event.stream) if len(contexts) == 1 else f"{event.context}:{event.stream}"
    processes = {pid for pid, context in contexts if context == event.context}
    return label if len(processes) == 1 else f"{event.pid}/{label}"


def call_of(capture: Capture, work: Work) -> Call | None:
    """The API call that launched the work: of its process and correlation id, the longest."""
    calls = [call for call in capture.calls if (call.pid, call.correlation) == (work.pid, work.correlation)]
    return max(calls, key=duration, default=None)


def shown_range(r: Range) -> str:
    """The name of a range as results show it."""
    return f"{DOMAIN}:{r.text}" if r.domain else str(r.text)


def containing_ranges(capture: Capture, call: Call | None) -> list[Range]:
    """The push/pop ranges, of any domain, of the call's thread that contain the call."""
    if call is None:
        return []
    start, end = ends(call)
    mine = [r for r in capture.ranges if (r.pid, r.tid) == (call.pid, call.tid)]
    return [r for r in mine if ends(r)[0] <= start and ends(r)[1] >= end]


def innermost_names(capture: Capture, call: Call | None) -> set[str]:
    """Names that the innermost containing range may have: latest start, then earliest end; several for twins."""
    ranges = containing_ranges(capture, call)
    if not ranges:
        return set()
    best = min((-ends(r)[0], ends(r)[1]) for r in ranges)
    return {shown_range(r) for r in ranges if (-ends(r)[0], ends(r)[1]) == best}


# Figures as results show them: rounded once, half to even, through decimal.


def _rounded(value: Fraction | int, decimals: int) -> float:
    """The exact value to this many decimals, half to even."""
    scaled = Fraction(value) * 10**decimals
    below = scaled.numerator // scaled.denominator
    rest = scaled - below
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    return float((below + up) / 10**decimals)


def ms(nanoseconds: Fraction | int) -> float:
    """Milliseconds to 3 decimals."""
    return _rounded(Fraction(nanoseconds) / 10**6, 3)


def us(nanoseconds: Fraction | int) -> float:
    """Microseconds to 3 decimals."""
    return _rounded(Fraction(nanoseconds) / 10**3, 3)


def mb(size: Fraction | int) -> float:
    """Megabytes of 10^6 bytes to 3 decimals."""
    return _rounded(Fraction(size) / 10**6, 3)


def pct(part: Fraction | int, whole: Fraction | int) -> float | None:
    """A share in percent to 2 decimals; None of nothing."""
    return _rounded(Fraction(part) / Fraction(whole) * 100, 2) if whole else None


def ns(nanoseconds: int) -> int | str:
    """Nanoseconds: a string beyond 2^53."""
    return nanoseconds if abs(nanoseconds) <= 2**53 else str(nanoseconds)


def mean(values: Sequence[int]) -> Fraction:
    """The exact mean."""
    return Fraction(sum(values), len(values))


def middle(values: Iterable[int]) -> Fraction:
    """The exact median."""
    return Fraction(median(Fraction(value) for value in values))


def shown_decimal(text: str, divisor: int, decimals: int = 3) -> float:
    """A figure of an oracle file, divided and rounded half to even, as results show it."""
    exact = Decimal(text) / divisor
    return float(exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_EVEN))
