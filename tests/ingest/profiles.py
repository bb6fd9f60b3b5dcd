"""What the tests of ingest share: a capture built into canonical tables, and those tables as plain rows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nsys_evidence.ingest.build import build_profile
from nsys_evidence.ingest.forms.detect import find_capture
from nsys_evidence.ingest.forms.open import open_reader
from nsys_evidence.ingest.manifest import Manifest
from nsys_evidence.ingest.synthetic import Capture, Layout
from nsys_evidence.ingest.tables import TABLES
from tests.support import scratch, written

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Built:
    """A canonical profile on disk, outside any cache."""

    manifest: Manifest
    directory: Path

    def rows(self, table: str) -> Rows:
        """The rows of a canonical table."""
        rows: Rows = pq.read_table(self.directory / f"{table}.parquet").to_pylist()
        return rows

    def bytes(self) -> dict[str, bytes]:
        """Every canonical table as it is on disk."""
        return {table: (self.directory / f"{table}.parquet").read_bytes() for table in TABLES}

    def strings(self) -> dict[int | None, str | None]:
        """The texts by number; None stays None."""
        return {None: None} | {row["id"]: row["value"] for row in self.rows("strings")}

    def named(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a table, with names and API calls as texts."""
        texts = self.strings()
        return [
            tuple(texts[row[column]] if column in ("name", "api") else row[column] for column in columns)
            for row in self.rows(table)
        ]


def build_file(path: Path) -> Built:
    """The canonical profile of a capture file."""
    directory = Path(tempfile.mkdtemp(dir=scratch()))
    reader = open_reader(find_capture(path))
    try:
        return Built(build_profile(reader, directory, lambda share, words: None), directory)
    finally:
        reader.close()


def build(capture: Capture, layout: Layout | None = None) -> Built:
    """The canonical profile of a generated capture."""
    return build_file(written(capture, layout))


def stack_names(built: Built) -> dict[int | None, tuple[str, ...]]:
    """The names of the ranges of every stack, outermost first; of no stack, none."""
    texts, nodes = built.strings(), built.rows("stacks")
    paths = built.rows("paths")
    chains: dict[int | None, tuple[str, ...]] = {None: ()}
    for path in paths:
        chains[path["path"]] = (*chains[path["parent"]], str(texts[path["name"]]))
    return {None: ()} | {node["node"]: chains[node["path"]] for node in nodes}
