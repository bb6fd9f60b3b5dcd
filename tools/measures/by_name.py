"""Events summed by name: how much there is of all, and exact statistics of the names on the page, by total time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..call import Call
from .durations import Durations, duration_sql, durations_of


@dataclass(frozen=True, slots=True)
class Named:
    """The events of one name.

    Attributes:
        key: what the query told names apart by.
        of: their durations.
    """

    key: int
    of: Durations


@dataclass(frozen=True, slots=True)
class ByName:
    """Events in the window by name.

    Attributes:
        page: the names of the page asked for, by total time, ties by key.
        names: how many names there are.
        events: how many events.
        total: the sum of their durations, clipped to the window, ns.
        clipped: how many of them cross an edge of the window.
    """

    page: Sequence[Named]
    names: int
    events: int
    total: int
    clipped: int


def by_name(call: Call[Any], events: str) -> ByName:
    """Group the events in the window by name.

    The median and the squares take time, so they are gathered for the names on the page alone.

    Args:
        call: the call, for its window and page.
        events: SQL that selects the columns `key` (an integer that stands for the name), `start` and `"end"`.
    """
    in_scope = f"FROM ({events}) WHERE {call.in_window}"
    [(names, count, total, clipped, shown)] = call.sql(
        f"""WITH named AS MATERIALIZED (
            SELECT key, count(*) AS events, sum({call.clipped}) AS total,
                count(*) FILTER ({call.crosses}) AS crossing {in_scope} GROUP BY key
        )
        SELECT count(*), coalesce(sum(events), 0), coalesce(sum(total), 0), coalesce(sum(crossing), 0),
            (SELECT list(key) FROM (FROM named ORDER BY total DESC, key {call.page}))
        FROM named"""
    )
    keys = ", ".join(map(str, shown or ())) or "NULL"
    rows = call.sql(f"SELECT key, {duration_sql(call)} {in_scope} AND key IN ({keys}) GROUP BY key")
    page = [Named(key, durations_of(of)) for key, *of in rows]
    page.sort(key=lambda named: (-named.of.total, named.key))
    return ByName(page, names, int(count), int(total), int(clipped))


def figures(of: Durations) -> tuple[object, ...]:
    """The columns that summaries by name share: total, avg, med, min, max and stddev, ns."""
    return (of.total, of.avg, of.med, of.shortest, of.longest, of.stddev)
