"""An opened canonical profile: its manifest, and DuckDB cursors over its tables."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import duckdb

from ..contracts.window import Window
from .manifest import Coverage, Device, Manifest
from .source import Source
from .tables import TABLES


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

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new cursor with a view for every canonical table. The caller closes it."""
        with self._lock:
            if self._base is None:
                self._base = self._connect()
            return self._base.cursor()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(
            config={
                "threads": 2,
                "memory_limit": "768MB",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "preserve_insertion_order": "true",
                "temp_directory": str(Path(tempfile.gettempdir()) / f"nsys-evidence-{os.getpid()}"),  # else the cwd
            }
        )
        for table in TABLES:
            path = str(self.directory / f"{table}.parquet").replace("'", "''")
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}')")
        return connection

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """The texts of these string ids."""
        wanted = sorted(set(ids))
        if not wanted:
            return {}
        cursor = self.cursor()
        try:
            numbers = ",".join(map(str, wanted))
            return dict(cursor.execute(f"SELECT id, value FROM strings WHERE id IN ({numbers})").fetchall())
        finally:
            cursor.close()

    def close(self) -> None:
        """Close the database connection; files stay."""
        with self._lock:
            if self._base is not None:
                self._base.close()
                self._base = None
