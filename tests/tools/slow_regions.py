"""GPU work by NVTX range name, by the slow and obvious method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from nsys_evidence.ingest.synthetic import Capture, Kernel, Range
from nsys_evidence.ingest.synthetic.truth import is_comm
from tests.strategies import Span, Work, call_of, containing_ranges, duration, ends, middle, shown_range


def order_of(r: Range) -> tuple[Any, ...]:
    return ends(r)[0], -ends(r)[1], r.domain, shown_range(r).encode()


def depths(capture: Capture) -> dict[int, int]:
    """By identity of the range: the earlier ranges of its thread and domain that end no earlier."""
    found = {}
    for r in capture.ranges:
        mine = [o for o in capture.ranges if (o.pid, o.tid, o.domain) == (r.pid, r.tid, r.domain)]
        mine.sort(key=order_of)
        place = next(number for number, o in enumerate(mine) if o is r)
        found[id(r)] = sum(ends(o)[1] >= ends(r)[1] for o in mine[:place])
    return found


def slow_regions(
    capture: Capture, window: Span, work: Sequence[Work], depth: int | None = None
) -> tuple[dict[str, tuple[object, ...]], dict[str, object]]:
    """Rows by region without its name and the top kernel, and totals, for the work of the selected devices."""
    stacks = {id(w): sorted(containing_ranges(capture, call_of(capture, w)), key=order_of) for w in work}
    deep = depths(capture)
    by_range = {id(r): [w for w in work if any(o is r for o in stacks[id(w)])] for r in capture.ranges}
    instances: dict[str, list[tuple[Range, Span]]] = defaultdict(list)
    for r in capture.ranges:
        if by_range[id(r)] and depth in (None, deep[id(r)]):
            times = [ends(w) for w in by_range[id(r)]]
            projection = Span(min(start for start, _ in times), max(end for _, end in times))
            if window.has(projection) or any(window.has(w) for w in by_range[id(r)]):
                instances[shown_range(r)].append((r, projection))
    kernels = [w for w in work if isinstance(w, Kernel) and window.has(w)]
    whole = sum(window.part(k) for k in kernels)
    rows, covered = {}, set()
    for name, these in instances.items():
        mine = {id(r) for r, _ in these}
        inside = [k for k in kernels for r, _ in these if any(k is w for w in by_range[id(r)])]
        covered |= {id(k) for k in inside}
        spans = [span.end - span.start for _, span in these]
        med = middle(spans)
        spread = middle(abs(span - med) for span in spans)  # type: ignore[misc]
        once = {id(k): k for k in inside}.values()
        rows[name] = (
            min(deep[id(r)] for r, _ in these),
            len(these),
            sum(window.has(w) for r, _ in these for w in by_range[id(r)]),
            sum(window.part(span) for _, span in these),
            sum(duration(r) for r, _ in these),
            sum(window.part(k) for k in inside),
            sum(window.part(k) for k in kernels if stacks[id(k)] and id(stacks[id(k)][-1]) in mine),
            Fraction(sum(window.part(k) for k in once), whole) if whole else None,
            sum(window.part(k) for k in inside if not is_comm(k)),
            sum(window.part(k) for k in inside if is_comm(k)),
            med,
            max(spans) > med + 3 * spread and max(spans) > med * Fraction(11, 10),
        )
    part = sum(window.part(k) for k in kernels if id(k) in covered)
    totals: dict[str, object] = {
        "regions": len(rows),
        "depth": depth,
        "instances": sum(len(these) for these in instances.values()),
        "kernel_ms": whole,
        "covered_pct": Fraction(part, whole) if whole else None,
        "clipped": sum(
            span.start < window.start or span.end > window.end for these in instances.values() for _, span in these
        ),
    }
    return rows, totals


def top_kernels(capture: Capture, window: Span, region: str, depth: int | None) -> set[str]:
    """The kernels that may be shown as the one with most time in a region: several of equal time."""
    deep, time = depths(capture), defaultdict(int)
    for k in capture.kernels:
        stack = containing_ranges(capture, call_of(capture, k))
        if window.has(k) and any(shown_range(r) == region and depth in (None, deep[id(r)]) for r in stack):
            time[k.name] += window.part(k)
    return {name for name in time if time[name] == max(time.values())}
