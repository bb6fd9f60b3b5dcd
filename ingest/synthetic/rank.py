"""One rank of the demo: a host thread that launches work, and a GPU with three streams that runs it in order."""

from dataclasses import dataclass, field

from .model import Call, Capture, Copy, Kernel, NcclPayload, Process, Range, Set, Sync

US = 1_000
MS = 1_000_000

COMPUTE = 7
NCCL = 21
COPY = 13
CONTEXT = 1

H2D, D2H = 1, 2
PAGEABLE, PINNED, DEVICE = 0, 1, 2
WAIT_EVENT, STREAM_SYNC = 2, 3
NCCL_DOMAIN = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """A kernel as the demo launches it again and again; `ns` is its nominal duration."""

    name: str
    ns: int
    grid: tuple[int, int, int] = (132, 1, 1)
    block: tuple[int, int, int] = (384, 1, 1)
    registers: int = 168
    dynamic_shared: int = 0
    driver: bool = False
    both_apis: bool = False


@dataclass(slots=True)
class Rank:
    """The state of one rank: its host clock, when each stream is free, the last ids, open ranges, starts of steps."""

    rank: int
    process: Process
    capture: Capture
    now: int
    free: dict[int, int] = field(default_factory=lambda: {COMPUTE: 0, NCCL: 0, COPY: 0})
    correlation: int = 1000
    op: int = 0
    open: list[tuple[str, int, int, NcclPayload | None]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """The process id, which is also the main thread's id."""
        return self.process.pid

    def spend(self, ns: int) -> None:
        """Let the host thread do something that nsys does not see."""
        self.now += ns

    def push(self, text: str, domain: int = 0, payload: NcclPayload | None = None) -> None:
        """Open an NVTX range."""
        self.spend(400)
        self.open.append((text, domain, self.now, payload))

    def push_op(self, text: str, *, seq: int | None = None) -> None:
        """Open a range as PyTorch's emit_nvtx names it."""
        self.op += 1
        counters = f", seq = {seq}" if seq is not None else ""
        self.push(f"{text}{counters}, op_id = {self.op}")

    def pop(self) -> None:
        """Close the innermost open range; texts of a named domain are registered strings."""
        self.spend(300)
        text, domain, start, payload = self.open.pop()
        self.capture.ranges.append(
            Range(start, self.now, self.pid, self.pid, text, domain=domain, registered=domain != 0, payload=payload)
        )

    def call(self, name: str, ns: int, *, driver: bool = False) -> int:
        """Make one CUDA API call and return its correlation id."""
        self.correlation += 1
        start, self.now = self.now, self.now + ns
        self.capture.calls.append(Call(start, self.now, self.pid, self.pid, name, self.correlation, driver))
        return self.correlation

    def launch(self, shape: Shape) -> int:
        """Make the API call of a kernel launch and return its correlation id."""
        name = "cuLaunchKernelEx" if shape.driver else "cudaLaunchKernel_v7000"
        correlation = self.call(name, 5_200 + self._vary(1_900), driver=shape.driver)
        if shape.both_apis:
            inner = (self.now - 4_100, self.now - 600)
            self.capture.calls.append(Call(*inner, self.pid, self.pid, "cuLaunchKernel", correlation, driver=True))
        return correlation

    def run(self, shape: Shape, *, after: int = 0) -> None:
        """Launch a kernel on the compute stream; it starts when the stream is free and `after` has passed."""
        correlation = self.launch(shape)
        self.place(shape, correlation, COMPUTE, self.ready(COMPUTE, after), shape.ns + self._vary(shape.ns // 16))
        self.spend(11_000 + self._vary(3_000))

    def ready(self, stream: int, after: int = 0) -> int:
        """When work that was launched just now can start on a stream."""
        return max(self.now + 2_600, self.free[stream] + 900, after + 1_200)

    def place(self, shape: Shape, correlation: int, stream: int, start: int, ns: int) -> None:
        """Put one kernel execution onto a stream."""
        self.free[stream] = start + ns
        self.capture.kernels.append(
            Kernel(
                start,
                start + ns,
                self.rank,
                CONTEXT,
                stream,
                correlation,
                self.pid,
                shape.name,
                grid=shape.grid,
                block=shape.block,
                registers=shape.registers,
                dynamic_shared=shape.dynamic_shared,
            )
        )

    def upload(self, size: int, src_kind: int) -> None:
        """Copy to the device; from pageable memory the call returns only when the copy has been staged."""
        gb_per_s = 9 if src_kind == PAGEABLE else 52
        ns = size // gb_per_s
        correlation = self.call("cudaMemcpyAsync_v3020", 6_800 + (ns if src_kind == PAGEABLE else 0))
        start = max(self.now - ns, self.free[COPY] + 700) if src_kind == PAGEABLE else self.ready(COPY)
        self.free[COPY] = start + ns
        place = (self.rank, CONTEXT, COPY, correlation, self.pid)
        self.capture.copies.append(Copy(start, start + ns, *place, size, H2D, src_kind, DEVICE))

    def clear(self, size: int) -> None:
        """Set device memory to zero on the compute stream."""
        correlation = self.call("cudaMemsetAsync_v3020", 3_900)
        start = self.ready(COMPUTE)
        self.free[COMPUTE] = start + size // 1_800
        place = (self.rank, CONTEXT, COMPUTE, correlation, self.pid)
        self.capture.sets.append(Set(start, self.free[COMPUTE], *place, size, DEVICE))

    def wait_for(self, stream: int) -> int:
        """Make the compute stream wait for another one; returns when that one is done."""
        correlation = self.call("cudaStreamWaitEvent_v3020", 1_400)
        place = (self.rank, CONTEXT, COMPUTE, correlation, self.pid)
        self.capture.syncs.append(Sync(self.now - 1_000, self.now - 200, *place, WAIT_EVENT))
        return self.free[stream]

    def read_scalar(self, wake_up: int) -> None:
        """`tensor.item()`: copy four bytes to the host and block until they are there, plus the time to wake up."""
        self.push_op("aten::item")
        self.push_op("aten::_local_scalar_dense")
        correlation = self.call("cudaMemcpyAsync_v3020", 7_400)
        start = self.ready(COMPUTE)
        self.free[COMPUTE] = start + 1_700
        place = (self.rank, CONTEXT, COMPUTE)
        self.capture.copies.append(Copy(start, start + 1_700, *place, correlation, self.pid, 4, D2H, DEVICE, PAGEABLE))
        self.spend(900)
        waits = max(self.free[COMPUTE] - self.now, 0) + wake_up
        correlation = self.call("cudaStreamSynchronize_v3020", waits)
        self.capture.syncs.append(
            Sync(self.now - waits + 500, self.now - 300, *place, correlation, self.pid, STREAM_SYNC)
        )
        self.pop()
        self.pop()

    def _vary(self, width: int) -> int:
        """A number below `width` that looks irregular but is always the same at the same place."""
        return (self.correlation * 7_919 + self.rank * 104_729) % max(width, 1)
