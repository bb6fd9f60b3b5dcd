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

_LAUNCHED = "call_start IS NOT NULL"
"""SQL condition: the API call of the kernel was recorded."""


def sharing_of(call: Call[Any]) -> Sharing:
    """How the kernels of the capture share calls. Grouping by call takes time, and most captures need none of it.

    It is of the whole capture, since a kernel in the window may share its call with kernels outside.
    """
    [(most, most_beside_others)] = call.sql(
        f"""SELECT max(kernels), max(kernels) FILTER (nodes < kernels)
        FROM (SELECT count(*) AS kernels, count(graph_node) AS nodes FROM kernels WHERE {_LAUNCHED}
            GROUP BY process, correlation)"""
    )
    if (most or 0) < 2:
        return Sharing.NONE
    return Sharing.GRAPHS if (most_beside_others or 0) < 2 else Sharing.ANY


def launches_sql(where: str, sharing: Sharing, keys: str = "") -> str:
    """SQL: one row per launch and value of the keys that has a kernel of the condition `where`.

    `kernels` and `time` are of its kernels that meet the condition; `whole` is the time of all of its kernels, in the
    window and on the selected devices or not, `api` the duration of the API call, and `queue` the first start of all
    of its kernels less the end of the call, null where it is not positive; `lead` is the same with its sign. Times are
    in ns.
    """
    selected, own = f"{keys}, " if keys else "", _ON_ITS_OWN[sharing]
    shared = f"{_LAUNCHED} AND NOT {own}"
    return f"""SELECT {selected}kernels, time, whole, call_end - call_start AS api,
            CASE WHEN first > call_end THEN first - call_end END AS queue, first - call_end AS lead
        FROM (
            SELECT {selected}1 AS kernels, "end" - start AS time, "end" - start AS whole, start AS first,
                call_start, call_end
            FROM kernels WHERE {where} AND {_LAUNCHED} AND {own}
            UNION ALL
            SELECT {selected}count(*) FILTER ({where}), (sum("end" - start) FILTER ({where}))::BIGINT,
                sum("end" - start)::BIGINT, min(start), min(call_start), min(call_end)
            FROM kernels
            WHERE {shared} AND (process, correlation) IN
                (SELECT (process, correlation) FROM kernels WHERE {where} AND {shared})
            GROUP BY {selected}process, correlation HAVING count(*) FILTER ({where}) > 0
        )"""
