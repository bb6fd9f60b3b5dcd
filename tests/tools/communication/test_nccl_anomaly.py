from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Layout, NcclPayload, Range
from nsys_evidence.tools.thresholds.communication import ANOMALY_GROUP
from tests.oracle import exact, exact_rows
from tests.strategies import Span, device_key, duration, ends, generated, innermost_names, middle, stream_label
from tests.strategies import call_of as launch_of
from tests.support import SHARED, ask, needs_shared, rows_of, written
from tests.tools.communication.collective_captures import NAMES, some_window, with_collectives
from tests.tools.slow_busy import as_window

US = 1_000
ALL_REDUCE, TREE, _, REDUCE_SCATTER, SEND = NAMES


def kernel(start: int, length: int, name: str = ALL_REDUCE, device: int = 0, correlation: int | None = None) -> Kernel:
    return Kernel(start * US, (start + length) * US, device, 1, 7, correlation, 101, name)


def row_of(lengths: list[int], name: str = ALL_REDUCE, device: int = 0) -> list[Kernel]:
    """One collective after the other, 100 µs apart."""
    return [kernel(1 + 100 * place, length, name, device) for place, length in enumerate(lengths)]


# Against the slow and obvious method.


@st.composite
def many_collectives(draw: st.DrawFn) -> Capture:
    """A generated capture with enough collectives of a kind for groups of any size, and tied medians and durations."""
    capture = draw(with_collectives())
    first = min(k.start for k in capture.kernels if k.start is not None)
    launches = st.tuples(
        st.integers(0, 40), st.sampled_from((0, 1, 2, 3, 6, 7, 30)), st.sampled_from([ALL_REDUCE, TREE, SEND])
    )
    where = capture.kernels[0]
    for start, length, name in draw(st.lists(launches, min_size=4, max_size=20)):
        begin, end = first + start, first + start + length
        capture.kernels.append(Kernel(begin, end, where.device, where.context, 40, None, where.pid, name))
    return capture


def size_of(capture: Capture, kernel: Kernel) -> int | None:
    """The message size of the innermost call with a payload around the launch of a kernel."""
    launch = launch_of(capture, kernel)
    sized = [r for r in capture.ranges if isinstance(r.payload, NcclPayload) and r.payload.bytes is not None]
    around = [r for r in sized if launch is not None and contains(r, launch)]
    if not around:
        return None
    [payload] = {r.payload for r in around}
    assert isinstance(payload, NcclPayload)
    return payload.bytes


def contains(range_: Range, launch: Call) -> bool:
    """Whether a range of its thread contains the call."""
    start, end = ends(range_)
    same = (range_.pid, range_.tid) == (launch.pid, launch.tid)
    return same and start <= ends(launch)[0] and ends(launch)[1] <= end


def slow_rows(capture: Capture, window: Span, threshold: Fraction) -> list[dict[str, object]]:
    groups: dict[tuple[object, ...], list[Kernel]] = {}
    for k in capture.kernels:
        if k.name in NAMES and window.has(k):
            groups.setdefault((*device_key(capture, k), NAMES[k.name][0], size_of(capture, k)), []).append(k)
    rows = []
    for (device, process, collective, size), members in groups.items():
        median = middle(map(duration, members))
        for k in members if len(members) >= 5 and median else []:
            if duration(k) > threshold * median:
                ranges = innermost_names(capture, launch_of(capture, k))
                rows.append(
                    {
                        "collective": collective,
                        "device": device,
                        "process": process,
                        "stream": stream_label(capture, k),
                        "start_ns": k.start,
                        "duration_us": duration(k),
                        "times_median": duration(k) / median,
                        "group_size": len(members),
                        "bytes": size,
                        "nvtx": sorted(ranges),
                    }
                )
    return rows


def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: str(sorted(row.items(), key=str)))


@generated
@given(st.data())
def test_the_slow_ones_of_every_group_are_those_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(many_collectives())
    path, window = written(capture), some_window(data, capture)
    threshold = data.draw(st.sampled_from((1, 1.5, 2.0, 3.0)))
    rows = exact_rows("nccl_anomaly", path, as_window(window), threshold=threshold)
    expected = slow_rows(capture, window, Fraction(threshold))
    of_rows = [{**row, "nvtx": None} for row in rows]
    assert in_order(of_rows) == in_order([{**row, "nvtx": None} for row in expected])
    keys = [(-row["times_median"], -row["duration_us"], row["start_ns"]) for row in rows]
    assert keys == sorted(keys)
    for row in rows:
        same = [e for e in expected if all(e[name] == row[name] for name in row if name != "nvtx")]
        names = {name for e in same for name in e["nvtx"] or [None]}  # type: ignore[attr-defined]
        assert row["nvtx"] in names


