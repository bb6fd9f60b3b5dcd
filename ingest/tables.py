"""The canonical profile: its tables, their columns and what they mean.

Times are integer nanoseconds on the capture clock, sizes are bytes. Small integers that stand for something are row
numbers of another table: `gpu` of the manifest's devices, `stream` of `streams`, `thread` of `threads`, `process` of
`processes`, `name`, `api` and `metric` of `strings`, `stack` of `stacks`, `path` of `paths`. Strings are numbered in
the order of their bytes, so that ordering by number is ordering by text. Everything is numbered from the canonical rows
alone: the order of the rows in the source, and its own ids, leave no trace.

Rows are sorted by start, ties by the other columns; `nvtx_ranges` by thread, start and falling end, which is the order
in which ranges nest.
"""

from __future__ import annotations

import pyarrow as pa

FORMAT_VERSION = 6
"""Raised with every change of a canonical table; profiles of another version are ingested again."""

_I64, _I32, _I16, _I8 = pa.int64(), pa.int32(), pa.int16(), pa.int8()


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_WORK = {
    "start": _I64,
    "end": _I64,
    "gpu": _I32,
    "process": _I32,
    "context": _I64,
    "stream": _I32,
    "correlation": _I64,
}
"""What all GPU work has: when, on which device, by which process, in which context and stream."""

_LAUNCH = {
    "call_start": _I64,
    "call_end": _I64,
    "thread": _I32,
    "api": _I32,
    "stack": _I32,
}
"""The launch: the API call of the same process and correlation id (the longer, where a runtime and a driver row share
one), its thread and name, and the NVTX stack that was open around it. Null where no call was recorded; `stack` also
where no range contains the call."""

