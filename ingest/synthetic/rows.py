"""Turns the events of a capture into rows of the export's tables; text goes to StringIds where the export keeps it."""

import re
from random import Random
from typing import Literal

from . import tables
from .model import (
    PID_BITS,
    Call,
    Capture,
    Copy,
    Domain,
    GraphLaunch,
    Kernel,
    Mark,
    NcclPayload,
    OsrtCall,
    Process,
    Range,
    Running,
    Sample,
    Set,
    Stream,
    Sync,
    ThreadName,
    pack_thread,
)
from .payloads import payload_bytes, payload_rows

_METRICS_OF = 0x1_0001_0000_0000
"""The type of samples of GPU metrics, without the GPU, on the first machine of a capture."""

Row = dict[str, object]
Text = Literal["as_given", "inline", "ids"]


class Strings:
    """The StringIds table in the making: one id for each distinct text, in order of use or drawn from `rng`."""

    def __init__(self, rng: Random | None) -> None:
        self._rng = rng
        self._ids: dict[str, int] = {}
        self._used: set[int] = set()

    def id(self, text: str) -> int:
        """The id of a text, a new one at its first use."""
        if text not in self._ids:
            number = len(self._ids) + 1
            while self._rng and (number := self._rng.randrange(1, 1 << 24)) in self._used:
                pass
            self._used.add(number)
            self._ids[text] = number
        return self._ids[text]

    def rows(self) -> list[Row]:
        """One row for each text."""
        return [{"id": number, "value": text} for text, number in self._ids.items()]


def short_name(demangled: str) -> str:
    """The bare function name: no return type, namespace, template arguments or parameters."""
    plain = demangled.replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    head = re.split(r"[<(]", plain, maxsplit=1)[0]
    return head.strip().split(" ")[-1].split("::")[-1] or demangled


def event_rows(capture: Capture, strings: Strings, text: Text = "as_given") -> dict[str, list[Row]]:
    """The rows of every event table by its name, in the order of the capture."""
    of = _RowMaker(capture, strings, text)
    nvtx: list[Range | Mark] = [*capture.ranges, *capture.marks]
    first_nvtx = min((event.start for event in nvtx if event.start is not None), default=0)
    return {
        "CUPTI_ACTIVITY_KIND_KERNEL": [of.kernel(index, event) for index, event in enumerate(capture.kernels)],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [of.copy(event) for event in capture.copies],
        "CUPTI_ACTIVITY_KIND_MEMSET": [of.set(event) for event in capture.sets],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [of.call(event) for event in capture.calls],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [of.sync(event) for event in capture.syncs],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [of.graph_launch(event) for event in capture.graph_launches],
        "NVTX_EVENTS": [
            *(of.domain(event, first_nvtx) for event in capture.domains),
            *(of.range(index, event) for index, event in enumerate(capture.ranges)),
            *(of.mark(event) for event in capture.marks),
        ],
        **payload_rows(capture),
        "OSRT_API": [of.osrt_call(event) for event in capture.osrt_calls],
        "SCHED_EVENTS": [row for event in capture.running for row in of.switches(event)],
        "COMPOSITE_EVENTS": [of.sample(index, event) for index, event in enumerate(capture.samples)],
        **metric_rows(capture),
        "ThreadNames": [of.thread_name(named) for named in capture.thread_names],
        "TARGET_INFO_CUDA_STREAM": [of.stream(stream) for stream in capture.streams],
    }


def metric_rows(capture: Capture) -> dict[str, list[Row]]:
    """The rows of GPU metrics: a type is a GPU, and metrics are numbered within it, in order of first use."""
    numbers: dict[int, dict[str, int]] = {}
    for sample in capture.gpu_metrics:
        known = numbers.setdefault(sample.gpu, {})
        known.setdefault(sample.metric, len(known) + sample.gpu)
    return {
        "TARGET_INFO_GPU_METRICS": [
            {
                "typeId": _METRICS_OF | gpu,
                "sourceId": _METRICS_OF,
                "typeName": f"GPU Metrics [{gpu}]",
                "metricId": number,
                "metricName": name,
            }
            for gpu, known in numbers.items()
            for name, number in known.items()
        ],
        "GPU_METRICS": [
            {
                "rawTimestamp": sample.start,
                "timestamp": sample.start,
                "typeId": _METRICS_OF | sample.gpu,
                "metricId": numbers[sample.gpu][sample.metric],
                "value": sample.value,
            }
            for sample in capture.gpu_metrics
        ],
    }


