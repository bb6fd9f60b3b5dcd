"""What the SQL of a custom skill may be, decided on DuckDB's own parse tree: one SELECT over canonical tables.

Everything is a list of what is allowed; what DuckDB knows and the lists do not is refused. Runs in the child process
(`tools.custom.child`) only: parsing and binding untrusted SQL may take memory and time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import duckdb

from ...ingest.tables import TABLES

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

NOT_OF_THE_CAPTURE = {
    "version": "it depends on the DuckDB that is installed",
    "hash": "its value may change between versions of DuckDB",
    "approx_count_distinct": "it estimates; count(DISTINCT …) is exact",
    "approx_quantile": "it estimates; quantile_cont is exact",
    "approx_top_k": "it estimates; mode, or GROUP BY with ORDER BY, is exact",
    "reservoir_quantile": "it samples; quantile_cont is exact",
    "json_serialize_sql": "it parses SQL",
    "json_serialize_plan": "it plans SQL",
    "json_deserialize_sql": "it writes SQL",
}
"""Functions that DuckDB calls consistent, and why they are refused all the same."""

AGGREGATING = re.compile("(list_|array_)?aggr(egate)?")
"""Functions whose second argument names an aggregate."""

WITHOUT_ENTRY = {"unnest", "grouping", "grouping_id"}
"""Functions of the grammar that stand in no list of scalar functions: they only rearrange what they are given."""

_NO_POSITION = 2**63
_COLUMN_NAMES = {column.lower() for schema in TABLES.values() for column in schema.names}


class RefusedSqlError(Exception):
    """SQL that a custom skill may not have.

    Args:
        message: what is wrong.
        hint: what to do.
        position: where in the SQL, in bytes; None where DuckDB does not say.
    """

    def __init__(self, message: str, hint: str, position: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.position = position


@dataclass(slots=True)
class CheckedSql:
    """SQL that passed.

    Attributes:
        tree: its parse tree, as `json_serialize_sql` gives it.
        tables: the canonical tables that it names.
        parameters: the parameters that it uses, with where each is used first.
    """

    tree: dict[str, Any]
    tables: set[str] = field(default_factory=set)
    parameters: dict[str, int | None] = field(default_factory=dict)


class SqlChecker:
    """Checks SQL with the parser and the functions of one connection.

    Args:
        connection: any connection; nothing of the SQL is run on it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._functions: dict[str, list[tuple[str, str | None, str | None]]] = {}
        for name, kind, stability, macro in connection.execute(
            "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
        ).fetchall():
            self._functions.setdefault(name, []).append((kind, stability, macro))

    def check(self, sql: str, declared: Iterable[str]) -> CheckedSql:
        """Check one SQL text; `declared` are the parameters that it may use.

        Raises:
            RefusedSqlError: when it is anything but one SELECT over canonical tables that always answers the same.
        """
        statements = self.parse(sql)
        if not statements:
            raise RefusedSqlError("the SQL is empty", "write one SELECT over the canonical tables")
        if len(statements) > 1:
            raise RefusedSqlError(
                f"the SQL is {len(statements)} statements", "write one SELECT", _first_position(statements[1])
            )
        checked = CheckedSql(statements[0])
        self._walk(statements[0]["node"], frozenset(), None, checked)
        for name, position in checked.parameters.items():
            if name not in set(declared):
                raise RefusedSqlError(
                    f"there is no parameter ${name}",
                    f"the SQL may use {', '.join('$' + known for known in declared)}; declare others in ## Parameters",
                    position,
                )
        return checked

    def parse(self, sql: str) -> list[dict[str, Any]]:
        """The parse trees of the statements. Raises RefusedSqlError for what is no SELECT."""
        [(text,)] = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        parsed = json.loads(text)
        if parsed.get("error"):
            if parsed.get("error_type") == "not implemented":
                raise self._no_select(sql)
            position = str(parsed.get("position", ""))
            raise RefusedSqlError(
                str(parsed.get("error_message", "it cannot be parsed")),
                "correct the SQL; it is DuckDB's dialect",
                int(position) if position.isdigit() else None,
            )
        statements: list[dict[str, Any]] = parsed.get("statements") or []
        return statements

    def text(self, tree: dict[str, Any]) -> str:
        """The SQL of a parse tree."""
        whole = json.dumps({"error": False, "statements": [tree]})
        [(text,)] = self._connection.execute("SELECT json_deserialize_sql(?::JSON)", [whole]).fetchall()
        return str(text)

    def _no_select(self, sql: str) -> RefusedSqlError:
        """The error for what is no SELECT: which statement of it is none, and where it begins."""
        rest = 0
        for statement in self._connection.extract_statements(sql):
            text = statement.query.strip()
            start = max(sql.find(text, rest), 0)
            if statement.type != duckdb.StatementType.SELECT:
                position = len(sql[:start].encode())
                return RefusedSqlError(
                    f"{statement.type.name} is no SELECT", "a custom skill only reads: write one SELECT", position
                )
            rest = start + len(text)
        return RefusedSqlError("the SQL is no SELECT", "a custom skill only reads: write one SELECT")

    def _walk(self, part: Any, visible: frozenset[str], position: int | None, checked: CheckedSql) -> None:
        """Check one part of the tree; `visible` are the names of common table expressions that it sees."""
        if isinstance(part, list):
            for item in part:
                self._walk(item, visible, position, checked)
            return
        if not isinstance(part, dict):
            return
        position = _position(part, position)
        visible = self._common_tables(part, visible, position, checked)
        if isinstance(kind := part.get("type"), str):
            if "class" in part:
                self._expression(part, part["class"], position, checked)
            else:
                self._node(part, kind, visible, position, checked)
        for key, value in part.items():
            if key != "cte_map":
                self._walk(value, visible, position, checked)

    def _common_tables(
        self, part: dict[str, Any], visible: frozenset[str], position: int | None, checked: CheckedSql
    ) -> frozenset[str]:
        for entry in (part.get("cte_map") or {}).get("map", []):
            name = entry["key"].lower()
            recursive = entry["value"]["query_node"].get("type") == "RECURSIVE_CTE_NODE"
            self._walk(entry["value"], visible | {name} if recursive else visible, position, checked)
            visible |= {name}
        return visible

    def _node(
        self, part: dict[str, Any], kind: str, visible: frozenset[str], position: int | None, checked: CheckedSql
    ) -> None:
        if kind == "TABLE_FUNCTION":
            name = part["function"].get("function_name", "")
            raise RefusedSqlError(
                f"the table function {name} is not available",
                "FROM takes canonical tables, subqueries and VALUES; unnest stands in the select list",
                position,
            )
        if kind.endswith("_QUERY_NODE"):
            raise RefusedSqlError(
                f"the SQL writes ({kind.removesuffix('_QUERY_NODE')})", "a custom skill only reads", position
            )
        if kind not in NODES:
            raise RefusedSqlError(f"{kind} is not available", "write a plain SELECT over canonical tables", position)
        if part.get("sample") is not None:
            raise RefusedSqlError("a sample is different each time", "read all rows", position)
        if kind == "BASE_TABLE":
            self._table(part, visible, position, checked)

    @staticmethod
    def _table(part: dict[str, Any], visible: frozenset[str], position: int | None, checked: CheckedSql) -> None:
        name = part["table_name"].lower()
        path = part.get("qualified_name", {}).get("path", [name])
        qualified = part.get("schema_name") or part.get("catalog_name") or part.get("at_clause") or len(path) > 1
        if not qualified and name in visible:
            return
        if qualified or name not in TABLES:
            raise RefusedSqlError(
                f"there is no table {'.'.join(map(str, path))!r}", f"tables are {', '.join(TABLES)}", position
            )
        checked.tables.add(name)

    def _expression(self, part: dict[str, Any], kind: str, position: int | None, checked: CheckedSql) -> None:
        if kind not in EXPRESSIONS:
            raise RefusedSqlError(f"{kind} is not available in an expression", "write it another way", position)
        if kind == "PARAMETER":
            checked.parameters.setdefault(part["identifier"], position)
        elif kind in ("FUNCTION", "WINDOW"):
            path = part.get("qualified_name", {}).get("path", [])
            if part.get("schema") or part.get("catalog") or len(path) > 1:
                raise RefusedSqlError("a function is named with its schema", "name it alone", position)
            reason = self._refusal(part["function_name"].lower(), frozenset()) or self._named_refusal(part)
            if reason:
                raise RefusedSqlError(
                    f"the function {part['function_name']} is not available: {reason}",
                    "the same call must always give the same answer; docs/custom-skills.md says what may be used",
                    position,
                )
        elif kind == "COLUMN_REF" and len(part["column_names"]) == 1:
            self._column(part["column_names"][0], position)

    def _column(self, name: str, position: int | None) -> None:
        """Refuse a name that DuckDB reads as a function where no column has it, such as current_timestamp."""
        if name.lower() in _COLUMN_NAMES:
            return
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            self._connection.execute(f"DESCRIBE (SELECT {quoted})")
        except duckdb.Error:
            return
        raise RefusedSqlError(
            f"{name} is not of the capture",
            "the same call must always give the same answer; use another name",
            position,
        )

    def _named_refusal(self, part: dict[str, Any]) -> str | None:
        """Why a call such as list_aggregate(…, 'name') is refused, which names another function in a text."""
        if not AGGREGATING.fullmatch(part["function_name"].lower()):
            return None
        arguments = part.get("children", [])
        if len(arguments) < 2 or arguments[1].get("class") != "CONSTANT":
            return "the aggregate is named by a value; name it in a text"
        named = arguments[1].get("value", {}).get("value")
        return self._refusal(named.lower(), frozenset()) if isinstance(named, str) else "the aggregate has no name"

    def _refusal(self, name: str, within: frozenset[str]) -> str | None:
        """Why a function is refused; None for one that always gives the same for the same arguments."""
        if reason := NOT_OF_THE_CAPTURE.get(name):
            return reason
        if "approx" in name or "reservoir" in name:
            return "it estimates, or samples"
        if name in WITHOUT_ENTRY or name in within:
            return None
        if name not in self._functions:
            return "there is none of this name"
        stable = [
            self._stable_macro(macro, within | {name}) if kind == "macro" else stability == "CONSISTENT"
            for kind, stability, macro in self._functions[name]
        ]
        operator = not any(letter.isalpha() for letter in name)
        if any(stable) if operator else all(stable):  # + and - also stand for times with time zones
            return None
        return "it may answer differently each time, or depends on where it runs"

    def _stable_macro(self, definition: str | None, within: frozenset[str]) -> bool:
        """Whether a macro is made of stable functions only."""
        if not definition:
            return False
        try:
            [tree] = self.parse(f"SELECT {definition}")
        except (RefusedSqlError, ValueError):
            return False
        return all(self._stable_part(part, within) for part in _parts(tree["node"]))

    def _stable_part(self, part: dict[str, Any], within: frozenset[str]) -> bool:
        kind = part.get("class")
        if kind is None:
            return not isinstance(part.get("type"), str) or part["type"] in NODES - {"BASE_TABLE"}
        if kind in ("FUNCTION", "WINDOW"):
            return self._refusal(part["function_name"].lower(), within) is None and self._named_refusal(part) is None
        if kind == "COLUMN_REF" and len(part["column_names"]) == 1:
            try:
                self._column(part["column_names"][0], None)
            except RefusedSqlError:
                return False
        return kind in EXPRESSIONS


