"""Launches in SQL: one API call and the kernels that it put on the GPU, one of them or, for a CUDA graph, many."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..call import Call


class Sharing(Enum):
    """Which kernels share their API call with others."""

    NONE = "none"
    GRAPHS = "only nodes of CUDA graphs"
    ANY = "others too"


_ON_ITS_OWN = {Sharing.NONE: "TRUE", Sharing.GRAPHS: "graph_node IS NULL", Sharing.ANY: "FALSE"}
"""SQL condition: the kernel is the only one of its call."""


def sharing_of(call: Call[Any], where: str) -> Sharing:
    """How the kernels of a condition share calls. Grouping by call takes time, and most captures need none of it."""
    [(most, most_beside_others)] = call.sql(
        f"""SELECT max(kernels), max(kernels) FILTER (nodes < kernels)
        FROM (SELECT count(*) AS kernels, count(graph_node) AS nodes FROM kernels WHERE {where}
            GROUP BY process, correlation)"""
    )
    if (most or 0) < 2:
        return Sharing.NONE
    return Sharing.GRAPHS if (most_beside_others or 0) < 2 else Sharing.ANY


def launches_sql(where: str, sharing: Sharing, keys: str = "") -> str:
    """SQL: one row per launch and value of the keys, with `kernels` and, in ns, their `time`, `api` and `queue`.

    `api` is the duration of the API call; `queue` is null where it is not positive.
    """
    selected, own = f"{keys}, " if keys else "", _ON_ITS_OWN[sharing]
    return f"""SELECT {selected}kernels, time, call_end - call_start AS api,
            CASE WHEN first > call_end THEN first - call_end END AS queue
        FROM (
            SELECT {selected}1 AS kernels, "end" - start AS time, start AS first, call_start, call_end
            FROM kernels WHERE {where} AND {own}
            UNION ALL
            SELECT {selected}count(*), sum("end" - start)::BIGINT, min(start), min(call_start), min(call_end)
            FROM kernels WHERE {where} AND NOT {own} GROUP BY {selected}process, correlation
        )"""
