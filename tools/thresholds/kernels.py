"""Pattern tables and thresholds of the kernel skills."""

from __future__ import annotations

from .kinds import PatternTable, Threshold

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

TENSOR_METRICS = PatternTable(
    name="tensor activity among GPU metrics",
    how="part of the metric's name in lower case; a unit that the name ends with, in brackets, holds %",
    rows=(
        ("tensor active / fp16 active", "tensor or FP16"),  # of TU102, TU104 and TU106, which do not tell them apart
        ("tensor active", "tensor"),
    ),
    skills=("tensor_core_usage",),
)

TENSOR_ELIGIBLE = PatternTable(
    name="kernels that could use tensor cores",
    how="regular expression anywhere in the demangled name in lower case; what matches none is not eligible",
    rows=(
        (r"gemm|matmul|(?<![a-z])(?:add|b)?mm(?![a-z])|nvjet|xmma|cutlass_\d", "a matrix product"),
        (r"conv(?!er)|winograd|fprop|dgrad|wgrad", "a convolution"),
        (r"attention|attn|flash|fmha", "attention"),
    ),
    skills=("tensor_core_usage", "top_kernels"),
)

INSTRUCTION_CLASSES = PatternTable(
    name="classes of SASS instructions",
    how="the opcode, before its first dot, begins with it; others are `other`",
    rows=tuple(
        (prefix, says)
        for says, prefixes in (
            ("tensor", "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTC"),
            ("sync", "BAR MEMBAR DEPBAR LDGDEPBAR SYNCS WARPSYNC WARPGROUP ERRBAR FENCE UCGABAR ARRIVES NANOSLEEP"),
            ("shared", "LDSM LDS STSM STS ATOMS"),
            ("int", "REDUX"),
            ("memory", "LD ST ATOM RED TEX TLD TXQ TMML SULD SUST SUATOM SURED CCTL ULDC UTMA UBLK"),
            ("control", "BRA BRX JMP JMX CALL RET EXIT BSSY BSYNC BREAK BMOV KILL YIELD RPCMOV"),
            ("other", "SHFL"),
            ("int", "FLO UFLO"),
            ("fp", "F UF HADD HFMA HMUL HSET HMNMX DADD DFMA DMUL DSETP DMNMX MUFU I2F"),
            ("int", "I UI VI ULEA ULOP USHF UPOPC LEA LOP SHF SHL SHR POPC BREV BFE BFI PRMT VABSDIFF XMAD"),
        )
        for prefix in prefixes.split()
    ),
    skills=("cutracer_analysis",),
)

BANK_CONFLICT_CYCLES = Threshold(
    name="cycles of a shared memory instruction",
    value=32,
    unit="cycles",
    decides="from here on, on average, shared memory instructions hint at bank conflicts",
    skills=("cutracer_analysis",),
)

TRACE_FILES = Threshold(
    name="histograms that are read",
    value=256,
    unit="files",
    decides="how many files of trace_dir are read, in the order of their names",
    skills=("cutracer_analysis",),
)

TRACE_FILE_BYTES = Threshold(
    name="size of a histogram",
    value=8 << 20,
    unit="bytes",
    decides="larger files are listed and not read",
    skills=("cutracer_analysis",),
)

TRACE_TOTAL_BYTES = Threshold(
    name="size of all histograms",
    value=32 << 20,
    unit="bytes",
    decides="how much of trace_dir is read in all",
    skills=("cutracer_analysis",),
)
