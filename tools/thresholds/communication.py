"""What the skills about communication decide by."""

from __future__ import annotations

from .kinds import PatternTable, Threshold

ANOMALY_GROUP = Threshold(
    "collectives of a group",
    5,
    "count",
    "smaller groups of collectives have no median to judge by",
    ("nccl_anomaly",),
)

EAGER, INDUCTOR = "eager", "inductor_captured"

NCCL_RANGES = PatternTable(
    "ranges of NCCL itself",
    "regular expression on the name of a range, with its domain",
    (("^(NCCL:)?nccl[A-Z]", "stands around every launch of NCCL, whoever calls, and is passed over"),),
    ("nccl_compile_context_breakdown",),
)

LAUNCH_CONTEXTS = PatternTable(
    "launch context of collectives",
    "contained in the name of the innermost range around the launch, case-sensitive; ranges of NCCL itself passed over",
    (
        ("c10d", EAGER),
        ("record_param_comms", EAGER),
        ("nccl:", EAGER),
        ("CompiledFunction", INDUCTOR),
        ("CompiledFxGraph", INDUCTOR),
        ("inductor", INDUCTOR),
        ("Torch-Compiled", INDUCTOR),
        ("triton_", INDUCTOR),
    ),
    ("nccl_compile_context_breakdown",),
)
