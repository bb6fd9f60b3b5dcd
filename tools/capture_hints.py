"""Kinds of event: which nsys flags record them, and what they are called."""

from __future__ import annotations

_COMMANDS = {
    "kernels": "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node …",
    "copies": "nsys profile --trace=cuda …",
    "sets": "nsys profile --trace=cuda …",
    "calls": "nsys profile --trace=cuda …",
    "nvtx": "nsys profile --trace=cuda,nvtx … (PyTorch: torch.autograd.profiler.emit_nvtx, or --pytorch=autograd-nvtx)",
    "osrt": "nsys profile --trace=cuda,nvtx,osrt …",
    "iterations": "nsys profile --trace=cuda,nvtx … with an NVTX range around every step: "
    'torch.cuda.nvtx.range_push(f"step {n}") … range_pop()',
    "sched": "nsys profile --trace=cuda,nvtx --cpuctxsw=process-tree …",
    "samples": "nsys profile --trace=cuda,nvtx --sample=process-tree …",
    "gpu_metrics": "nsys profile --trace=cuda,nvtx --gpu-metrics-devices=all … (older nsys: --gpu-metrics-device=ID)",
    "nccl_calls": "nsys profile --trace=cuda,nvtx …; nsys export --type=sqlite --include-blobs=true …",
    "events": "nsys profile --trace=cuda,nvtx,osrt …",
}

CAPTURE_HINTS = {kind: f"{command}; see docs/recording.md#{kind}" for kind, command in _COMMANDS.items()}
"""What to record, keyed as `Manifest.coverage` is: a command that nsys takes as it stands, and where more is said."""

KIND_NAMES = {
    "kernels": "GPU kernels",
    "copies": "memory copies",
    "sets": "memory sets",
    "calls": "CUDA API calls",
    "nvtx": "NVTX push/pop ranges",
    "osrt": "OS runtime calls",
    "iterations": "repeating steps",
    "sched": "thread scheduling",
    "samples": "CPU samples",
    "gpu_metrics": "GPU metrics of tensor activity",
    "nccl_calls": "NCCL calls with a payload",
    "events": "any event",
}
"""The same kinds in words."""

TABLE_OF = {"nvtx": "nvtx_ranges", "sched": "running", "gpu_metrics": "tensor_samples"}
"""The canonical table of a kind of event, where it has another name."""
