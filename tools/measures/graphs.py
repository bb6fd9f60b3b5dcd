"""CUDA graphs that were traced as a whole: what they hide, said the same way by every skill that misses it."""

from __future__ import annotations

from typing import Any

from ..call import Call

KERNELS_HIDDEN = ": their kernels are hidden and missing here"
"""What graphs hide of an answer about kernels."""


def hidden_kernels(call: Call[Any]) -> list[str]:
    """A note when graphs in scope hide their kernels, which makes an answer about kernels partial; else nothing."""
    return _note(call, KERNELS_HIDDEN)


def hidden_in_busy(call: Call[Any]) -> list[str]:
    """A note when graphs in scope count as compute, whatever is in them; else nothing."""
    return _note(call, " and count as compute: their kernels, collectives among them, are hidden")


def hidden_transfers(call: Call[Any]) -> list[str]:
    """A note when graphs in scope hide their copies and sets, if they have any; else nothing."""
    return _note(call, ": the copies and sets inside, if any, are hidden and missing here")


def whole_graphs(launches: int, hidden: str, where: str = "") -> str:
    """The note about launches of graphs that were traced as a whole.

    Args:
        launches: how many there are.
        hidden: what that hides, beginning with its punctuation.
        where: where they are, beginning with a blank; in scope, if empty.
    """
    return (
        f"{launches} CUDA graph launches{where} were traced as a whole{hidden}; record with --cuda-graph-trace=node to "
        "see them"
    )


def _note(call: Call[Any], hidden: str) -> list[str]:
    if not call.profile.manifest.rows.get("graphs"):
        return []
    [(launches,)] = call.sql(f"SELECT count(*) FROM graphs WHERE {call.on_devices} AND {call.in_window}")
    return [whole_graphs(launches, hidden)] if launches else []
