"""Windows: the part of a capture that a call looks at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open stretch of the capture clock, [start_ns, end_ns), in integer nanoseconds.

    The capture window and the GPU window, and any window that reaches the end of the capture, include their end, so
    that an event of no length at the very end is not lost. Numerators and denominators of every figure come from one
    Window.

    Attributes:
        start_ns: first nanosecond of the window.
        end_ns: first nanosecond after the window (the last one in it, when `includes_end`).
        by: how the window was chosen, shown to the reader: "gpu window", "capture window", "trim", "iteration 3 of …".
        includes_end: whether an event of no length at `end_ns` is in the window.
    """

    start_ns: int
    end_ns: int
    by: str
    includes_end: bool = False

    @property
    def span_ns(self) -> int:
        """Length of the window: the denominator of every share of time."""
        return self.end_ns - self.start_ns

    def contains(self, instant_ns: int) -> bool:
        """Whether something that happens at this instant is in the window: start ≤ instant < end."""
        return self.start_ns <= instant_ns < self.end_ns or (self.includes_end and instant_ns == self.end_ns)

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Whether an event is in the window: it overlaps it; one of no length, when its instant is contained."""
        if start_ns == end_ns:
            return self.contains(start_ns)
        return start_ns < self.end_ns and end_ns > self.start_ns

    def clip(self, start_ns: int, end_ns: int) -> int:
        """The part of an event's duration that lies in the window."""
        return max(0, min(end_ns, self.end_ns) - max(start_ns, self.start_ns))

    def crosses(self, start_ns: int, end_ns: int) -> bool:
        """Whether the event is in the window and crosses one of its edges."""
        return self.overlaps(start_ns, end_ns) and (start_ns < self.start_ns or end_ns > self.end_ns)