@generated
@given(st.data())
def test_totals_cover_all_collectives_and_a_page_is_a_part_of_the_rows(data: st.DataObject) -> None:
    capture = data.draw(many_collectives())
    path = written(capture)
    window = some_window(data, capture)
    totals, rows = exact("nccl_anomaly", path, as_window(window), threshold=1).totals, slow_rows(capture, window, 1)  # type: ignore[arg-type]
    assert totals["anomalies"] == len(rows)
    assert totals["collectives"] == sum(k.name in NAMES and window.has(k) for k in capture.kernels)
    medians = [Fraction(row["duration_us"], row["times_median"]) for row in rows]  # type: ignore[arg-type]
    assert totals["excess_ms"] == sum(row["duration_us"] for row in rows) - sum(medians)  # type: ignore[misc]
    whole = ask("nccl_anomaly", path, threshold=1, max_rows=200)
    page = ask("nccl_anomaly", path, threshold=1, max_rows=2, offset=1)
    assert page["rows"] == whole["rows"][1:3]
    assert page["totals"] == whole["totals"]


@st.composite
def with_payloads(draw: st.DrawFn) -> Capture:
    """Collectives of one device, most of them launched in calls of NCCL of two sizes, in a range of the caller's."""
    capture = Capture([])
    for place in range(draw(st.integers(5, 16))):
        start, correlation = 1_000 * place + 100, place + 1
        if size := draw(st.sampled_from((None, 1024, 1024, 2**40))):
            payload = NcclPayload(7, size)
            capture.ranges.append(Range(start, start + 50, 101, 101, "ncclAllReduce", 1, payload=payload))
        if draw(st.booleans()):
            capture.ranges.append(Range(start - 10, start + 60, 101, 101, "step"))
        if draw(st.booleans()):
            capture.ranges.append(Range(start + 5, start + 40, 101, 101, "inside"))
        if draw(st.integers(0, 5)):
            capture.calls.append(Call(start + 10, start + 20, 101, 101, "cuLaunchKernelEx", correlation))
        length = draw(st.sampled_from((0, 1, 2, 3, 10, 40)))
        name = draw(st.sampled_from((ALL_REDUCE, ALL_REDUCE, TREE, "scale")))
        capture.kernels.append(Kernel(start + 30, start + 30 + length, 0, 1, 7, correlation, 101, name))
    return capture


@generated
@given(st.data())
def test_where_payloads_tell_the_size_a_group_has_one(data: st.DataObject) -> None:
    capture = data.draw(with_payloads().filter(lambda found: any(k.name in NAMES for k in found.kernels)))
    path, window = written(capture), some_window(data, capture)
    rows = exact_rows("nccl_anomaly", path, as_window(window), threshold=1.5)
    expected = slow_rows(capture, window, Fraction(3, 2))
    assert in_order([{**row, "nvtx": None} for row in rows]) == in_order([{**row, "nvtx": None} for row in expected])
    shown = exact("nccl_anomaly", path, as_window(window), threshold=1.5)
    collectives = [k for k in capture.kernels if k.name in NAMES and window.has(k)]
    sizes = {size_of(capture, k) for k in collectives}
    assert shown.totals["groups"] == len(sizes)
    if collectives:
        notes = " ".join(shown.notes)
        unknown = sum(size_of(capture, k) is None for k in collectives)
        assert ("device, collective and message size" in notes) == (sizes != {None})
        assert (f"no message size is known of {unknown} collectives" in notes) == (len(sizes) > 1 and None in sizes)
        assert ("by device and collective: messages of all sizes" in notes) == (sizes == {None})


