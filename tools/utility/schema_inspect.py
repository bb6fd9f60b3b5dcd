"""Tables and columns of the source."""

from __future__ import annotations

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Text
from ..call import Call
from ..registry import NoParams, skill
from ..result import Result


class SchemaInspectRow(Row):
    """One table of the source."""

    table: Text = column("name")
    rows: Count = column("number of rows")
    column_count: Count = column("number of columns")
    columns: Text = column("columns as name:type, in order; a column without a declared type as its name")


class SchemaInspectTotals(Row):
    """All tables of the source."""

    tables: Count = column("tables")
    rows: Count = column("rows of all tables")
    nsys_version: Text | None = column("version of the nsys that exported it; null where the export does not say")
    schema_version: Text | None = column("version of the export schema; null where the export does not say")


@skill(
    title="Schema inspect",
    when="To see which tables and columns an export has, when a skill abstains or a custom query is to be written.",
    row=SchemaInspectRow,
    totals=SchemaInspectTotals,
    window="none",
    max_rows=50,
    next=("profile_info",),
)
def schema_inspect(call: Call[NoParams]) -> Result:
    """One row per table of the source, by name, label tables (ENUM_…) last; never any content.

    These are the tables of the file that was opened, so that two forms of one capture may differ here.
    """
    source = call.profile.source
    tables = sorted(source.tables, key=lambda t: (t.table.upper().startswith("ENUM_"), t.table))
    rows = [
        (t.table, t.rows, len(t.columns), ", ".join(f"{name}:{kind}" if kind else name for name, kind in t.columns))
        for t in tables
    ]
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={
            "tables": len(rows),
            "rows": sum(t.rows for t in tables),
            "nsys_version": source.nsys_version,
            "schema_version": source.schema_version,
        },
        status=Status.OK if rows else Status.EMPTY,
    )
