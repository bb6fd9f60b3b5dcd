"""DuckDB's parse tree of SQL: how it is made, and the kinds of node and expression that a custom skill may have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import duckdb

QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
TABLE_NODES = {"BASE_TABLE", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY"}
MODIFIERS = {"ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"}
ORDERS = {"ORDER_DEFAULT", "ASCENDING", "DESCENDING"}
NODES = QUERY_NODES | TABLE_NODES | MODIFIERS | ORDERS
"""Kinds of node of the parse tree that are no expressions."""

EXPRESSIONS = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "LAMBDA",
    "OPERATOR",
    "PARAMETER",
    "POSITIONAL_REFERENCE",
    "STAR",
    "SUBQUERY",
    "TYPE",
    "WINDOW",
}
"""Classes of expression."""


def parsed_sql(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """What `json_serialize_sql` gives: the statements, or an error."""
    [(text,)] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def parts(part: Any) -> Iterable[dict[str, Any]]:
    """Every object in a tree, outer ones first."""
    if isinstance(part, list):
        for item in part:
            yield from parts(item)
    elif isinstance(part, dict):
        yield part
        for value in part.values():
            yield from parts(value)
