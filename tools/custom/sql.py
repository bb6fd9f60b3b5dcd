"""What the SQL of a custom skill may be, decided on DuckDB's own parse tree: one SELECT over canonical tables.

Everything is a list of what is allowed; what DuckDB knows and the lists do not is refused. Runs in the child process
(`tools.custom.child`) only: parsing and binding untrusted SQL may take memory and time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import duckdb

from ...ingest.tables import TABLES
from .functions import Functions
from .parse_tree import EXPRESSIONS, NODES, parsed_sql, parts

_NO_POSITION = 2**63


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
        self._functions = Functions(connection)

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
        parsed = parsed_sql(self._connection, sql)
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
            reason = self._functions.refusal(part["function_name"]) or self._functions.named_refusal(part)
            if reason:
                raise RefusedSqlError(
                    f"the function {part['function_name']} is not available: {reason}",
                    "the same call must always give the same answer; docs/custom-skills.md says what may be used",
                    position,
                )
        elif kind == "COLUMN_REF" and len(part["column_names"]) == 1:
            name = part["column_names"][0]
            if self._functions.reads_as_function(name):
                raise RefusedSqlError(
                    f"{name} is not of the capture",
                    "the same call must always give the same answer; use another name",
                    position,
                )


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


def _first_position(tree: dict[str, Any]) -> int | None:
    positions = (_position(part, None) for part in parts(tree))
    return min((position for position in positions if position is not None), default=None)
