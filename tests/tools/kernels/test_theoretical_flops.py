from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from tests.support import ask, rows_of


def flops(**arguments: object) -> int:
    return int(ask("theoretical_flops", **arguments)["totals"]["flops"])


def counted(rows: int, columns: int, inner: int) -> int:
    """The multiplications and additions of a matrix product, one at a time."""
    return sum(2 for _ in product(range(rows), range(columns), range(inner)))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_every_formula_counts_the_multiply_adds_of_its_matrix_products(data: st.DataObject) -> None:
    small = st.integers(1, 3)
    batch, sequence, heads, width, ffn = (data.draw(small) for _ in range(5))
    kv_heads = data.draw(st.sampled_from([k for k in (1, 2, 3) if heads % k == 0]))
    hidden = heads * width
    gated, causal = data.draw(st.booleans()), data.draw(st.booleans())
    layers, multiplier = data.draw(small), data.draw(st.sampled_from((1, 3, 4)))
    tokens = batch * sequence
    attention = sum(  # scores, and scores times values, of every head
        counted(sequence, sequence, width) + counted(sequence, width, sequence) for _ in range(batch * heads)
    )
    expected = {
        "attention": attention // 2 if causal else attention,
        "qkv_proj": counted(tokens, hidden + 2 * kv_heads * width, hidden),
        "output_proj": counted(tokens, hidden, hidden),
        "mlp": (2 if gated else 1) * counted(tokens, ffn, hidden) + counted(tokens, hidden, ffn),
    }
    size = {"hidden_dim": hidden, "seq_len": sequence, "batch_size": batch, "multiplier": multiplier}
    attended = {"causal": causal}
    shared = {"heads": heads, "kv_heads": kv_heads}
    forward = {"ffn_dim": ffn, "gated": gated}
    own: dict[str, dict[str, Any]] = {"attention": attended, "qkv_proj": shared, "output_proj": {}, "mlp": forward}
    for operation, arguments in own.items():
        assert flops(operation=operation, **size, **arguments) == expected[operation] * multiplier, operation
    everything = {**size, **attended, **shared, **forward}
    assert flops(operation="full_layer", **everything) == sum(expected.values()) * multiplier
    model = ask("theoretical_flops", operation="full_model", num_layers=layers, **everything)
    assert model["totals"]["flops"] == sum(expected.values()) * multiplier * layers
    rows = rows_of(model)
    assert {row["part"]: row["forward_flops"] for row in rows} == expected
    assert all(row["flops"] == row["forward_flops"] * layers * multiplier for row in rows)
    sides = (data.draw(small), data.draw(small), data.draw(small))
    assert flops(operation="linear", **dict(zip("MNK", sides, strict=True))) == counted(*sides)


def test_a_model_of_known_size_by_hand() -> None:
    # B=1, S=2048, H=4096, F=16384: 6·B·S·H² = 206,158,430,208; 4·B·S²·H = 68,719,476,736; 2·B·S·H² = 68,719,476,736;
    # 4·B·S·H·F = 549,755,813,888; together 893,353,197,568 a layer, times 32 layers.
    assert flops(operation="full_model", hidden_dim=4096, seq_len=2048, num_layers=32) == 28_587_302_322_176


def test_defaults_are_four_times_as_wide_and_one_of_everything_else() -> None:
    plain = flops(operation="full_model", hidden_dim=8, seq_len=4)
    said = {"ffn_dim": 32, "num_layers": 1, "batch_size": 1, "multiplier": 1, "causal": False, "gated": False}
    assert flops(operation="full_model", hidden_dim=8, seq_len=4, heads=2, kv_heads=2, **said) == plain


@pytest.mark.parametrize(
    ("arguments", "defaults"),
    [
        ({"operation": "full_model", "hidden_dim": 8, "seq_len": 4}, {"num_layers": 1, "batch_size": 1}),
        ({"operation": "linear", "M": 2, "N": 3, "K": 4}, {"num_layers": 1, "batch_size": 1, "causal": False}),
    ],
)
def test_defaults_that_are_spelled_out_are_the_same_evidence_also_where_they_are_of_no_use(
    arguments: dict[str, Any], defaults: dict[str, Any]
) -> None:
    assert ask("theoretical_flops", **arguments, **defaults) == ask("theoretical_flops", **arguments)


def test_integers_beyond_2_53_are_exact_and_travel_as_text() -> None:
    envelope = ask("theoretical_flops", operation="linear", M=10**12 - 1, N=10**12 - 1, K=3)
    assert envelope["totals"]["flops"] == str(6 * (10**12 - 1) ** 2)
    assert rows_of(envelope)[0]["flops"] == str(6 * (10**12 - 1) ** 2)


def test_the_formula_says_how_the_figure_came_about() -> None:
    totals = ask("theoretical_flops", operation="full_model", hidden_dim=8, seq_len=4, causal=True, multiplier=3)[
        "totals"
    ]
    assert totals["formula"] == "multiplier·num_layers·(6·B·S·H² + 2·B·S²·H + 2·B·S·H² + 4·B·S·H·F)"
    assert totals["forward_flops"] * 3 == totals["flops"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"operation": "linear", "M": 8}, "linear needs N, K"),
        ({"operation": "attention", "hidden_dim": 8}, "attention needs seq_len"),
        ({"operation": "mlp"}, "mlp needs hidden_dim, seq_len"),
        ({"operation": "linear", "M": 1, "N": 1, "K": 1, "batch_size": 2}, "linear does not use batch_size"),
        ({"operation": "attention", "hidden_dim": 8, "seq_len": 8, "num_layers": 2}, "does not use num_layers"),
        ({"operation": "mlp", "hidden_dim": 8, "seq_len": 8, "causal": True}, "does not use causal"),
        ({"operation": "qkv_proj", "hidden_dim": 8, "seq_len": 8, "kv_heads": 2}, "without heads"),
        ({"operation": "qkv_proj", "hidden_dim": 8, "seq_len": 8, "heads": 4, "kv_heads": 3}, "no multiple"),
        ({"operation": "qkv_proj", "hidden_dim": 9, "seq_len": 8, "heads": 4, "kv_heads": 2}, "no multiple"),
        ({"operation": "mlp", "hidden_dim": 0, "seq_len": 8}, "hidden_dim"),
        ({"operation": "mlp", "hidden_dim": -4096, "seq_len": 8}, "hidden_dim"),
        ({"operation": "mlp", "hidden_dim": 4096.5, "seq_len": 8}, "hidden_dim"),
        ({"operation": "dance"}, "operation"),
    ],
)
def test_what_is_missing_or_of_no_use_is_named_with_an_example(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("theoretical_flops", **arguments)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert named in refused.value.message
    assert refused.value.hint


def test_an_example_that_is_given_as_a_hint_works() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("theoretical_flops", operation="full_model")
    words = refused.value.hint.removeprefix("for example: ").split(", ")
    pairs = [word.split("=") for word in words]
    assert flops(**{name: int(value) if value.isdigit() else value for name, value in pairs}) > 0


def test_totals_cover_all_parts_on_every_page() -> None:
    page = ask("theoretical_flops", operation="full_layer", hidden_dim=8, seq_len=4, max_rows=1, offset=2)
    assert [row["part"] for row in rows_of(page)] == ["output_proj"]
    assert page["totals"]["flops"] == flops(operation="full_layer", hidden_dim=8, seq_len=4)