def called(lengths: list[int], size: int | None, first: int) -> Capture:
    """AllReduce after AllReduce of one size, each launched in its call, µs."""
    capture = Capture([])
    for place, length in enumerate(lengths, first):
        start = 1 + 500 * place
        payload = None if size is None else NcclPayload(7, size)
        where = ((start - 1) * US + 1, start * US + 100)
        capture.ranges.append(Range(*where, 101, 101, "ncclAllReduce", 1, payload=payload))
        capture.calls.append(Call(where[0] + 5, start * US, 101, 101, "cuLaunchKernelEx", place + 1))
        capture.kernels.append(kernel(start, length, correlation=place + 1))
    return capture


def together(*captures: Capture) -> Capture:
    whole = Capture([])
    for capture in captures:
        whole.kernels.extend(capture.kernels)
        whole.calls.extend(capture.calls)
        whole.ranges.extend(capture.ranges)
    return whole


def test_large_messages_among_small_ones_are_no_anomalies() -> None:
    small, large = called([10] * 10, 1024, 0), called([200] * 6, 16 << 20, 10)
    envelope = ask("nccl_anomaly", written(together(small, large)))
    assert (envelope["status"], envelope["totals"]["anomalies"], envelope["totals"]["groups"]) == ("empty", 0, 2)
    assert any("by device, collective and message size" in note for note in envelope["notes"])
    slow = called([200] * 5 + [601], 16 << 20, 10)
    [row] = rows_of(ask("nccl_anomaly", written(together(small, slow))))
    assert (row["duration_us"], row["times_median"], row["group_size"], row["bytes"]) == (601.0, 3.005, 6, 16 << 20)
    unsaid = ask("nccl_anomaly", written(together(called([10] * 10, None, 0), called([200] * 6, None, 10))))
    assert (unsaid["totals"]["anomalies"], unsaid["totals"]["groups"]) == (6, 1)
    assert {row["bytes"] for row in rows_of(unsaid)} == {None}
    assert any("messages of all sizes together" in note for note in unsaid["notes"])


# A real capture.


@needs_shared
def test_a_real_capture_says_what_its_kernel_table_says() -> None:
    # The sorted durations of the 33 collectives of each device, read with SQL from the kernel table: medians 168224 and
    # 128703 ns; beyond three times those, 504672 and 386109, are 11 on device 0, 608192 to 3603569, and 2 on device 1,
    # 933277 and 1825243. All are launched inside NCCL's range ncclGroupEnd.
    envelope = ask("nccl_anomaly", SHARED / "captures" / "h100x2_nccl_2026.2.sqlite")
    rows = rows_of(envelope)
    assert [row["device"] for row in rows] == [0, 0, 1, 1, *[0] * 9]
    assert envelope["rows"][0] == ["SendRecv", 0, None, "7", 60387685768, 3603.569, 21.4213, 33, None, "ncclGroupEnd"]
    assert envelope["rows"][-1][4:7] == [60284039009, 608.192, 3.6154]
    slow = (608192, 619680, 646400, 647776, 664991, 711680, 711807, 753440, 842720, 3509023, 3603569)
    excess = sum(slow) - 11 * 168224 + 933277 + 1825243 - 2 * 128703
    assert exact("nccl_anomaly", SHARED / "captures" / "h100x2_nccl_2026.2.sqlite").totals == {
        "collectives": 66,
        "anomalies": 13,
        "excess_ms": excess,
        "groups": 2,
        "unjudged": 0,
    }
    assert len(dump_json(envelope)) < 6_000


# Words.


def test_groups_of_five_are_judged_and_groups_of_four_are_not_which_is_said() -> None:
    assert ANOMALY_GROUP.value == 5
    five = ask("nccl_anomaly", written(Capture(row_of([2, 2, 2, 2, 50]))))
    assert [row["times_median"] for row in rows_of(five)] == [25.0]
    four = ask("nccl_anomaly", written(Capture(row_of([2, 2, 2, 50]))))
    assert (four["status"], four["totals"]["unjudged"]) == ("empty", 4)
    assert any("4 collectives are not judged" in note for note in four["notes"])
    assert not any("took longer" in note for note in four["notes"])


def test_exactly_at_the_threshold_is_no_anomaly() -> None:
    capture = written(Capture(row_of([10, 10, 10, 10, 30])))
    at_three = ask("nccl_anomaly", capture)
    assert at_three["status"] == "empty"
    assert any("no collective that is judged took longer" in note for note in at_three["notes"])
    assert ask("nccl_anomaly", capture, threshold=2.999)["totals"]["anomalies"] == 1


