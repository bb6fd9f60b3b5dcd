"""Which functions the SQL of a custom skill may call: those that always give the same for the same arguments.

Runs in the child process (`tools.custom.child`) only, like the check of the parse tree.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb

from ...ingest.tables import TABLES
from .parse_tree import EXPRESSIONS, NODES, parsed_sql, parts

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

_COLUMN_NAMES = {column.lower() for schema in TABLES.values() for column in schema.names}


class Functions:
    """The functions that a connection knows, and which of them are refused.

    Args:
        connection: any connection; nothing of the SQL is run on it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._known: dict[str, list[tuple[str, str | None, str | None]]] = {}
        for name, kind, stability, macro in connection.execute(
            "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
        ).fetchall():
            self._known.setdefault(name, []).append((kind, stability, macro))

    def reads_as_function(self, name: str) -> bool:
        """Whether DuckDB reads a name of no column as a function, such as current_timestamp."""
        if name.lower() in _COLUMN_NAMES:
            return False
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            self._connection.execute(f"DESCRIBE (SELECT {quoted})")
        except duckdb.Error:
            return False
        return True

    def refusal(self, name: str, within: frozenset[str] = frozenset()) -> str | None:
        """Why a function is refused; None for one that always gives the same for the same arguments.

        Args:
            name: its name, in any case.
            within: the macros that are looked into, in lower case.
        """
        name = name.lower()
        if reason := NOT_OF_THE_CAPTURE.get(name):
            return reason
        if "approx" in name or "reservoir" in name:
            return "it estimates, or samples"
        if name in WITHOUT_ENTRY or name in within:
            return None
        if name not in self._known:
            return "there is none of this name"
        stable = [
            self._stable_macro(macro, within | {name}) if kind == "macro" else stability == "CONSISTENT"
            for kind, stability, macro in self._known[name]
        ]
        operator = not any(letter.isalpha() for letter in name)
        if any(stable) if operator else all(stable):  # + and - also stand for times with time zones
            return None
        return "it may answer differently each time, or depends on where it runs"

    def named_refusal(self, part: dict[str, Any]) -> str | None:
        """Why a call such as list_aggregate(…, 'name') is refused, which names another function in a text."""
        if not AGGREGATING.fullmatch(part["function_name"].lower()):
            return None
        arguments = [argument.get("expression", {}) for argument in part.get("arguments", [])]
        literal = arguments[1].get("literal", {}) if len(arguments) > 1 else {}
        if literal.get("kind") != "STRING":
            return "the aggregate is named by a value; name it in a text"
        return self.refusal(literal["text"])

    def _stable_macro(self, definition: str | None, within: frozenset[str]) -> bool:
        """Whether a macro is made of stable functions only."""
        if not definition:
            return False
        statements = parsed_sql(self._connection, f"SELECT {definition}").get("statements") or []
        if len(statements) != 1:  # none, where it cannot be parsed
            return False
        return all(self._stable_part(part, within) for part in parts(statements[0]["node"]))

    def _stable_part(self, part: dict[str, Any], within: frozenset[str]) -> bool:
        kind = part.get("class")
        if kind is None:
            return not isinstance(part.get("type"), str) or part["type"] in NODES - {"BASE_TABLE"}
        if kind in ("FUNCTION", "WINDOW"):
            return self.refusal(part["function_name"], within) is None and self.named_refusal(part) is None
        if kind == "COLUMN_REF" and len(part["column_names"]) == 1:
            return not self.reads_as_function(part["column_names"][0])
        return kind in EXPRESSIONS
