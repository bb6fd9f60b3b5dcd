from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, Kernel, demo_capture
from nsys_evidence.ingest.synthetic.truth import is_comm
from tests.strategies import Span, generated, ms
from tests.support import CAPTURES, SHARED, ask, needs_shared, rows_of, written
from tests.tools.slow_busy import slow_parts
from tests.tools.slow_iterations import slow_choice, with_steps

US = 1_000


def time_by_name(capture: Capture, span: Span) -> dict[str, int]:
    found: dict[str, int] = {}
    for k in capture.kernels:
        if span.has(k):
            found[k.name] = found.get(k.name, 0) + span.part(k)
    return found


@generated
@given(st.data())
def test_every_figure_is_that_of_looking_at_both_steps_alone(data: st.DataObject) -> None:
    capture = data.draw(with_steps().filter(lambda found: bool(found.kernels) and slow_choice(found) is not None))
    chosen = slow_choice(capture)
    assert chosen is not None
    windows = chosen[3]
    number = data.draw(st.integers(0, len(windows) - 1))
    order = sorted(range(len(windows)), key=lambda n: (windows[n][1] - windows[n][0], n))
    typical = order[(len(order) - 1) // 2]
    this, median = Span(*windows[number]), Span(*windows[typical])
    envelope = ask("iteration_detail", written(capture), iteration=number, max_rows=50)
    [row] = rows_of(envelope)
    walls = [end - start for start, end in windows]
    assert (row["iteration"], row["median_iteration"], row["iterations"]) == (number, typical, len(windows))
    assert (row["wall_ms"], row["median_wall_ms"]) == (ms(walls[number]), ms(walls[typical]))
    assert row["rank"] == sum(wall > walls[number] for wall in walls) + 1
    for measure in rows_of(envelope, "summary"):
        name = {"exposed_comm": "exposed"}.get(measure["measure"], measure["measure"])
        sides = [sum(getattr(part, name) for part in slow_parts(capture, span).values()) for span in (this, median)]
        assert [measure[key] for key in ("this_ms", "median_ms", "change_ms")] == [
            *map(ms, sides),
            ms(sides[0] - sides[1]),
        ]
    times, others = time_by_name(capture, this), time_by_name(capture, median)
    changes = {name: times.get(name, 0) - others.get(name, 0) for name in {*times, *others}}
    gained, lost = rows_of(envelope, "gained"), rows_of(envelope, "lost")
    assert [r["change_ms"] for r in gained] == [
        ms(c) for c in sorted((c for c in changes.values() if c > 0), reverse=True)
    ]
    assert [r["change_ms"] for r in lost] == [ms(c) for c in sorted(c for c in changes.values() if c < 0)]
    assert envelope["totals"]["kernels_changed"] == len(gained) + len(lost)
    collectives = [k for k in capture.kernels if is_comm(k)]
    if any(span.has(k) for k in collectives for span in (this, median)):
        [comm] = rows_of(envelope, "comm")
        assert comm["this_ms"] == ms(sum(this.part(k) for k in collectives))
        assert comm["median_instances"] == sum(median.has(k) for k in collectives)
    else:
        assert rows_of(envelope, "comm") == []


def test_the_kernel_that_made_a_step_slow_stands_first_among_those_that_gained() -> None:
    kernels = [
        Kernel((100 * n + 20 * part) * US, (100 * n + 20 * part + 10) * US, 0, 1, 7, None, 101, f"k{part}")
        for n in range(5)
        for part in range(4)
    ]
    kernels[9] = Kernel(kernels[9].start, kernels[9].start + 18 * US, 0, 1, 7, None, 101, "k1")
    envelope = ask("iteration_detail", written(Capture(kernels)), iteration=2)
    [gained] = rows_of(envelope, "gained")
    assert (gained["kernel"], gained["change_ms"], gained["this_ms"], gained["median_ms"]) == ("k1", 0.008, 0.018, 0.01)
    assert rows_of(envelope, "lost") == []
    assert [row["gap_us"] for row in rows_of(envelope, "idle")] == [30.0, 10.0, 10.0, 2.0]


def test_the_median_step_compared_with_itself_changes_nothing_and_says_so() -> None:
    path = written(demo_capture()[0])
    [row] = rows_of(ask("iteration_detail", path, iteration=0))
    envelope = ask("iteration_detail", path, iteration=row["median_iteration"])
    assert envelope["totals"] == {"change_ms": 0.0, "kernels_changed": 0}
    assert "the step asked about is the median step itself" in envelope["notes"]


@needs_shared
def test_the_slowest_layer_of_a_real_capture_beside_the_median_one() -> None:
    """Layers 8 and 4 of 24 in the FSDP capture, over two GPUs.

    By hand, from the event tables with sqlite3: in [start, start + wall) of both, the union of kernels, copies and sets
    less the union of kernels is 56,846,079 ns and 56,825,343 ns.
    """
    envelope = ask("iteration_detail", SHARED / "captures" / "h100x2_fsdp_2026.2.sqlite", iteration=8)
    [row] = rows_of(envelope)
    assert (row["rank"], row["iterations"], row["median_iteration"]) == (1, 24, 4)
    assert (row["wall_ms"], row["median_wall_ms"], envelope["totals"]["change_ms"]) == (29.376, 29.341, 0.035)
    summary = {r["measure"]: (r["this_ms"], r["median_ms"], r["change_ms"]) for r in rows_of(envelope, "summary")}
    assert summary["copy_only"] == (56.846, 56.825, 0.021)
    assert summary["comm"] == (0.0, 0.0, 0.0)  # the layers lie in a stretch without collectives
    parts = [summary[name][2] for name in ("compute", "exposed_comm", "copy_only", "idle")]
    assert sum(parts) == pytest.approx(summary["span"][2], abs=0.003)


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_its_sums_are_those_that_overlap_breakdown_gives_for_the_same_step(capture: Path) -> None:
    envelope = ask("iteration_detail", capture, iteration=0)
    if envelope["status"] == "abstained":
        return
    other = ask("overlap_breakdown", capture, iteration=0)
    if other["status"] == "abstained":
        return
    for row in rows_of(envelope, "summary"):
        assert row["this_ms"] == other["totals"][f"{row['measure']}_ms"]


def test_a_step_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("iteration_detail", written(demo_capture()[0]), iteration=99)
    assert refused.value.code is ErrorCode.ITERATION_OUT_OF_RANGE
    assert refused.value.facts["last"] == 7


def test_a_step_must_be_named() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("iteration_detail", written(demo_capture()[0]))
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert "iteration" in refused.value.message


def test_one_device_alone_can_be_asked_about() -> None:
    path = written(demo_capture()[0])
    one, other, both = (
        ask("iteration_detail", path, iteration=3, **scope)  # type: ignore[arg-type]
        for scope in ({"device": 0}, {"device": 1}, {})
    )
    for first, second, whole in zip(*(rows_of(e, "summary") for e in (one, other, both)), strict=True):
        assert first["this_ms"] + second["this_ms"] == pytest.approx(whole["this_ms"], abs=0.0011)
    with pytest.raises(EvidenceError) as refused:
        ask("iteration_detail", path, iteration=3, device=7)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND


def test_a_capture_without_steps_has_no_iteration_to_look_at() -> None:
    alone = Capture([Kernel(0, 10, 0, 1, 7, None, 101, "scale")])
    envelope = ask("iteration_detail", written(alone), iteration=0)
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["iterations"])
    assert "range_push" in envelope["capture_hint"]


def test_walls_are_those_of_iteration_timing() -> None:
    path = written(demo_capture()[0])
    for timing in rows_of(ask("iteration_timing", path)):
        [row] = rows_of(ask("iteration_detail", path, iteration=timing["iteration"]))
        assert (row["wall_ms"], row["start_s"]) == (timing["wall_ms"], timing["start_s"])
