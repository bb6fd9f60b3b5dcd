"""Which kinds of GPU work run at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...contracts.columns import Row, column
from ...contracts.envelope import MAX_ROWS, Status
from ...contracts.units import Count, Id, Ms, Pct, Text, ratio
from ..call import Call
from ..measures.busy import basis_notes
from ..measures.graphs import hidden_in_busy
from ..memory.operations import OPERATIONS, OTHER, SET
from ..registry import NoParams, skill
from ..result import Result, Table
from .collectives import BY_NAME, collectives, numbered_sql

if TYPE_CHECKING:  # the registry is read before the first call: it must not load numpy
    from ...ingest.busy import Intervals

COMPUTE, MANAGED = "compute", "managed"

COPY_CATEGORIES = ("h2d", "d2h", "d2d", "h2h", "p2p", MANAGED, OTHER)


class KernelOverlapMatrixRow(Row):
    """Two categories that run at the same time on a device, or one with itself."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    a: Text = column("category: compute, a collective by name, h2d, d2h, d2d, h2h, p2p, managed, other or set")
    b: Text = column("category: a later one in this order, or the same as a")
    overlap_ms: Ms = column("time with both; where a and b are the same, time with two or more of it")
    pct_of_a: Pct | None = column("overlap", of="busy time of a on the device")
    pct_of_b: Pct | None = column("overlap", of="busy time of b on the device")


class KernelOverlapMatrixTotals(Row):
    """All pairs of categories that ran on one device, each with itself too."""

    devices: Count = column("selected devices")
    pairs: Count = column("pairs with some overlap: the rows")
    pairs_without_overlap: Count = column("pairs of categories with time on the same device that have none: no rows")


