"""Which work ended, or started, at an instant: what stands at the borders of a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..call import Call
from ..memory.operations import operation_of

_KERNEL, _GRAPH, _COPY, _SET = range(4)
"""Of several kinds of work at one instant the first is shown."""

_PARTS = (
    (_KERNEL, "kernels", "name"),
    (_GRAPH, "graphs", "NULL::INTEGER"),
    (_COPY, "copies", "kind"),
    (_SET, "sets", "NULL::INTEGER"),
)


@dataclass(frozen=True, slots=True)
class Border:
    """Where to look: an instant on a device, and on one stream of it or on any."""

    gpu: int
    stream: int | None
    instant: int


@dataclass(frozen=True, slots=True)
class WorkAt:
    """The work found.

    Attributes:
        label: the kernel's label, or "[memcpy h2d]", "[memset]", "[graph]" and their like.
        thread: the thread that launched it; None where its call was not recorded.
        kernel: the kernel's full demangled name; None for other work.
    """

    label: str
    thread: int | None
    kernel: str | None


def work_at(
    call: Call[Any], ended: Sequence[Border], started: Sequence[Border]
) -> tuple[dict[Border, WorkAt], dict[Border, WorkAt]]:
    """The work that ends exactly at each of some borders, and the work that starts at others; for the few shown.

    Of several, the first by kind (kernel, graph, copy, set), stream, and name or direction.
    """
    if not (ended or started):  # where something ends or starts there is work: some table has rows
        return {}, {}
    rows = call.sql(
        f"WITH ends AS ({_instants(ended)}), starts AS ({_instants(started)}) "
        + " UNION ALL ".join(
            f"""SELECT {kind}, stream, {what}, thread, gpu, start, "end" FROM {table}
            WHERE {call.on_devices} AND start < "end" AND ("end" IN (FROM ends) OR start IN (FROM starts))"""
            for kind, table, what in _PARTS
            if call.profile.manifest.rows[table]
        )
        + " ORDER BY ALL"
    )
    at_end: dict[Border, tuple[int, int | None, int | None]] = {}
    at_start: dict[Border, tuple[int, int | None, int | None]] = {}
    for kind, stream, what, thread, gpu, start, end in rows:
        for found, instant in ((at_end, end), (at_start, start)):
            for border in (Border(gpu, None, instant), Border(gpu, stream, instant)):
                found.setdefault(border, (kind, what, thread))
    shown = [at_end[border] for border in ended if border in at_end]
    shown += [at_start[border] for border in started if border in at_start]
    kernels = call.kernel_labels(what for kind, what, _ in shown if kind == _KERNEL and what is not None)
    return (
        {border: _described(*at_end[border], kernels) for border in ended if border in at_end},
        {border: _described(*at_start[border], kernels) for border in started if border in at_start},
    )


def _instants(borders: Sequence[Border]) -> str:
    return f"SELECT unnest([{', '.join(map(str, sorted({border.instant for border in borders})))}]::BIGINT[])"


def _described(kind: int, what: int | None, thread: int | None, kernels: Mapping[int, tuple[str, str]]) -> WorkAt:
    if kind == _KERNEL and what is not None:
        label, demangled = kernels[what]
        return WorkAt(label, thread, demangled)
    if kind == _COPY:
        return WorkAt(f"[memcpy {operation_of(what)}]", thread, None)
    return WorkAt("[graph]" if kind == _GRAPH else "[memset]", thread, None)
