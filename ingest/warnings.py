"""What a reader should know of a profile before any number, said in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .manifest import Coverage, Device
from .raw import Ints32


def payload_warnings(schemas: int, decoded: int, undecoded: int) -> tuple[str, ...]:
    """Warnings about what NCCL calls say of themselves, given how many schemas, calls and unreadable payloads."""
    found = []
    if schemas and not decoded and not undecoded:
        found.append(
            "the export leaves out the payloads of NCCL calls (sizes, peers, communicators), but not their schemas: "
            "export again with --include-blobs=true"
        )
    if undecoded:
        found.append(f"{undecoded} NCCL calls have a payload that cannot be decoded")
    return tuple(found)


def content_warnings(
    coverage: Mapping[str, Coverage],
    quarantined: Mapping[str, int],
    unclosed: int,
    rows: Mapping[str, int],
    launch: Mapping[str, Ints32],
    devices: Sequence[Device],
) -> tuple[str, ...]:
    """Warnings that follow from the content alone, the same in every form of the capture."""
    found = [
        f"{count} {kind} rows cannot be true (no end, end before start, all zero, or of no process) and were set aside"
        for kind, count in sorted(quarantined.items())
    ]
    if coverage["calls"] is Coverage.RECORDED and coverage["kernels"] is not Coverage.RECORDED:
        found.append("CUDA API calls are recorded but no GPU kernels")
    if rows["graphs"]:
        found.append(
            f"{rows['graphs']} CUDA graph launches were traced as a whole: the kernels inside them are hidden; "
            "record with --cuda-graph-trace=node to see them"
        )
    orphans = int((launch["kernels"] < 0).sum())
    if orphans:
        found.append(f"{orphans} of {len(launch['kernels'])} kernels have no recorded API call")
    if unclosed:
        found.append(f"{unclosed} NVTX ranges never ended and are no intervals")
    shared = sorted(
        {device.device for device in devices if device.process is not None and device.basis != "physical GPU"}
    )
    for device in shared:
        found.append(
            f"device {device} occurs in several processes and the capture does not say which GPU each means: "
            "they are kept apart, per process"
        )
    return tuple(found)
