"""CUDA graphs that were traced as a whole: their kernels are hidden, and every kernel skill says so."""

from __future__ import annotations

from typing import Any

from ..call import Call


def hidden_graphs(call: Call[Any]) -> list[str]:
    """A note when graphs in scope hide their kernels, which makes an answer about kernels partial; else nothing."""
    if not call.profile.manifest.rows.get("graphs"):
        return []
    [(launches,)] = call.sql(f"SELECT count(*) FROM graphs WHERE {call.on_devices} AND {call.in_window}")
    if not launches:
        return []
    return [
        f"{launches} CUDA graph launches were traced as a whole: their kernels are hidden and missing here; "
        "record with --cuda-graph-trace=node to see them"
    ]
