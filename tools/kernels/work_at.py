"""Which work ended, or started, at an instant: what stands at the borders of a gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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


def work_at(call: Call[Any], edge: Literal["start", "end"], borders: Sequence[Border]) -> dict[Border, WorkAt]:
    """The work that starts, or ends, exactly at each border; for the few that are shown.

    Of several, the first by kind (kernel, graph, copy, set), stream, and name or direction.
    """
    if not borders:
        return {}
    at = ", ".join(map(str, sorted({border.instant for border in borders})))
    rows = call.sql(
        " UNION ALL ".join(
            f"""SELECT {kind}, stream, {what}, thread, gpu, "{edge}" FROM {table}
            WHERE {call.on_devices} AND start < "end" AND "{edge}" IN (SELECT unnest([{at}]))"""
            for kind, table, what in _PARTS
        )
        + " ORDER BY ALL"
    )
    found: dict[Border, tuple[int, int | None, int | None]] = {}
    for kind, stream, what, thread, gpu, instant in rows:
        for border in (Border(gpu, None, instant), Border(gpu, stream, instant)):
            found.setdefault(border, (kind, what, thread))
    shown = {border: found[border] for border in borders if border in found}
    kernels = call.kernel_labels(what for kind, what, _ in shown.values() if kind == _KERNEL and what is not None)
    return {border: _described(kind, what, thread, kernels) for border, (kind, what, thread) in shown.items()}


def _described(kind: int, what: int | None, thread: int | None, kernels: Mapping[int, tuple[str, str]]) -> WorkAt:
    if kind == _KERNEL and what is not None:
        label, demangled = kernels[what]
        return WorkAt(label, thread, demangled)
    if kind == _COPY:
        return WorkAt(f"[memcpy {operation_of(what)}]", thread, None)
    return WorkAt("[graph]" if kind == _GRAPH else "[memset]", thread, None)
