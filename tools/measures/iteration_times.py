"""How long iterations last and what the devices did in them, all iterations at once. Times in ns.

Loaded by skills when they run, not when they are registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ...contracts.units import sample_stddev
from ..call import Call
from .busy import comm_known, compute_known
from .durations import percentile
from .intervals import Cover
from .iterations import Iterations

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IterationTimes:
    """The iterations that start in the window; an entry each. Busy times are sums over the selected devices.

    Attributes:
        number: which iterations.
        start: where each begins.
        wall: how long each lasts.
        busy: time with any GPU work; None without GPU work in the capture. So are the next two, and `idle`.
        compute: time with a kernel that is no collective.
        comm: time with a collective.
        kernels: kernels that overlap the iteration; None where none were recorded.
    """

    number: Ints
    start: Ints
    wall: Ints
    busy: Ints | None
    compute: Ints | None
    comm: Ints | None
    idle: Ints | None
    kernels: Ints | None

    @property
    def median(self) -> Fraction | None:
        """The median of `wall`."""
        return percentile(np.sort(self.wall), 50)

    @property
    def p95(self) -> Fraction | None:
        """The 95th percentile of `wall`."""
        return percentile(np.sort(self.wall), 95)

    @property
    def variation(self) -> Fraction | None:
        """The sample standard deviation of `wall` over its mean; None of fewer than two, or of no length."""
        values = self.wall.tolist()
        deviation = sample_stddev(len(values), sum(values), sum(value * value for value in values))
        return None if deviation is None or not sum(values) else deviation * len(values) / sum(values)

    @property
    def slowest(self) -> int | None:
        """The number of the longest, of equal ones the first."""
        return int(self.number[self.wall.argmax()]) if len(self.wall) else None

    @property
    def typical(self) -> int:
        """The place of the iteration that lasts as long as the median, or next below it; of equal ones the first."""
        order = np.lexsort((self.number, self.wall))
        return int(order[(len(order) - 1) // 2])


def iteration_times(call: Call[Any], iterations: Iterations) -> IterationTimes:
    """The times of the iterations that start in the window."""
    start, end = iterations.windows.bounds
    window = call.window
    number = np.flatnonzero((start >= window.start_ns) & (start < window.end_ns + window.includes_end))
    start, end = start[number], end[number]
    covered: dict[str, Ints | None] = {"work": None, "compute": None, "comm": None}
    known = {"work": bool(call.profile.devices), "compute": compute_known(call), "comm": comm_known(call)}
    busy = call.arrays(f'SELECT gpu, kind, start, "end" FROM busy WHERE {call.on_devices}')
    for kind in (kind for kind, recorded in known.items() if recorded):
        of_kind = busy["kind"] == kind
        total = np.zeros(len(start), np.int64)
        for device in call.devices:
            mine = of_kind & (busy["gpu"] == device.gpu)
            total += Cover(busy["start"][mine], busy["end"][mine]).within(start, end)
        covered[kind] = total
    work = covered["work"]
    return IterationTimes(
        number=number,
        start=start,
        wall=end - start,
        busy=work,
        compute=covered["compute"],
        comm=covered["comm"],
        idle=None if work is None else (end - start) * len(call.devices) - work,
        kernels=_kernels(call, start, end) if call.profile.recorded("kernels") else None,
    )


def _kernels(call: Call[Any], start: Ints, end: Ints) -> Ints:
    """How many kernels overlap each stretch [start, end): those that begin before it ends, but for those ended."""
    kernels = call.arrays(f'SELECT start, "end" FROM kernels WHERE {call.on_devices}')
    begun = np.searchsorted(kernels["start"], end, side="left")
    lasting = kernels["start"] < kernels["end"]
    ended = np.searchsorted(np.sort(kernels["end"][lasting]), start, side="right")
    instants = kernels["start"][~lasting]
    return begun - ended - np.searchsorted(instants, start, side="left")