class CategoryRow(Row):
    """One category on one device."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    category: Text = column("as in a and b")
    busy_ms: Ms = column("time with work of this category: the denominator of pct_of_a and pct_of_b")
    alone_ms: Ms = column("time with work of this category and of no other")


@skill(
    title="Overlap matrix",
    when="To see which kinds of GPU work (compute, each collective, each kind of copy) run at the same time.",
    row=KernelOverlapMatrixRow,
    totals=KernelOverlapMatrixTotals,
    tables={"categories": CategoryRow},
    needs=("kernels",),
    next=("overlap_breakdown", "nccl_breakdown", "stream_concurrency"),
)
def kernel_overlap_matrix(call: Call[NoParams]) -> Result:
    """One row per device and pair of categories, largest overlap first; pairs without overlap have no row.

    Times are lengths of unions within the window, so that rows of different pairs may cover the same time and do not
    add up. A row of a category with itself is the time in which two or more of its kernels or copies run. compute is
    every kernel that is no collective by its name, and a CUDA graph traced as a whole; managed are migrations of
    unified memory, other are copies of unknown direction and those from or to arrays. Work that ends where other work
    starts does not overlap it. Table categories has the time of every category, alone or not.
    """
    holes = hidden_in_busy(call)
    overlaps: list[tuple[int, int, int, int]] = []  # overlap, gpu, a, b
    busy: dict[tuple[int, int], tuple[int, int]] = {}  # by gpu and category: busy and alone
    without = 0
    numbers = _collective_numbers(call)
    names = _categories(numbers)
    for device in call.devices:
        gpu = device.gpu
        pairs, lengths = _device(_work(call, gpu, numbers))
        busy.update({(gpu, category): of for category, of in lengths.items()})
        overlaps += [(overlap, gpu, a, b) for (a, b), overlap in pairs.items() if overlap]
        without += sum(not overlap for overlap in pairs.values())
    overlaps.sort(key=lambda row: (-row[0], *row[1:]))
    rows = [
        (*call.device_of(gpu), names[a], names[b], time, ratio(time, busy[gpu, a][0]), ratio(time, busy[gpu, b][0]))
        for time, gpu, a, b in overlaps
    ]
    categories = [(*call.device_of(gpu), names[category], *of) for (gpu, category), of in sorted(busy.items())]
    notes = [*holes, *basis_notes(call)]
    notes += [BY_NAME] if any(names[category] in numbers for _, category in busy) else []
    notes += [
        f"memory {kind} not recorded: none happened, or they were not traced"
        for kind in ("copies", "sets")
        if not call.profile.recorded(kind)
    ]
    if not rows:
        notes.append("nothing overlaps: at no time did two of the kernels, copies and sets in scope run at once")
    return Result(
        rows=call.page_of(rows),
        total_rows=len(rows),
        totals={"devices": len(call.devices), "pairs": len(rows), "pairs_without_overlap": without},
        tables={"categories": Table(categories[:MAX_ROWS], len(categories))},
        notes=notes,
        status=Status.PARTIAL if holes else Status.OK if rows else Status.EMPTY,
    )


def _collective_numbers(call: Call[NoParams]) -> dict[str, int]:
    """The category of each collective of the capture: they come after compute, by name."""
    names = sorted({found.name for found in collectives(call).values()})
    return {name: number for number, name in enumerate(names, start=1)}


def _categories(numbers: Mapping[str, int]) -> list[str]:
    """The names of the categories, in their order."""
    return [COMPUTE, *numbers, *COPY_CATEGORIES, SET]


def _work(call: Call[NoParams], gpu: int, numbers: Mapping[str, int]) -> dict[int, Intervals]:
    """All work of a device in the window, clipped to it, by category; each in the order of starts."""
    import numpy as np  # here, since registering the skill must not load it

    names = _categories(numbers)
    of_kernel = {name: numbers[found.name] for name, found in collectives(call).items()}
    category = "coalesce(number, 0)" if of_kernel else "0"
    joined = f"LEFT JOIN {numbered_sql(of_kernel)} USING (name)" if of_kernel else ""
    kinds = {kind: MANAGED if word.startswith("um_") else word for kind, word in OPERATIONS.items()}
    of_copy = " ".join(f"WHEN {kind} THEN {names.index(word)}" for kind, word in kinds.items())
    where = f"WHERE gpu = {gpu} AND {call.in_window}"
    events = call.arrays(
        f"""SELECT category::INTEGER AS category, start, "end" FROM (
            SELECT {category} AS category, start, "end" FROM kernels {joined} {where}
            UNION ALL SELECT 0, start, "end" FROM graphs {where}
            UNION ALL SELECT CASE kind {of_copy} ELSE {names.index(OTHER)} END, start, "end" FROM copies {where}
            UNION ALL SELECT {names.index(SET)}, start, "end" FROM sets {where}
        )"""
    )
    start = np.maximum(events["start"], call.window.start_ns)
    end = np.minimum(events["end"], call.window.end_ns)
    order = np.lexsort((start, events["category"]))
    found, heads = np.unique(events["category"][order], return_index=True)
    groups = np.split(order, heads[1:])
    return {number: (start[mine], end[mine]) for number, mine in zip(found.tolist(), groups, strict=False)}


def _device(work: Mapping[int, Intervals]) -> tuple[dict[tuple[int, int], int], dict[int, tuple[int, int]]]:
    """The overlap of each pair of categories that have time, a before b, and the busy and alone time of each. In ns."""
    import numpy as np

    from ...ingest.busy import common, merged, overlapping

    unions = {number: merged(*events) for number, events in work.items()}
    unions = {number: union for number, union in unions.items() if len(union[0])}
    pairs = {}
    for a in unions:
        start, end, _ = overlapping(*work[a])
        pairs[a, a] = int((end - start).sum())
        pairs.update({(a, b): _length(common(unions[a], unions[b])) for b in unions if a < b})
    busy = {}
    if unions:
        start, end, _ = overlapping(*(np.concatenate(edges) for edges in zip(*unions.values(), strict=True)))
        shared = merged(start, end)
        busy = {
            number: (_length(union), _length(union) - _length(common(union, shared)))
            for number, union in unions.items()
        }
    return pairs, busy


def _length(union: Intervals) -> int:
    return int((union[1] - union[0]).sum())
