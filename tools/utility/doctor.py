"""Whether this place, or a capture, is in order."""

from __future__ import annotations

from collections import Counter

from ...contracts.columns import Row, column
from ...contracts.units import Count, Mb, Ms, Pct, Text
from ..call import Call
from ..registry import NoParams, skill
from ..result import Result
from .checks import Standing


class DoctorRow(Row):
    """One check."""

    check: Text = column("what was looked at")
    status: Text = column("ok, warn, fail or not recorded")
    value: Text | None = column("what was found, where it is no number, or what the number is of")
    count: Count | None = column("what was found, where it is a count")
    ms: Ms | None = column("what was found, where it is a time")
    pct: Pct | None = column("what was found, as a share", of="launched GPU work (clocks), capture window (overhead)")
    size_mb: Mb | None = column("what was found, where it is a size")
    note: Text | None = column("what follows from it, and what to do")


class DoctorTotals(Row):
    """All checks."""

    ok: Count = column("checks that are in order")
    warn: Count = column("checks that limit what can be said")
    fail: Count = column("checks that make numbers wrong, or the program useless")
    not_recorded: Count = column("checks of what the capture does not tell")


@skill(
    title="Doctor",
    when="To see whether a capture can carry the numbers asked of it; or, without a profile, whether this place can.",
    row=DoctorRow,
    totals=DoctorTotals,
    window="none",
    without_profile=True,
    max_rows=50,
    next=("profile_info",),
)
def doctor(call: Call[NoParams]) -> Result:
    """One row per check. With a profile the checks are of the capture, and the same on every machine: export, windows,
    clocks, GPUs, what was recorded, rows that cannot be true, what nsys lost, and the time that nsys took itself.
    Without one they are of this machine: libraries, nsys, cache.

    "not recorded" is unknown, not fine. The counts of nsys's messages are of those that the export has; lost events are
    told by the words of its warnings and errors (not all … collected, dropped, lost, missed, discarded, overflow).
    What this machine has changes, and so does that result; the checks of a capture do not.
    """
    from .capture_checks import capture_checks
    from .environment_checks import environment_checks

    checks = environment_checks(call) if call.opened is None else capture_checks(call)
    found = Counter(check.standing for check in checks)
    return Result(
        rows=call.page_of([check.row() for check in checks]),
        total_rows=len(checks),
        totals={
            "ok": found[Standing.OK],
            "warn": found[Standing.WARN],
            "fail": found[Standing.FAIL],
            "not_recorded": found[Standing.NOT_RECORDED],
        },
    )
