"""NCCL calls with payloads by the slow and obvious method, and captures that have them."""

from __future__ import annotations

from hypothesis import strategies as st

from nsys_evidence.ingest.synthetic import Call, Capture, Copy, Kernel, NcclPayload, Process, Range
from tests.strategies import Span, ends

NCCL_KERNEL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
OPERATIONS = {
    "ncclAllReduce": "AllReduce",
    "ncclAllGather": "AllGather",
    "ncclAlltoAll": "AllToAll",
    "ncclSend": "Send",
}
COMMUNICATORS = (7, 2**63 + 9, None)
DOMAIN = 1


@st.composite
def nccl_captures(draw: st.DrawFn) -> Capture:
    """Calls of NCCL one after the other on threads of two processes, some in a range, some launching kernels inside.

    A call launches none, a collective, two of them, or a kernel that is none, on one of two devices. Some communicators
    are created in the capture, one with two sizes.
    """
    scale = draw(st.sampled_from((1, 1_000, 100_003)))
    capture = Capture(processes=[Process(101), Process(102)])
    correlation = 0
    for pid in (101, 102):
        now = 1_000 + draw(st.integers(0, 5))
        for _ in range(draw(st.integers(1, 6))):
            end = now + draw(st.integers(4, 9))
            name = draw(st.sampled_from(sorted(OPERATIONS)))
            peer = draw(st.integers(0, 3)) if name == "ncclSend" else None
            payload = NcclPayload(draw(st.sampled_from(COMMUNICATORS)), draw(st.integers(0, 50)), peer=peer)
            capture.ranges.append(Range(now * scale, end * scale, pid, pid, name, DOMAIN, payload=payload))
            if draw(st.booleans()):
                inner = ((now + 1) * scale, (end - 1) * scale)
                capture.ranges.append(Range(*inner, pid, pid, "inside", draw(st.integers(0, 1))))
            for kernel in draw(st.sampled_from(((), (NCCL_KERNEL,), (NCCL_KERNEL, NCCL_KERNEL), ("scale",)))):
                correlation += 1
                launch = ((now + 2) * scale, (now + 3) * scale)
                capture.calls.append(Call(*launch, pid, pid, "cudaLaunchKernel", correlation))
                start = now + draw(st.integers(2, 20))
                times = (start * scale, (start + draw(st.integers(0, 9))) * scale)
                capture.kernels.append(Kernel(*times, draw(st.integers(0, 1)), 1, 7, correlation, pid, kernel))
            now = end + draw(st.integers(0, 4))
    for communicator, sizes in ((7, draw(st.sampled_from(((), (4,), (4, 4), (4, 2))))), (2**63 + 9, (2,))):
        for rank, size in enumerate(sizes):
            made = NcclPayload(communicator, ranks=size, rank=rank)
            capture.ranges.append(Range(990 * scale, 999 * scale, 101 + rank, 101, "ncclCommInitRank", 1, payload=made))
    capture.copies.append(Copy(980 * scale, 981 * scale, 0, 1, 9, None, 103, 4, 1))
    return capture


def message_calls(capture: Capture, pids: set[int] | None = None) -> list[Range]:
    """The calls with a message size, of these processes."""
    return [r for r in capture.ranges if r.text in OPERATIONS and (pids is None or r.pid in pids)]


def payload_of(call: Range) -> NcclPayload:
    """The payload of a call that has one."""
    assert isinstance(call.payload, NcclPayload)
    return call.payload


def collectives_of(capture: Capture, call: Range) -> list[Kernel]:
    """The collective kernels whose launch lies in the call."""
    start, end = ends(call)
    launches = {
        (c.pid, c.correlation) for c in capture.calls if c.pid == call.pid and start <= ends(c)[0] and ends(c)[1] <= end
    }
    return [k for k in capture.kernels if (k.pid, k.correlation) in launches and k.name == NCCL_KERNEL]


def shown_communicator(communicator: int | None) -> str | None:
    """A communicator as results show it."""
    return None if communicator is None else f"0x{communicator:016x}"


def starting(calls: list[Range], span: Span) -> list[Range]:
    """Those that start in the window."""
    return [call for call in calls if span.begins(call)]
