"""NCCL calls: the push/pop ranges of NCCL that have a payload, with what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .numbering import Table
from .payloads import COLUMNS, NO_PAYLOAD, UNDECODED, Payloads
from .ranges import ThreadRanges
from .reader import Ints

_OPERATION = re.compile(r"(?:.*:)?p?nccl([A-Z]\w*)")
_SPELLED = {"AlltoAll": "AllToAll", "AllToAllv": "AllToAllv", "Bcast": "Broadcast"}


def operation_of(name: str) -> str | None:
    """What a range of NCCL does, by its name: `AllReduce` of `NCCL:ncclAllReduce`; None for a range of others."""
    found = _OPERATION.fullmatch(name)
    return _SPELLED.get(found[1], found[1]) if found else None


class NcclCalls:
    """Gathers the rows of the table `nccl_calls`, thread by thread.

    Attributes:
        undecoded: how many ranges of NCCL have a payload that cannot be decoded, once the table is made.
    """

    def __init__(self) -> None:
        self.undecoded = 0
        self._parts: list[dict[str, npt.NDArray[np.integer]]] = []

    def add(self, ranges: ThreadRanges) -> None:
        """Take the ranges of a thread that have a payload."""
        if ranges.payload is None:
            return
        places = np.flatnonzero(ranges.payload != NO_PAYLOAD)
        self._parts.append(
            {
                "start": ranges.start[places],
                "end": ranges.end[places],
                "thread": np.full(len(places), ranges.thread, np.int32),
                "name": ranges.name[places],
                "range": (places + ranges.first).astype(np.int32),
                "payload": ranges.payload[places],
            }
        )

    def table(self, payloads: Payloads | None, texts: Mapping[int, str]) -> Table:
        """The table, unsorted; `texts` are those of final string numbers. Ranges whose name is not NCCL's are left out.

        `operation` is a text; every other column is an integer.
        """
        kinds = {"start": np.int64, "end": np.int64} | dict.fromkeys(("thread", "name", "range", "payload"), np.int32)
        whole = {
            column: np.concatenate([np.empty(0, kind), *(part[column] for part in self._parts)])
            for column, kind in kinds.items()
        }
        names, which = np.unique(whole["name"], return_inverse=True)
        operations = np.array([operation_of(texts[name]) for name in names.tolist()], object)
        of_nccl = np.array([operation is not None for operation in operations], bool)[which]
        self.undecoded = int((of_nccl & (whole["payload"] == UNDECODED)).sum())
        kept = np.flatnonzero(of_nccl & (whole["payload"] >= 0))
        payload = whole.pop("payload")[kept]
        table: Table = {column: values[kept] for column, values in whole.items()}
        table["operation"] = operations[which[kept]]
        for column in COLUMNS:
            values = payloads.columns[column][payload] if payloads else np.empty(0, np.int64)
            table[column] = values if column in _WIDE else _narrow(values)
        return table


_WIDE = ("communicator", "bytes")


def _narrow(values: Ints) -> npt.NDArray[np.int32]:
    """Ranks and the like: -1 where there is none, as NCCL too writes no rank."""
    return np.where((values >= 0) & (values < 2**31), values, -1).astype(np.int32)