TABLES: dict[str, pa.Schema] = {
    # Every string that an event refers to.
    "strings": _table(id=_I32, value=pa.string()),
    "processes": _table(process=_I32, global_pid=_I64, pid=_I32),
    # `name` is null where the capture does not say.
    "threads": _table(thread=_I32, global_tid=_I64, process=_I32, pid=_I32, tid=_I32, name=_I32),
    # A stream is one of (process, device, context). `label` is the stream id, `context:stream` where a stream id occurs
    # in several contexts of a device, `process/context:stream` where that is not enough either.
    "streams": _table(stream=_I32, gpu=_I32, process=_I32, context=_I64, stream_id=_I64, label=pa.string()),
    # One row per kernel name (`name` is the string id of the demangled name): its short unique label, and the
    # collective that the name stands for, null for compute kernels.
    "kernel_names": _table(name=_I32, label=pa.string(), demangled=pa.string(), collective=pa.string()),
    "kernels": _table(
        **_WORK,
        name=_I32,
        comm=pa.bool_(),
        grid_x=_I32,
        grid_y=_I32,
        grid_z=_I32,
        block_x=_I32,
        block_y=_I32,
        block_z=_I32,
        registers=_I32,
        static_shared=_I32,
        dynamic_shared=_I32,
        graph_node=_I64,
        **_LAUNCH,
    ),
    "copies": _table(
        **_WORK, bytes=_I64, kind=_I32, src_kind=_I32, dst_kind=_I32, copy_count=_I64, graph_node=_I64, **_LAUNCH
    ),
    "sets": _table(**_WORK, bytes=_I64, mem_kind=_I32, graph_node=_I64, **_LAUNCH),
    # CUDA graphs traced as a whole: one interval a launch, the kernels inside are hidden.
    "graphs": _table(**_WORK, graph_id=_I64, **_LAUNCH),
    # CUDA API calls; `driver` tells driver from runtime calls, `host_class` what the host did (`ingest.host_class`).
    "calls": _table(
        start=_I64, end=_I64, process=_I32, thread=_I32, name=_I32, correlation=_I64, driver=pa.bool_(), host_class=_I8
    ),
    "syncs": _table(start=_I64, end=_I64, process=_I32, context=_I64, stream_id=_I64, correlation=_I64, sync_type=_I32),
    "osrt": _table(start=_I64, end=_I64, process=_I32, thread=_I32, name=_I32, event_class=_I32),
    # When threads ran on a CPU: `cpu` is the one that a stretch began on, `state` what the thread went into at its end,
    # as ENUM_SAMPLING_THREAD_STATE numbers it; null where the capture does not say. Those of a thread never overlap.
    "running": _table(start=_I64, end=_I64, thread=_I32, cpu=_I32, state=_I32),
    # CPU samples: instants at which a thread was found on a CPU, and in which state.
    "samples": _table(start=_I64, thread=_I32, cpu=_I32, state=_I32),
    # Samples of those GPU metrics whose name says tensor: `gpu_id` is the number under which the capture lists the GPU,
    # `gpu` the device that it is, null where the capture does not say; `value` is in the unit that the name of the
    # metric ends with.
    "tensor_samples": _table(start=_I64, gpu=_I32, gpu_id=_I32, metric=_I32, value=_I64),
    # Push/pop ranges with an end. `name` is `DOMAIN:text` in a named domain. `parent` (row, or null) and `depth` are
    # those of the thread and domain; `outer` is the nearest earlier range of the thread, of any domain, that ends no
    # earlier. Row numbers are positions in this table.
    "nvtx_ranges": _table(
        start=_I64,
        end=_I64,
        thread=_I32,
        domain=_I32,
        name=_I32,
        parent=_I32,
        depth=_I16,
        outer=_I32,
    ),
    # Start/end ranges: no stack, may end on another thread.
    "nvtx_spans": _table(start=_I64, end=_I64, thread=_I32, end_thread=_I32, domain=_I32, name=_I32),
    # Calls of NCCL that say what they do in a typed payload: the row of `nvtx_ranges` (`range`), the operation by its
    # name (`AllReduce`, `Send`, `CommInitRank`, …), and what the payload holds, null where it lacks the field: the hash
    # of the communicator, the bytes of the message as this rank passed them, the ranks of a communicator that is
    # created and the own rank in it, the peer of a send or receive, the root, and NCCL's number of the reduction.
    "nccl_calls": _table(
        start=_I64,
        end=_I64,
        thread=_I32,
        name=_I32,
        range=_I32,
        operation=pa.string(),
        communicator=_I64,
        bytes=_I64,
        ranks=_I32,
        rank=_I32,
        peer=_I32,
        root=_I32,
        reduction=_I32,
    ),
    # The stacks that GPU work was launched under: a node is a range in the stack of its containing ranges, outermost
    # first by start. `start` is the range's; `path` and `plain_path` name the stack, as recorded and with PyTorch's
    # counters cut. On a thread whose ranges nest, one node a range; where ranges of different domains cross, a range
    # may have several.
    "stacks": _table(node=_I32, parent=_I32, range=_I32, start=_I64, depth=_I16, path=_I32, plain_path=_I32),
    "paths": _table(path=_I32, parent=_I32, name=_I32, depth=_I16),
    "plain_paths": _table(path=_I32, parent=_I32, name=_I32, depth=_I16),
    # Merged intervals per device: `kind` is compute (kernels that are no collectives, and graphs), comm (collectives),
    # kernel (both) or work (kernels, graphs, copies and sets), or compute_copy: what compute has in common with copies
    # and sets. `previous_end` is the end of the interval before it, null for the first.
    "busy": _table(gpu=_I32, kind=pa.string(), start=_I64, end=_I64, previous_end=_I64),
    # The same per stream, over all work of the stream.
    "stream_busy": _table(gpu=_I32, stream=_I32, start=_I64, end=_I64, previous_end=_I64),
    # The stretches in which two or more kernels (or graphs traced as a whole) run on a device, and how many do.
    "kernel_overlaps": _table(gpu=_I32, start=_I64, end=_I64, depth=_I32),
}

BUSY_KINDS = ("compute", "comm", "kernel", "work", "compute_copy")
"""Kinds of merged intervals in the table `busy`."""

HOST_CLASSES = ("sync", "alloc", "module_load", "copy_call", "launch", "other_cuda")
"""`calls.host_class` is a position in this tuple; ties between classes go to the earlier one."""
