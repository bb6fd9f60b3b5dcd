"""What may bound an iteration unasked."""

from __future__ import annotations

from .kinds import PatternTable, Threshold

_USED_BY = ("iteration_timing", "iteration_detail")

LIBRARY_RANGES = PatternTable(
    "ranges of libraries, which bound no iteration unasked",
    "a regular expression at the beginning of the range's name",
    (
        (
            r"(?:aten|at|c10|c10d|torch\w*|autograd|prim|prims|cuda|cudnn|cublas|thrust|cub|cutlass|cute|nccl|FSDP|fsdp"
            r"|DDP|flash_attn\w*|flashinfer|xformers|triton|inductor|_C\w*|fbgemm|vllm|sgl_kernel|transformer_engine|te"
            r"|tensorrt\w*|trt|xla|tsl|nvfuser|Fusion\w+|Kernel\w+|Executor\w*)::",
            "an operator or a function of a library, such as aten::copy_",
        ),
        (
            r"(?:NCCL|NVSHMEM|CUDNN|cuDNN|cuBLAS\w*|cuFFT|cuSPARSE\w*|cuSOLVER\w*|CCCL|TensorRT|TRT):",
            "a range in the NVTX domain of a library",
        ),
    ),
    _USED_BY,
)

OWNED_SHARE = Threshold(
    "share that an iteration owns",
    60,
    "%",
    "ranges bound iterations unasked only when they launch at least this much of the GPU time that their thread "
    "launches from the first of them to the last",
    _USED_BY,
)

MIN_INSTANCES = Threshold(
    "repetitions that make iterations",
    3,
    "count",
    "an NVTX range of a thread, or a sequence of kernels of a stream, that repeats less often marks no iterations",
    _USED_BY,
)

MIN_KERNELS = Threshold(
    "kernels of an iteration",
    3,
    "count",
    "a shorter sequence of kernels that repeats is no iteration",
    _USED_BY,
)
