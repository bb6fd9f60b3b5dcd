"""The manifest of a canonical profile: what it holds and what it lacks, the same whatever form it came in."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

PROFILE_ID = re.compile(r"p-[0-9a-f]{20}")
"""What a profile id looks like."""


class Coverage(StrEnum):
    """Whether a kind of event is in the capture: rows that can be true are there, or they are not."""

    RECORDED = "recorded"
    NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Device:
    """A device with GPU work: the physical GPU where the capture maps it, else a device id within a process.

    Attributes:
        gpu: row number, the `gpu` of the canonical tables; devices are in order of device id, then process id.
        device: the CUDA device id, as the events give it.
        process: the process id where the same device id stands for several devices; None where it does not.
        pids: the processes that used it.
        basis: "physical GPU", "process and device", or "listed, no work".
        ids: every CUDA device id that stands for it, in one process or another.
        name: product name, None where the capture does not say.
        chip: chip name, None where the capture does not say.
    """

    gpu: int
    device: int
    process: int | None
    pids: tuple[int, ...]
    basis: str
    ids: tuple[int, ...]
    name: str | None = None
    chip: str | None = None
    memory_bytes: int | None = None
    memory_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is known of a canonical profile before any query.

    Attributes:
        profile_id: hash of the canonical rows, whatever their order, file name or storage form.
        capture: first start and last end of all events, ns; None when the capture has no event.
        devices: devices with GPU work.
        idle_devices: devices that are listed and did nothing.
        gpu: first start and last end of all kernels, graphs, copies and sets, ns; None without GPU work.
        rows: rows of each canonical table.
        coverage: per kind of event, whether the source has it.
        quarantined: per kind of event, rows set aside because they cannot be true (no end, end before start, both
            zero, or of no process).
        unclosed_ranges: NVTX ranges that never ended; no intervals.
        marks: NVTX marks.
        payload_schemas: schemas of NCCL's typed NVTX payloads.
        undecoded_payloads: NCCL calls whose payload cannot be decoded.
        files: bytes of each table's file, to tell a whole profile from a damaged one.
        listed_gpus: GPUs that the capture lists, with or without work.
        warnings: what a reader should know before any number.
    """

    format_version: int
    profile_id: str
    capture: tuple[int, int] | None
    gpu: tuple[int, int] | None
    devices: tuple[Device, ...]
    idle_devices: tuple[Device, ...]
    rows: dict[str, int]
    coverage: dict[str, Coverage]
    quarantined: dict[str, int] = field(default_factory=dict)
    unclosed_ranges: int = 0
    marks: int = 0
    payload_schemas: int = 0
    undecoded_payloads: int = 0
    listed_gpus: int = 0
    warnings: tuple[str, ...] = ()
    files: dict[str, int] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write `manifest.json` with sorted keys."""
        text = json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False)
        (directory / "manifest.json").write_text(text + "\n", encoding="utf-8")


def read_manifest(directory: Path) -> Manifest:
    """Read a profile's manifest. Raises OSError, ValueError, KeyError or TypeError when it is not a whole one."""
    data = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    if not PROFILE_ID.fullmatch(data["profile_id"]):  # it names a directory
        raise ValueError("that is no profile id")
    for kind in ("devices", "idle_devices"):
        data[kind] = tuple(
            Device(**{**device, "pids": tuple(device["pids"]), "ids": tuple(device["ids"])}) for device in data[kind]
        )
    data["coverage"] = {kind: Coverage(value) for kind, value in data["coverage"].items()}
    data["warnings"] = tuple(data["warnings"])
    for window in ("capture", "gpu"):
        data[window] = tuple(data[window]) if data[window] else None
    return Manifest(**data)
