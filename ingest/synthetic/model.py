"""A capture in plain terms, before it is stored as an Nsight Systems export.

Times are integer nanoseconds on the capture clock, sizes are bytes. A time may be None or nonsense (end before start,
both zero): tests plant rows that a reader must set aside. `pid` is a process id that `Capture.processes` may describe,
or an already packed `Process.global_pid` where two machines of one capture use the same process id.
"""

from dataclasses import dataclass, field
from typing import Literal

from .tables import CLASS_OSRT

PID_BITS = 24


@dataclass(frozen=True, slots=True)
class Process:
    """A process, and how nsys packs ids: hardware, VM, process and thread id in one signed 64-bit integer."""

    pid: int
    hw: int = 0
    vm: int = 0
    name: str = "python3"
    command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (0 <= self.pid < 1 << PID_BITS and 0 <= self.vm < 1 << 8 and 0 <= self.hw < 1 << 7):
            raise ValueError(f"ids do not fit into a packed id: hw {self.hw}, vm {self.vm}, pid {self.pid}")

    @property
    def global_vm(self) -> int:
        """The packed id of the machine that the process runs on."""
        return self.hw << 56 | self.vm << 48

    @property
    def global_pid(self) -> int:
        """The packed process id, with a thread id of zero."""
        return self.global_vm | self.pid << PID_BITS

    def global_tid(self, tid: int) -> int:
        """The packed id of a thread of this process."""
        return pack_thread(self.global_pid, tid)


def pack_thread(global_pid: int, tid: int) -> int:
    """Put a thread id into the low bits of a packed process id."""
    if not 0 <= tid < 1 << PID_BITS:
        raise ValueError(f"thread id {tid} does not fit into {PID_BITS} bits")
    return global_pid | tid


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel execution. `name` is the demangled name; `short` is derived from it when absent."""

    start: int | None
    end: int | None
    device: int
    context: int
    stream: int
    correlation: int | None
    pid: int
    name: str
    short: str | None = None
    mangled: str | None = None
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    registers: int = 32
    static_shared: int = 0
    dynamic_shared: int = 0
    graph_node: int | None = None
    graph_id: int | None = None
    green_context: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """One memory copy. `kind` is an id of ENUM_CUDA_MEMCPY_OPER, the two memory kinds are ids of ENUM_CUDA_MEM_KIND."""

    start: int | None
    end: int | None
    device: int
    context: int
    stream: int
    correlation: int | None
    pid: int
    bytes: int
    kind: int
    src_kind: int | None = None
    dst_kind: int | None = None
    copy_count: int | None = None
    graph_node: int | None = None


@dataclass(frozen=True, slots=True)
class Set:
    """One memory set."""

    start: int | None
    end: int | None
    device: int
    context: int
    stream: int
    correlation: int | None
    pid: int
    bytes: int
    mem_kind: int | None = 2
    graph_node: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One CUDA API call of a host thread, of the runtime or of the driver API."""

    start: int | None
    end: int | None
    pid: int
    tid: int
    name: str
    correlation: int | None = None
    driver: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """One CUPTI synchronisation record. `sync_type` is an id of ENUM_CUPTI_SYNC_TYPE."""

    start: int | None
    end: int | None
    device: int
    context: int
    stream: int
    correlation: int | None
    pid: int
    sync_type: int


@dataclass(frozen=True, slots=True)
class NcclPayload:
    """What a call of NCCL says of itself in a typed payload; only the fields that are given are in it.

    `communicator` is a hash of 64 bits, `bytes` what the rank passed, `ranks` and `rank` are of a communicator that is
    created.
    """

    communicator: int | None = None
    bytes: int | None = None
    ranks: int | None = None
    rank: int | None = None
    peer: int | None = None
    root: int | None = None
    reduction: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """One NVTX range. Without an end it was never closed; `registered` text is stored by reference, not inline."""

    start: int | None
    end: int | None
    pid: int
    tid: int
    text: str | None
    domain: int = 0
    registered: bool = False
    style: Literal["pushpop", "startend"] = "pushpop"
    end_tid: int | None = None
    payload: NcclPayload | bytes | str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """One NVTX mark: a named instant."""

    start: int | None
    pid: int
    tid: int
    text: str | None
    domain: int = 0
    registered: bool = False


@dataclass(frozen=True, slots=True)
class Domain:
    """The creation of a named NVTX domain. Without a start it is stored at the first NVTX event of the capture."""

    pid: int
    id: int
    name: str
    start: int | None = None
    tid: int | None = None


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """One CUDA graph traced as a whole: an interval without visible kernels."""

    start: int | None
    end: int | None
    device: int
    context: int
    stream: int
    correlation: int | None
    pid: int
    graph_id: int


@dataclass(frozen=True, slots=True)
class OsrtCall:
    """One call into the operating system's runtime libraries. `event_class` is an id of ENUM_NSYS_EVENT_CLASS."""

    start: int | None
    end: int | None
    pid: int
    tid: int
    name: str
    event_class: int = CLASS_OSRT


@dataclass(frozen=True, slots=True)
class Running:
    """A stretch in which a thread ran on a CPU: two scheduler events, or one where start or end is None.

    `state` is what the thread went into at its end, an id of ENUM_SAMPLING_THREAD_STATE.
    """

    start: int | None
    end: int | None
    pid: int
    tid: int
    cpu: int = 0
    state: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A CPU sample: an instant at which a thread was found on a CPU. `state` is an id of ENUM_SAMPLING_THREAD_STATE."""

    start: int | None
    pid: int
    tid: int
    cpu: int = 0
    state: int | None = 1


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """A sample of a metric of a GPU, which need not be one of `Capture.gpus`; the value is in the metric's unit."""

    start: int | None
    gpu: int
    metric: str
    value: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical GPU of the machine. Memory bandwidth is in bytes per second, memory in bytes."""

    id: int
    name: str
    chip: str
    memory_bandwidth: int
    total_memory: int
    sm_count: int
    cu_device: int


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """Which physical GPU a process means by a CUDA device id."""

    gpu_id: int
    cuda_id: int
    pid: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A CUDA stream of a process. `flag` is an id of ENUM_CUPTI_STREAM_TYPE."""

    pid: int
    context: int
    stream: int
    priority: int = 0
    flag: int = 1


@dataclass(frozen=True, slots=True)
class ThreadName:
    """The name of a thread."""

    pid: int
    tid: int
    name: str
    priority: int = 20


@dataclass(frozen=True, slots=True)
class Capture:
    """Everything that one export holds.

    `environment` goes to every place where real exports leak it; `unreferenced` are strings that no event refers to.
    `session` is the start and stop of the recording, which may be wider than its events. `extra_tables` adds rows of
    any other table, or further rows and columns of a known one.
    """

    kernels: list[Kernel] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    sets: list[Set] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    domains: list[Domain] = field(default_factory=list)
    graph_launches: list[GraphLaunch] = field(default_factory=list)
    osrt_calls: list[OsrtCall] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    gpu_metrics: list[GpuMetric] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    thread_names: list[ThreadName] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    cuda_devices: list[CudaDevice] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    unreferenced: list[str] = field(default_factory=list)
    extra_tables: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    session: tuple[int, int] | None = None
    host: str = "node"
    user: str = "user"
    schema: str = "3.17.1"
    product: str = "2025.1.1.110"
