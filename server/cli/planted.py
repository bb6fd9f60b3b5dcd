"""The demo's truths beside the answers: what the generator planted, and which cell says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...contracts.evidence import parse_address, resolve_address
from ...contracts.units import Unit, present
from ...ingest.synthetic import Truth

Envelope = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """One truth: what it is about, the planted and the answered value, and the cell of the answer."""

    what: str
    planted: object
    answered: object
    address: str

    @property
    def agrees(self) -> bool:
        """Whether the answer is what was planted, to the digit."""
        return self.planted == self.answered


def claims(truth: Truth, answers: Mapping[str, Envelope], full_names: Mapping[str, str]) -> list[Claim]:
    """Truths of the demo capture and the answers of `top_kernels` and `gpu_idle_gaps` to them.

    Args:
        truth: what the generator says.
        answers: the results by skill.
        full_names: full kernel names by the short labels of `top_kernels`.
    """
    kernels, gaps = answers["top_kernels"], answers["gpu_idle_gaps"]
    top = truth.top_kernel
    longest = max(truth.devices, key=lambda device: device.largest_gap[1])
    idle = sum(device.idle_ns for device in truth.devices)
    total = sum(device.kernel_total_ns for device in truth.devices)
    name = _claim("kernel with the most time", top.name, kernels, "0.kernel")
    label = str(name.answered)
    return [
        Claim(name.what, name.planted, full_names.get(label, label), name.address),
        _claim("its launches", top.instances, kernels, "0.instances"),
        _claim("its time, ms", present(Unit.MS, top.total_ns), kernels, "0.total_ms"),
        _claim("time of all kernels, ms", present(Unit.MS, total), kernels, "totals.total_ms"),
        _claim("idle time of both GPUs, ms", present(Unit.MS, idle), gaps, "totals.idle_ms"),
        _claim("GPU of the longest gap", longest.device, gaps, "0.device"),
        _claim("its start, ns", present(Unit.NS, longest.largest_gap[0]), gaps, "0.start_ns"),
        _claim("its length, µs", present(Unit.US, longest.largest_gap[1]), gaps, "0.gap_us"),
    ]


def _claim(what: str, planted: object, answer: Envelope, cell: str) -> Claim:
    address = f"{answer['evidence']}:{cell}"
    try:
        answered = resolve_address(parse_address(address), answer)
    except KeyError:
        answered = None
    return Claim(what, planted, answered, address)
