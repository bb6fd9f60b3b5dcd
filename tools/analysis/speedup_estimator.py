"""How much faster an iteration could be at most."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.units import Factor, Flag, Ms, Pct, Text, ratio
from ..call import Call
from ..measures.quantities import Gigabytes, Milliseconds, Percent, PositiveMilliseconds
from ..registry import Params, skill
from ..result import Result
from ..thresholds.speedup import BYTES_PER_PARAMETER, MODEL_SHARE

_ZERO: Any = 0
_MEMORY_GB: Any = 80
_NS_PER_MS = 10**6
_ROUNDING_MS = Fraction(5, 1000)
"""Times that were each rounded to 0.001 ms may add up to so much more than the whole."""


class SpeedupEstimatorParams(Params):
    """Parameters of `speedup_estimator`: busy and idle times of one device in one iteration."""

    iteration_ms: PositiveMilliseconds = Field(description="length of an iteration")
    compute_ms: Milliseconds = Field(_ZERO, description="compute busy time in it")
    nccl_ms: Milliseconds = Field(_ZERO, description="communication busy time in it")
    idle_ms: Milliseconds = Field(_ZERO, description="time without GPU work in it")
    overlap_pct: Percent = Field(_ZERO, description="of nccl_ms, hidden behind compute")
    tp_degree: int = Field(1, ge=1, le=2**20, description="GPUs of a tensor-parallel group")
    model_params_b: Gigabytes = Field(_ZERO, description="parameters in 10^9; 0 unknown")
    gpu_memory_gb: Gigabytes = Field(_MEMORY_GB, description="memory of a GPU in 10^9 bytes")


class SpeedupEstimatorRow(Row):
    """One change, and what it saves at most."""

    change: Text = column("remove_idle, hide_comm, halve_tp or all_together")
    applies: Flag = column("whether it could be made, as far as the parameters tell")
    saved_ms: Ms | None = column("at most; null where it does not apply")
    saved_pct: Pct | None = column("saved_ms", of="iteration_ms")
    after_ms: Ms | None = column("iteration_ms less saved_ms")
    speedup: Factor | None = column("iteration_ms over after_ms; null where nothing is left")
    assumes: Text = column("what must hold for it, or why it does not apply")


class SpeedupEstimatorTotals(Row):
    """The iteration."""

    iteration_ms: Ms = column("as given")
    compute_ms: Ms = column("as given")
    exposed_comm_ms: Ms = column("communication that compute does not hide")
    idle_ms: Ms = column("as given")
    other_ms: Ms | None = column("the rest; null where the parts exceed the whole")


@dataclass(frozen=True, slots=True)
class _Change:
    """A change and what it saves, ms; None where it does not apply."""

    name: str
    saved: Fraction | None
    assumes: str


@skill(
    title="Speed-up estimator",
    when="To bound what removing idle time, hiding communication or less tensor parallelism could gain.",
    params=SpeedupEstimatorParams,
    row=SpeedupEstimatorRow,
    totals=SpeedupEstimatorTotals,
    window="none",
    profile=False,
    next=("overlap_breakdown", "gpu_idle_gaps"),
    example={"iteration_ms": 100, "compute_ms": 60, "nccl_ms": 30, "idle_ms": 20, "overlap_pct": 40, "tp_degree": 4},
)
def speedup_estimator(call: Call[SpeedupEstimatorParams]) -> Result:
    """One row per change: ceilings by arithmetic on the times given, no prediction.

    remove_idle saves idle_ms; hide_comm saves nccl_ms·(1 - overlap_pct); all_together saves both. halve_tp is a part of
    what hide_comm saves and is not added to it. Speed-up is t/(t - saved). Give times of one device from
    overlap_breakdown: busy times, not sums of durations.
    """
    params = call.params
    whole, compute, idle = (Fraction(part) for part in (params.iteration_ms, params.compute_ms, params.idle_ms))
    exposed = Fraction(params.nccl_ms) * (1 - Fraction(params.overlap_pct) / 100)
    for text, part in (
        ("idle_ms", idle),
        ("nccl_ms that is not overlapped", exposed),
        ("idle_ms and nccl_ms that is not overlapped", idle + exposed),
    ):
        if part > whole + _ROUNDING_MS:
            raise EvidenceError(
                ErrorCode.INVALID_ARGUMENT,
                f"{text} of {_shown(part)} ms do not fit into an iteration of {_shown(whole)} ms",
                "give times of one device in one iteration, as overlap_breakdown(iteration=N) reports them",
                argument="iteration_ms",
            )
    changes = [
        _Change("remove_idle", idle, "the GPU never waits for the host, the data or a peer"),
        _Change("hide_comm", exposed, "all communication runs behind compute and slows it down in nothing"),
        _halve_tp(params, exposed),
        _Change("all_together", min(idle + exposed, whole), "remove_idle and hide_comm; halve_tp is within hide_comm"),
    ]
    rows = [_row(change, whole) for change in changes]
    rest = whole - compute - exposed - idle
    notes = []
    if rest < -_ROUNDING_MS:
        notes.append(
            f"compute_ms, exposed communication and idle_ms exceed iteration_ms by {_shown(-rest)} ms: they are no "
            "busy times of one device"
        )
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={
            "iteration_ms": whole * _NS_PER_MS,
            "compute_ms": compute * _NS_PER_MS,
            "exposed_comm_ms": exposed * _NS_PER_MS,
            "idle_ms": idle * _NS_PER_MS,
            "other_ms": None if rest < -_ROUNDING_MS else max(rest, Fraction(0)) * _NS_PER_MS,
        },
        notes=notes,
    )


def _row(change: _Change, whole: Fraction) -> tuple[object, ...]:
    if change.saved is None:
        return (change.name, False, None, None, None, None, change.assumes)
    saved = min(change.saved, whole)
    after = whole - saved
    return (
        change.name,
        True,
        saved * _NS_PER_MS,
        saved / whole,
        after * _NS_PER_MS,
        ratio(whole, after),
        change.assumes,
    )


def _halve_tp(params: SpeedupEstimatorParams, exposed: Fraction) -> _Change:
    """Half as many GPUs in a tensor-parallel group, twice as many groups."""
    degree, billions = params.tp_degree, Fraction(params.model_params_b)

    def not_now(why: str) -> _Change:
        return _Change("halve_tp", None, why)

    if degree % 2:
        return not_now(f"tp_degree {degree} cannot be halved")
    if not billions:
        return not_now("whether the model fits is unknown: give model_params_b")
    needed = billions * BYTES_PER_PARAMETER.value / (degree // 2)
    room = Fraction(params.gpu_memory_gb) * MODEL_SHARE.value / 100
    memory = (
        f"{BYTES_PER_PARAMETER.value} bytes a parameter on {degree // 2} GPUs are {_shown(needed)} GB of "
        f"{_shown(room)} GB ({MODEL_SHARE.value} % of gpu_memory_gb)"
    )
    if needed > room:
        return not_now(f"the model does not fit: {memory}")
    # Two groups do two batches in the time in which each does one at twice the compute. A ring all-reduce over n GPUs
    # takes time as (n - 1)/n: over n/2, (n - 2)/(n - 1) of it; half of that falls on a batch.
    saved = exposed * degree / (2 * (degree - 1))
    return _Change(
        "halve_tp",
        saved,
        f"{memory}; all of nccl_ms is tensor-parallel ring all-reduce; the GPUs set free run a second replica, whose "
        "gradients cost nothing to exchange; compute scales with GPUs; time is per batch",
    )


def _shown(number: Fraction) -> str:
    """A number of 0 or more for words, to six decimals: of ms those are ns."""
    millionths = round(number * 10**6)
    return f"{millionths // 10**6}.{millionths % 10**6:06d}".rstrip("0").rstrip(".")