class _RowMaker:
    """Makes one row of one event."""

    def __init__(self, capture: Capture, strings: Strings, text: Text) -> None:
        self._packed = {process.pid: process.global_pid for process in reversed(capture.processes)}
        self._strings = strings
        self._text = text

    def _pid(self, pid: int) -> int:
        if pid >> PID_BITS:
            return pid
        return self._packed[pid] if pid in self._packed else Process(pid).global_pid

    def _tid(self, pid: int, tid: int) -> int:
        return pack_thread(self._pid(pid), tid)

    def _gpu_work(self, event: Kernel | Copy | Set | Sync | GraphLaunch) -> Row:
        return {
            "start": event.start,
            "end": event.end,
            "deviceId": event.device,
            "contextId": event.context,
            "streamId": event.stream,
            "correlationId": event.correlation,
            "globalPid": self._pid(event.pid),
        }

    def _label(self, event: Range | Mark) -> Row:
        if event.text is None:
            return {}
        by_id = event.registered if self._text == "as_given" else self._text == "ids"
        return {"textId": self._strings.id(event.text)} if by_id else {"text": event.text}

    def kernel(self, index: int, event: Kernel) -> Row:
        row = self._gpu_work(event) | {
            "greenContextId": event.green_context,
            "demangledName": self._strings.id(event.name),
            "shortName": self._strings.id(event.short or short_name(event.name)),
            "mangledName": self._strings.id(event.mangled) if event.mangled else None,
            "launchType": 1,
            "cacheConfig": 1,
            "registersPerThread": event.registers,
            "staticSharedMemory": event.static_shared,
            "dynamicSharedMemory": event.dynamic_shared,
            "localMemoryPerThread": 0,
            "localMemoryTotal": 0,
            "gridId": index + 1,
            "graphNodeId": event.graph_node,
            "sharedMemoryLimitConfig": 0,
        }
        row["gridX"], row["gridY"], row["gridZ"] = event.grid
        row["blockX"], row["blockY"], row["blockZ"] = event.block
        return row if event.graph_id is None else row | {"graphId": event.graph_id}

    def copy(self, event: Copy) -> Row:
        row = self._gpu_work(event) | {
            "bytes": event.bytes,
            "copyKind": event.kind,
            "srcKind": event.src_kind,
            "dstKind": event.dst_kind,
            "graphNodeId": event.graph_node,
        }
        return row if event.copy_count is None else row | {"copyCount": event.copy_count}

    def set(self, event: Set) -> Row:
        stored = {"value": 0, "bytes": event.bytes, "memKind": event.mem_kind, "graphNodeId": event.graph_node}
        return self._gpu_work(event) | stored

    def call(self, event: Call) -> Row:
        return {
            "start": event.start,
            "end": event.end,
            "eventClass": tables.CLASS_DRIVER if event.driver else tables.CLASS_RUNTIME,
            "globalTid": self._tid(event.pid, event.tid),
            "correlationId": event.correlation,
            "nameId": self._strings.id(event.name),
            "returnValue": 0,
        }

    def sync(self, event: Sync) -> Row:
        no_event = {"eventId": tables.NONE_32, "eventSyncId": tables.NONE_32}
        return self._gpu_work(event) | {"syncType": event.sync_type} | no_event

    def graph_launch(self, event: GraphLaunch) -> Row:
        return self._gpu_work(event) | {"graphId": event.graph_id, "graphExecId": event.graph_id}

    def domain(self, event: Domain, first_nvtx: int) -> Row:
        return {
            "start": first_nvtx if event.start is None else event.start,
            "eventType": tables.NVTX_DOMAIN,
            "text": event.name,
            "globalTid": self._tid(event.pid, event.pid if event.tid is None else event.tid),
            "domainId": event.id,
        }

    def range(self, index: int, event: Range) -> Row:
        may_cross = event.style == "startend"
        return self._label(event) | {
            "start": event.start,
            "end": event.end,
            "eventType": tables.NVTX_START_END if may_cross else tables.NVTX_PUSH_POP,
            "rangeId": index + 1 if may_cross else None,
            "globalTid": self._tid(event.pid, event.tid),
            "endGlobalTid": None if event.end_tid is None else self._tid(event.pid, event.end_tid),
            "domainId": event.domain,
            "binaryData": payload_bytes(event.payload, event.domain)
            if isinstance(event.payload, NcclPayload)
            else event.payload,
        }

    def mark(self, event: Mark) -> Row:
        where = {"globalTid": self._tid(event.pid, event.tid), "domainId": event.domain}
        return self._label(event) | {"start": event.start, "eventType": tables.NVTX_MARK} | where

    def osrt_call(self, event: OsrtCall) -> Row:
        return {
            "start": event.start,
            "end": event.end,
            "eventClass": event.event_class,
            "globalTid": self._tid(event.pid, event.tid),
            "nameId": self._strings.id(event.name),
            "returnValue": 0,
            "nestingLevel": 0,
            "callchainId": 0,
        }

    def switches(self, event: Running) -> list[Row]:
        """The scheduler events at the ends of the stretch, in order; the state stands at its end."""
        where = {"cpu": event.cpu, "globalTid": self._tid(event.pid, event.tid)}
        ends = ((event.start, 1, None if event.state is None else 0), (event.end, 0, event.state))
        return [
            {"start": at, "isSchedIn": on, "threadState": state, **where} for at, on, state in ends if at is not None
        ]

    def sample(self, index: int, event: Sample) -> Row:
        where = {"cpu": event.cpu, "globalTid": self._tid(event.pid, event.tid)}
        return {"id": index + 1, "start": event.start, "threadState": event.state, "cpuCycles": 1, **where}

    def thread_name(self, named: ThreadName) -> Row:
        return {
            "nameId": self._strings.id(named.name),
            "priority": named.priority,
            "globalTid": self._tid(named.pid, named.tid),
        }

    def stream(self, stream: Stream) -> Row:
        packed = self._pid(stream.pid)
        return {
            "streamId": stream.stream,
            "hwId": packed >> 56,
            "vmId": packed >> 48 & 0xFF,
            "processId": packed >> PID_BITS & 0xFFFFFF,
            "contextId": stream.context,
            "priority": stream.priority & tables.NONE_32,
            "flag": stream.flag,
        }
