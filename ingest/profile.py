"""An opened canonical profile: its manifest, and DuckDB cursors over its tables."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from ..contracts.window import Window
from .interrupt import reading_profile
from .manifest import Coverage, Device, Manifest
from .source import Source
from .tables import TABLES

T = TypeVar("T")


class Profile:
    """A canonical profile, open for queries. Thread-safe: every query runs on a cursor of its own.

    Args:
        source: the record of the capture that it was opened from.
        directory: the canonical directory.
        manifest: its manifest, read already.
    """

    def __init__(self, source: Source, directory: Path, manifest: Manifest) -> None:
        self.source = source
        self.directory = directory
        self.manifest = manifest
        self._lock = threading.Lock()
        self._base: duckdb.DuckDBPyConnection | None = None
        self._views: set[str] = set()
        self._known: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """The profile id, `p-…`."""
        return self.manifest.profile_id

    @property
    def name(self) -> str:
        """The capture's file name, shown to the reader and part of no evidence."""
        return self.source.name

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices with GPU work, in order."""
        return self.manifest.devices

    def device(self, gpu: int) -> Device:
        """The device of this number, with or without work."""
        return (*self.manifest.devices, *self.manifest.idle_devices)[gpu]

    @property
    def capture_window(self) -> Window | None:
        """All events; None for a capture without any."""
        return self._window(self.manifest.capture, "capture window")

    @property
    def gpu_window(self) -> Window | None:
        """First to last kernel, graph, copy or set over all devices; None without GPU work."""
        return self._window(self.manifest.gpu, "gpu window")

    @staticmethod
    def _window(bounds: tuple[int, int] | None, by: str) -> Window | None:
        return None if bounds is None else Window(*bounds, by, includes_end=True)

    def recorded(self, kind: str) -> bool:
        """Whether the capture has the table of this kind of event, be it empty."""
        return self.manifest.coverage.get(kind, Coverage.NOT_RECORDED) is not Coverage.NOT_RECORDED

    def once(self, fact: str, find: Callable[[], T]) -> T:
        """A small fact of the whole capture, whatever is asked about it: found once for as long as the profile is open.

        Args:
            fact: its name.
            find: finds it, always the same; what it raises is raised, and nothing is kept.
        """
        if fact not in self._known:
            self._known[fact] = find()  # two threads may both find it: the same
        known: T = self._known[fact]
        return known

    def cursor(self, query: str | None = None) -> duckdb.DuckDBPyConnection:
        """A new cursor with a view for every canonical table, or for those that a query names. The caller closes it.

        A view reads what its file says of itself, which takes a while: those that nobody asks for are not made.
        """
        named = _TABLES_NAMED.findall(query) if query is not None else TABLES
        with self._lock, reading_profile():
            if self._base is None:
                self._base = self._connect()
            for table in sorted(set(named) - self._views):
                path = _literal(str(self.directory / f"{table}.parquet"))
                self._base.execute(
                    f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}', hive_partitioning = false)"
                )
                self._views.add(table)
            return self._base.cursor()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(
            config={
                "threads": 2,
                "memory_limit": "768MB",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "preserve_insertion_order": "true",
                "temp_directory": str(Path(tempfile.gettempdir()) / f"nsys-evidence-{os.getpid()}"),  # else the cwd
            }
        )


_TABLES_NAMED = re.compile(rf"\b({'|'.join(TABLES)})\b")

_PATTERN = re.compile(r"[*?\[]")


def _literal(path: str) -> str:
    """A path as DuckDB takes it for exactly this file: nothing in it is a pattern, a partition or a quote."""
    return _PATTERN.sub(lambda found: f"[{found[0]}]", path).replace("'", "''")
