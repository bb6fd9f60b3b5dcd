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
        style: number of the kind of event, as the query gave it; names of different kinds are different.
        name: string id of the name.
        of: their durations.
    """

    style: int
    name: int
    of: Durations


@dataclass(frozen=True, slots=True)
class ByName:
    """Events in the window by name.

    Attributes:
        page: the names of the page asked for, by total time, ties by name, then style.
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
        events: SQL that selects the columns `style`, `name`, `start` and `"end"`.
    """
    in_scope = f"FROM ({events}) WHERE {call.in_window}"
    [(names, count, total, clipped, shown)] = call.sql(
        f"""WITH named AS MATERIALIZED (
            SELECT name, style, count(*) AS events, sum({call.clipped}) AS total,
                count(*) FILTER ({call.crosses}) AS crossing {in_scope} GROUP BY name, style
        )
        SELECT count(*), coalesce(sum(events), 0), coalesce(sum(total), 0), coalesce(sum(crossing), 0),
            (SELECT list((style, name)) FROM (FROM named ORDER BY total DESC, name, style {call.page}))
        FROM named"""
    )
    wanted = {tuple(one) for one in shown or ()}
    of_names = ", ".join(str(name) for name in sorted({name for _, name in wanted})) or "NULL"
    rows = call.sql(
        f"SELECT style, name, {duration_sql(call)} {in_scope} AND name IN ({of_names}) GROUP BY style, name"
    )
    page = [Named(style, name, durations_of(of)) for style, name, *of in rows if (style, name) in wanted]
    page.sort(key=lambda named: (-named.of.total, named.name, named.style))
    return ByName(page, names, int(count), int(total), int(clipped))


def figures(of: Durations) -> tuple[object, ...]:
    """The columns that summaries by name share: total, avg, med, min, max and stddev, ns."""
    return (of.total, of.avg, of.med, of.shortest, of.longest, of.stddev)
