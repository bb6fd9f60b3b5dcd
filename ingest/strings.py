"""The strings of a profile: only those that an event refers to, numbered in the order of their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .raw import Ints32
from .reader import Codes, Ints


class SourceStrings:
    """The source's own string table, held in Arrow: it may be large, and most of it is never asked for.

    Args:
        ids: string ids in order; of equal ones the first counts.
        texts: their texts, as bytes that need not be UTF-8.
    """

    def __init__(self, ids: Ints, texts: pa.ChunkedArray[Any]) -> None:
        self._ids, self._texts = ids, texts

    def get(self, number: int) -> str | None:
        """The text of a string id, None where there is none."""
        place = int(np.searchsorted(self._ids, number))
        if place == len(self._ids) or self._ids[place] != number:
            return None
        text: bytes = self._texts[place].as_py()
        return text.decode("utf-8", "replace")


class StringPool:
    """Collects strings under provisional codes while tables are read, and numbers them for good at the end.

    Args:
        source: the source's own string table; only what is asked for enters the pool.
    """

    def __init__(self, source: SourceStrings) -> None:
        self._source = source
        self._index: dict[str, int] = {}
        self.values: list[str] = []

    def add(self, text: str) -> int:
        """The provisional code of a text."""
        code = self._index.setdefault(text, len(self.values))
        if code == len(self.values):
            self.values.append(text)
        return code

    def text_of(self, number: int) -> str | None:
        """The source's text of a string id, None where it lacks it. Nothing enters the pool."""
        return self._source.get(number)

    def codes(self, values: Sequence[str | int], used: Codes) -> Ints32:
        """Provisional codes of texts or string ids that the codes `used` refer to; -1 for the rest, and at the end.

        Index the result with `used`, whose -1 picks the last place.
        """
        seen = np.zeros(len(values) + 1, bool)
        seen[used] = True
        seen[-1] = False
        result = np.full(len(values) + 1, -1, np.int32)
        for place in np.flatnonzero(seen).tolist():
            value = values[place]
            text = self._source.get(value) if isinstance(value, int) else value
            if text is not None:
                result[place] = self.add(text)
        return result

    def numbers(self) -> Ints32:
        """The final number of each provisional code, with a last one of -1."""
        order = sorted(range(len(self.values)), key=lambda code: self.values[code].encode("utf-8", "surrogatepass"))
        numbers = np.full(len(order) + 1, -1, np.int32)
        numbers[np.array(order, np.int64)] = np.arange(len(order), dtype=np.int32)
        return numbers

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """The table `strings`, by final number."""
        texts = sorted(text.encode("utf-8", "surrogatepass") for text in self.values)
        safe = [text.decode("utf-8", "replace") for text in texts]
        return {"id": np.arange(len(safe), dtype=np.int32), "value": np.array(safe, object)}
