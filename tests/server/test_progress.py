"""Progress reaches a client about twenty times at most and never goes back."""

from itertools import pairwise
from threading import Event

import anyio
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.server.progress import ProgressReports

Report = tuple[float, float | None, str | None]


def reported(shares: list[float]) -> list[float]:
    seen: list[Report] = []

    async def send(*report: object) -> None:
        seen.append(report)  # type: ignore[arg-type]

    async def main() -> None:
        reports = ProgressReports(send)

        def work() -> None:
            for share in shares:
                reports(share, "reading")

        await anyio.to_thread.run_sync(work)

    anyio.run(main)
    assert all(total == 1 and what == "reading" for _, total, what in seen)
    return [share for share, _, _ in seen]


@given(st.lists(st.floats(-1, 2), max_size=60))
def test_reports_rise_from_zero_to_one_in_few_steps(shares: list[float]) -> None:
    seen = reported(shares)
    assert all(earlier < later for earlier, later in pairwise(seen))
    assert all(0 <= share <= 1 for share in seen)
    assert len(seen) <= 22
    assert bool(seen) == bool(shares)


def test_a_thousand_steps_make_twenty_one_reports_and_the_last_is_the_end() -> None:
    seen = reported([step / 1000 for step in range(1001)])
    assert len(seen) in (20, 21, 22)
    assert (seen[0], seen[-1]) == (0, 1)


def test_a_client_that_has_gone_does_not_fail_the_work() -> None:
    tried: list[tuple[object, ...]] = []

    async def send(*report: object) -> None:
        tried.append(report)
        raise anyio.BrokenResourceError

    async def main() -> None:
        await anyio.to_thread.run_sync(ProgressReports(send), 0.5, "reading")

    anyio.run(main)
    assert len(tried) == 1


async def test_a_call_that_is_cancelled_while_it_reports_goes_on_to_see_its_interrupt() -> None:
    waiting, went_on = anyio.Event(), Event()

    async def send(*_: object) -> None:
        waiting.set()
        await anyio.sleep_forever()

    def work() -> None:
        ProgressReports(send)(0.5, "reading")
        went_on.set()

    async def call() -> None:
        await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await waiting.wait()
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(went_on.wait, 20)
