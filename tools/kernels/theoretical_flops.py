"""How many FLOPs an operation of a transformer takes, by formula."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ...contracts.columns import Row, column
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.units import Count, Flop, Text
from ..call import Call
from ..registry import Params, skill
from ..result import Result

Operation = Literal["attention", "qkv_proj", "output_proj", "mlp", "full_layer", "full_model", "linear"]

_LARGEST = 10**12
"""No side of a tensor is longer."""


class TheoreticalFlopsParams(Params):
    """Parameters of `theoretical_flops`. B, S, H and F of the formulas are batch_size, seq_len, hidden_dim, ffn_dim."""

    operation: Operation = Field(description="what to count")
    hidden_dim: int | None = Field(None, ge=1, le=_LARGEST, description="H; all but linear")
    seq_len: int | None = Field(None, ge=1, le=_LARGEST, description="S; all but linear")
    num_layers: int = Field(1, ge=1, le=_LARGEST, description="full_model only")
    ffn_dim: int | None = Field(None, ge=1, le=_LARGEST, description="F; default 4·H")
    batch_size: int = Field(1, ge=1, le=_LARGEST, description="B")
    multiplier: int = Field(1, ge=1, le=100, description="3 with backward, 4 with recomputation too")
    M: int | None = Field(None, ge=1, le=_LARGEST, description="linear: rows")
    N: int | None = Field(None, ge=1, le=_LARGEST, description="linear: columns")
    K: int | None = Field(None, ge=1, le=_LARGEST, description="linear: inner side")
    heads: int | None = Field(None, ge=1, le=_LARGEST, description="query heads")
    kv_heads: int | None = Field(None, ge=1, le=_LARGEST, description="key/value heads; default heads")
    causal: bool = Field(False, description="half of the attention matrix")
    gated: bool = Field(False, description="gated MLP: three matrices")


class TheoreticalFlopsRow(Row):
    """One part of the operation."""

    part: Text = column("attention, qkv_proj, output_proj, mlp or linear")
    formula: Text = column("FLOPs of one forward pass of the part")
    forward_flops: Flop = column("the formula's value")
    times: Count = column("layers times multiplier")
    flops: Flop = column("forward_flops times times")


class TheoreticalFlopsTotals(Row):
    """The operation as a whole."""

    operation: Text = column("what was counted")
    formula: Text = column("FLOPs of the whole")
    forward_flops: Flop = column("one forward pass, all layers")
    multiplier: Count = column("passes: 1 forward, 3 with backward, 4 with recomputation too")
    flops: Flop = column("FLOPs, exact: give it as theoretical_flops to region_mfu or arithmetic_intensity")


_LAYER = ("qkv_proj", "attention", "output_proj", "mlp")
_PARTS: dict[str, tuple[str, ...]] = {"full_layer": _LAYER, "full_model": _LAYER}

_NEEDED = {"linear": ("M", "N", "K")}
_USED = {
    "attention": ("batch_size", "causal"),
    "qkv_proj": ("batch_size", "heads", "kv_heads"),
    "output_proj": ("batch_size",),
    "mlp": ("batch_size", "ffn_dim", "gated"),
    "full_layer": ("batch_size", "ffn_dim", "heads", "kv_heads", "causal", "gated"),
    "full_model": ("batch_size", "ffn_dim", "heads", "kv_heads", "causal", "gated", "num_layers"),
    "linear": (),
}
"""What each operation takes beyond what it needs."""

_EXAMPLES = {
    "linear": "operation=linear, M=4096, N=4096, K=1024",
    "full_model": "operation=full_model, hidden_dim=4096, seq_len=2048, num_layers=32",
}


@skill(
    title="Theoretical FLOPs",
    when="To compute how many FLOPs a layer, a model or a matrix product takes.",
    params=TheoreticalFlopsParams,
    row=TheoreticalFlopsRow,
    totals=TheoreticalFlopsTotals,
    window="none",
    profile=False,
    next=("region_mfu", "arithmetic_intensity"),
    example={"operation": "full_model", "hidden_dim": 4096, "seq_len": 2048, "num_layers": 32},
)
def theoretical_flops(call: Call[TheoreticalFlopsParams]) -> Result:
    """One row per part. A multiply-add is two FLOPs; only matrix products are counted, as MFU is defined.

    Values are exact integers, a string beyond 2^53. causal counts half of the attention matrix, as model FLOPs are
    counted, whatever a kernel computes. With kv_heads, K and V are narrower. A parameter that the operation does not
    use is refused, unless it has its default: it would change nothing. Embeddings, the output head, norms and softmax
    are not counted.
    """
    params = call.params
    _check(params)
    parts = _PARTS.get(params.operation, (params.operation,))
    times = params.num_layers * params.multiplier
    rows = []
    for part in parts:
        formula, flops = _part(part, params)
        rows.append((part, formula, flops, times, flops * times))
    forward = sum(row[2] for row in rows) * params.num_layers
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={
            "operation": params.operation,
            "formula": _formula(params, [row[1] for row in rows]),
            "forward_flops": forward,
            "multiplier": params.multiplier,
            "flops": forward * params.multiplier,
        },
    )


def _part(part: str, params: TheoreticalFlopsParams) -> tuple[str, int]:
    """The formula of a part, and its value. What it needs is there: see `_check`."""
    if part == "linear":
        return "2·M·N·K", 2 * (params.M or 0) * (params.N or 0) * (params.K or 0)
    hidden, sequence, batch = params.hidden_dim or 0, params.seq_len or 0, params.batch_size
    tokens = batch * sequence
    if part == "attention":
        if params.causal:
            return "2·B·S²·H", 2 * tokens * sequence * hidden
        return "4·B·S²·H", 4 * tokens * sequence * hidden
    if part == "qkv_proj":
        heads = params.heads or 1
        narrow = hidden * (params.kv_heads or heads) // heads  # divides: see _check
        grouped = params.kv_heads is not None
        formula = "2·B·S·H·(H + 2·H·kv_heads/heads)" if grouped else "6·B·S·H²"
        return formula, 2 * tokens * hidden * (hidden + 2 * narrow)
    if part == "output_proj":
        return "2·B·S·H²", 2 * tokens * hidden * hidden
    matrices = 3 if params.gated else 2
    return f"{2 * matrices}·B·S·H·F", 2 * matrices * tokens * hidden * (params.ffn_dim or 4 * hidden)


def _formula(params: TheoreticalFlopsParams, parts: list[str]) -> str:
    whole = " + ".join(parts)
    if params.operation == "full_model":
        whole = f"num_layers·({whole})"
    elif len(parts) > 1:
        whole = f"({whole})"
    return whole if params.multiplier == 1 else f"multiplier·{whole}"


def _check(params: TheoreticalFlopsParams) -> None:
    """That the operation has what it needs, and nothing that it does not use."""
    operation = params.operation
    needed = _NEEDED.get(operation, ("hidden_dim", "seq_len"))
    example = _EXAMPLES.get(operation, f"operation={operation}, hidden_dim=4096, seq_len=2048")
    if missing := [name for name in needed if getattr(params, name) is None]:
        raise _refused(f"{operation} needs {', '.join(missing)}", f"for example: {example}", missing[0])
    takes = {"operation", "multiplier", *needed, *_USED[operation]}
    given = [name for name, field in type(params).model_fields.items() if getattr(params, name) != field.default]
    if unused := [name for name in given if name not in takes]:
        valid = ", ".join(name for name in type(params).model_fields if name in takes)
        raise _refused(f"{operation} does not use {', '.join(unused)}", f"it takes {valid}", unused[0])
    if params.kv_heads is None:
        return
    if params.heads is None:
        raise _refused("kv_heads means nothing without heads", f"for example: {example}, heads=32, kv_heads=8", "heads")
    assert params.hidden_dim is not None
    for whole, part in (("heads", "kv_heads"), ("hidden_dim", "heads")):
        if getattr(params, whole) % getattr(params, part):
            what = f"{whole}={getattr(params, whole)} is no multiple of {part}={getattr(params, part)}"
            raise _refused(what, f"for example: {example}, heads=32, kv_heads=8", part)


def _refused(message: str, hint: str, argument: str) -> EvidenceError:
    return EvidenceError(ErrorCode.INVALID_ARGUMENT, message, hint, argument=argument)
