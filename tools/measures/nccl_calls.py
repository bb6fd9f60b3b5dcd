"""NCCL calls that say in a typed NVTX payload what they move: whether there are any, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ..call import Call
from ..capture_hints import CAPTURE_HINTS
from ..result import AbstentionError


def require_payloads(call: Call[Any]) -> None:
    """Abstain where the profile has no NCCL call with a payload, and say why.

    Raises:
        AbstentionError: none was recorded, or the export leaves payloads out, or none can be decoded.
    """
    manifest = call.profile.manifest
    if call.profile.recorded("nccl_calls"):
        return
    reason = "NCCL calls with typed NVTX payloads were not recorded in this capture"
    if manifest.payload_schemas:
        reason = "the export leaves out the payloads of NCCL calls, as it does with EXPORT_PARAM_INCLUDE_BLOBS=false"
    if manifest.undecoded_payloads:
        reason = f"none of the payloads of {manifest.undecoded_payloads} NCCL calls can be decoded"
    raise AbstentionError(reason, ["nccl_calls"], CAPTURE_HINTS["nccl_calls"])


def undecoded(call: Call[Any]) -> list[str]:
    """A note when some calls have a payload that cannot be decoded: they are missing here."""
    count = call.profile.manifest.undecoded_payloads
    return [f"{count} NCCL calls have a payload that cannot be decoded; they are left out"] if count else []


def communicator_text(communicator: int | None) -> str | None:
    """A communicator's hash as NCCL writes it in its log; None where the payload does not name it."""
    return None if communicator is None else f"0x{communicator % (1 << 64):016x}"


def ranks_text(ranks: Iterable[int]) -> str | None:
    """Ranks in short: `0-3, 7`; None for none."""
    runs = [
        [rank for _, rank in run] for _, run in groupby(enumerate(sorted(ranks)), lambda found: found[1] - found[0])
    ]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or None
