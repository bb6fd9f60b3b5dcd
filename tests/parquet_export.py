"""Writes a Parquet export of the shape that nsys writes from an SQLite one: a file a table, no table without rows."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

UNSIGNED = {
    "globaltid", "globalpid", "globalvid", "endglobaltid", "pid", "nameid", "rangeid", "category", "domainid",
    "streamid", "contextid", "deviceid", "correlationid", "bytes", "utcepochns", "duration", "starttime", "stoptime",
}  # fmt: skip
"""Columns that are unsigned in Parquet exports of nsys 2023.4, or that newer ones may have so."""

SQLITE_ONLY = ("META_DATA_CAPTURE",)
"""What nsys writes to SQLite alone."""


def write_parquetdir(sqlite: Path, directory: Path, seed: int | None = None) -> Path:
    """The Parquet export; with a seed, rows, sizes of row groups and types of columns are any that hold the values."""
    chance = None if seed is None else random.Random(seed)
    directory.mkdir(parents=True)
    with closing(sqlite3.connect(f"file:{sqlite}?mode=ro&immutable=1", uri=True)) as database:
        database.text_factory = bytes
        names = [name.decode() for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in sorted(names):
            columns = [row[1].decode() for row in database.execute(f'PRAGMA table_info("{name}")')]
            rows = database.execute(f'SELECT * FROM "{name}"').fetchall()
            if not rows or name in SQLITE_ONLY:
                continue
            if chance:
                chance.shuffle(rows)
            table = pa.table(
                {
                    column: _array(column, list(values), chance)
                    for column, values in zip(columns, zip(*rows, strict=True), strict=True)
                }
            )
            size = chance.choice((1, 7, 1000, 100_000)) if chance else 2048
            pq.write_table(table, directory / f"{name}.parquet", row_group_size=max(size, len(rows) // 50))
    return directory


def _is_utf8(text: object) -> bool:
    try:
        return not isinstance(text, bytes) or text.decode() is not None
    except UnicodeDecodeError:
        return False


def _array(column: str, values: list[object], chance: random.Random | None) -> pa.Array:
    present = [value for value in values if value is not None]
    if any(isinstance(value, bytes) for value in present):
        kinds: tuple[pa.DataType, ...] = (pa.string(), pa.large_string(), pa.binary(), pa.string_view())
        texts = [str(value).encode() if isinstance(value, int | float) else value for value in values]
        if not all(map(_is_utf8, texts)):  # binary data, which nsys writes as a large string all the same
            array = pa.array(texts, pa.large_binary())
            large = pa.Array.from_buffers(pa.large_string(), len(array), array.buffers())
            return large if chance is None or chance.random() < 0.7 else pa.array(texts, pa.binary())
        kind = chance.choice(kinds) if chance else pa.string()
        if kind not in (pa.binary(), pa.string()):
            return pa.array([None if text is None else text.decode("utf-8", "replace") for text in texts], kind)
        array = pa.array(texts, pa.binary())
        array = pa.Array.from_buffers(pa.string(), len(array), array.buffers()) if kind == pa.string() else array
        return array.dictionary_encode() if chance and chance.random() < 0.3 else array
    if any(isinstance(value, float) for value in present):
        return pa.array(values, pa.float64())
    if column.lower() in UNSIGNED and (chance is None or chance.random() < 0.7):
        return pa.array([None if value is None else value % 2**64 for value in values], pa.uint64())  # type: ignore[operator]
    fitting = [
        kind
        for kind, low, high in (
            (pa.int64(), -(2**63), 2**63 - 1),
            (pa.int32(), -(2**31), 2**31 - 1),
            (pa.uint32(), 0, 2**32 - 1),
            (pa.int16(), -(2**15), 2**15 - 1),
            (pa.uint8(), 0, 255),
        )
        if all(low <= value <= high for value in present)  # type: ignore[operator]
    ]
    return pa.array(values, chance.choice(fitting) if chance else pa.int64())