def test_devices_and_collectives_are_groups_of_their_own_and_variants_are_not() -> None:
    slow_kind = row_of([50] * 5, REDUCE_SCATTER)
    slow_device = row_of([50] * 5, device=1)
    kernels = [*row_of([2, 2, 2, 2]), kernel(800, 40, TREE), *slow_kind, *slow_device]
    rows = rows_of(ask("nccl_anomaly", written(Capture(kernels))))
    assert [(row["collective"], row["device"], row["duration_us"], row["group_size"]) for row in rows] == [
        ("AllReduce", 0, 40.0, 5)
    ]


def test_a_group_is_of_the_window_and_durations_are_whole() -> None:
    capture = written(Capture([*row_of([2, 2, 2, 2, 50]), *[kernel(1000 + 100 * n, 60) for n in range(9)]]))
    [row] = rows_of(ask("nccl_anomaly", capture, trim=[0, "0.00042"]))
    assert (row["duration_us"], row["group_size"]) == (50.0, 5)
    assert ask("nccl_anomaly", capture)["totals"]["anomalies"] == 0


def test_collectives_without_length_judge_nothing() -> None:
    envelope = ask("nccl_anomaly", written(Capture(row_of([0, 0, 0, 0, 9]))))
    assert (envelope["totals"]["anomalies"], envelope["totals"]["unjudged"]) == (0, 5)
    assert any("a median of 0" in note for note in envelope["notes"])


def test_the_range_that_launched_it_is_shown_and_without_ranges_it_is_unknown() -> None:
    kernels = [*row_of([2, 2, 2, 2]), kernel(800, 40, correlation=1)]
    calls = [Call(700 * US, 710 * US, 101, 101, "cuLaunchKernelEx", 1)]
    ranges = [Range(600 * US, 720 * US, 101, 101, "step 7")]
    [row] = rows_of(ask("nccl_anomaly", written(Capture(kernels, calls=calls, ranges=ranges))))
    assert row["nvtx"] == "step 7"
    envelope = ask("nccl_anomaly", written(Capture(kernels, calls=calls)))
    assert rows_of(envelope)[0]["nvtx"] is None
    assert any("nvtx is unknown" in note for note in envelope["notes"])


@pytest.mark.parametrize("threshold", [0.5, -3, 1e9, float("nan"), float("inf")])
def test_a_threshold_that_makes_no_sense_is_refused(threshold: float) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("nccl_anomaly", written(Capture(row_of([1]))), threshold=threshold)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT


def test_the_largest_threshold_and_the_longest_duration_are_no_overflow() -> None:
    kernels = [Kernel(1, 1 + 2**53, 0, 1, stream, None, 101, ALL_REDUCE) for stream in range(5)]
    envelope = ask("nccl_anomaly", written(Capture(kernels)), threshold=1_000_000)
    assert envelope["totals"]["anomalies"] == 0


# What may be missing.


def test_kernels_without_collectives_are_found_to_be_nothing_and_that_is_said() -> None:
    envelope = ask("nccl_anomaly", written(Capture(row_of([1, 2], "pack_for_nccl_bucket_kernel"))))
    assert (envelope["status"], envelope["totals"]["collectives"]) == ("empty", 0)
    assert any("no kernel in scope is a collective" in note for note in envelope["notes"])


def test_a_graph_traced_as_a_whole_hides_collectives_and_makes_the_answer_partial() -> None:
    graph = GraphLaunch(5 * US, 30 * US, 0, 1, 8, None, 101, 1)
    envelope = ask("nccl_anomaly", written(Capture(row_of([2]), graph_launches=[graph])))
    assert envelope["status"] == "partial"


def test_without_kernels_it_abstains_and_an_absent_device_is_refused() -> None:
    capture = Capture(copies=[Copy(0, 10 * US, 0, 1, 7, None, 101, 4096, 1)])
    for layout in (Layout(), Layout(empty_tables=True)):
        envelope = ask("nccl_anomaly", written(capture, layout))
        assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
        assert envelope["capture_hint"].startswith("nsys profile")
    with pytest.raises(EvidenceError) as refused:
        ask("nccl_anomaly", written(Capture(row_of([1]))), device=3)
    assert refused.value.code is ErrorCode.DEVICE_NOT_FOUND
