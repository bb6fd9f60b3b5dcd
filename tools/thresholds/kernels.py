"""Pattern tables and thresholds of the kernel skills."""

from __future__ import annotations

from .kinds import PatternTable

TENSOR_CORES = PatternTable(
    name="tensor cores by kernel name",
    how="part of the demangled name in lower case; `A without B`: A in a name that does not hold B",
    rows=(
        ("ffma", "unused"),
        ("sgemm", "unused"),
        ("dgemm", "unused"),
        ("simt", "unused"),
        ("f32f32_f32f32 without tf32", "unused"),
        ("tensorop", "used"),  # CUTLASS's cutlass_80_tensorop_…, cutlass_90_…, cutlass_100_…
        ("hmma", "used"),
        ("imma", "used"),
        ("qmma", "used"),
        ("wgmma", "used"),
        ("gmma", "used"),
        ("mma_", "used"),
        ("h884", "used"),
        ("h1688", "used"),
        ("s1688", "used"),
        ("s16816", "used"),
        ("tf32", "used"),
        ("bf16", "used"),
        ("f16", "used"),
        ("fp8", "used"),
        ("e4m3", "used"),
        ("nvjet", "used"),
        ("flash", "used"),
        ("fmha", "used"),
    ),
    skills=("tensor_core_usage", "top_kernels"),
)