def ordered(tree: dict[str, Any], columns: int) -> dict[str, Any]:
    """The tree with its order made total: by its own ORDER BY, then by every column from the left.

    The tie-breaks stand before its LIMIT, if it has one, so that they also decide which rows it keeps.
    """
    copy: dict[str, Any] = json.loads(json.dumps(tree))
    modifiers: list[dict[str, Any]] = copy["node"]["modifiers"]
    order = next((modifier for modifier in modifiers if modifier["type"] == "ORDER_MODIFIER"), None)
    if order is None:
        order = {"type": "ORDER_MODIFIER", "orders": []}
        limits = [number for number, modifier in enumerate(modifiers) if modifier["type"].startswith("LIMIT")]
        modifiers.insert(limits[0] if limits else len(modifiers), order)
    if not any(_every_column(entry["expression"]) for entry in order["orders"]):
        order["orders"] += [_by_position(number) for number in range(1, columns + 1)]
    return copy


def _every_column(expression: dict[str, Any]) -> bool:
    """Whether it is the ALL of ORDER BY ALL, which takes no other order beside it and is total by itself."""
    lists = ("exclude_list", "qualified_exclude_list", "replace_list", "rename_list", "relation_name", "expr")
    return expression.get("class") == "STAR" and not any(expression.get(name) for name in lists)


def _by_position(number: int) -> dict[str, Any]:
    constant = {
        "class": "CONSTANT",
        "type": "VALUE_CONSTANT",
        "alias": "",
        "query_location": 2**64 - 1,
        "query_location_length": 0,
        "literal": {"kind": "INTEGER", "text": str(number)},
    }
    return {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT", "expression": constant}


def _position(part: dict[str, Any], otherwise: int | None) -> int | None:
    position = part.get("query_location")
    return position if isinstance(position, int) and position < _NO_POSITION else otherwise


def _parts(part: Any) -> Iterable[dict[str, Any]]:
    """Every object in a tree, outer ones first."""
    if isinstance(part, list):
        for item in part:
            yield from _parts(item)
    elif isinstance(part, dict):
        yield part
        for value in part.values():
            yield from _parts(value)


def _first_position(tree: dict[str, Any]) -> int | None:
    positions = (_position(part, None) for part in _parts(tree))
    return min((position for position in positions if position is not None), default=None)
