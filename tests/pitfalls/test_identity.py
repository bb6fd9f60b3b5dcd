"""Section 1.2: a device, a stream, a launch and a thread are those of their process, in every skill."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.synthetic import Capture, GraphLaunch
from tests.pitfalls.asking import ABOUT_PROFILES, MS, ON_DEVICES, answer, arguments, figures, small_capture
from tests.support import ask, rows_of, written

EVENTS = ("kernels", "copies", "sets", "calls", "syncs", "ranges", "marks", "domains", "graph_launches")
HOST_EVENTS = ("osrt_calls", "running", "samples", "thread_names", "streams", "processes")
RANK = small_capture().processes[0].pid

FACTS_OF_THE_CAPTURE = {"profile_health_manifest"}
"""What shows counts of the whole capture beside the findings of a device, and says so."""


def of_one_process(capture: Capture) -> Capture:
    """What rank 0 did, without the map of devices."""
    kept: dict[str, Any] = {
        name: [event for event in getattr(capture, name) if event.pid == RANK] for name in (*EVENTS, *HOST_EVENTS)
    }
    return replace(capture, **kept, cuda_devices=[])


def with_twins(capture: Capture, further: dict[int, int]) -> Capture:
    """The capture of one process, and others that do the same work at the same time.

    Threads, contexts, streams, correlation ids and domains have the same numbers. What tells them apart when they are
    mixed up: the calls of the others begin earlier, and their ranges have other names.

    Args:
        further: process id of each twin, and by how much its devices lie further on.
    """
    twins: dict[str, Any] = {}
    for name in (*EVENTS, *HOST_EVENTS):
        events = getattr(capture, name)
        twins[name] = list(events)
        for pid, devices in further.items():
            for event in events:
                other: dict[str, Any] = {"pid": pid}
                if hasattr(event, "device"):
                    other["device"] = event.device + devices
                if name == "calls":
                    other["start"] = event.start - 2_000
                if name == "ranges":
                    other["text"] = f"other {event.text}"
                twins[name].append(replace(event, **other))
    return replace(capture, **twins)


@cache
def alone() -> Path:
    return written(of_one_process(small_capture()))


@cache
def beside_a_twin() -> Path:
    """Devices 0, 3 and 6, each of a process of its own."""
    return written(with_twins(of_one_process(small_capture()), {9001: 3, 9002: 6}))


@pytest.mark.parametrize("name", ON_DEVICES)
def test_processes_that_share_all_ids_but_their_own_change_no_figure_of_a_device(name: str) -> None:
    if name in FACTS_OF_THE_CAPTURE:
        return
    skill = ON_DEVICES[name]
    expected = answer(skill, alone(), device=0)
    found = answer(skill, beside_a_twin(), device=0)
    if isinstance(expected, ErrorCode) or isinstance(found, ErrorCode):
        assert expected == found
        return
    assert found["scope"]["devices"] == [0]
    assert figures(found)["totals"] == figures(expected)["totals"]
    assert found["status"] == expected["status"]
    for table in (None, *expected["tables"]):
        one, other = ([without_whose(row) for row in rows_of(part, table)] for part in (expected, found))
        assert one == other


def without_whose(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the columns that name its device and process, and without the ids of evidence."""
    return {key: value for key, value in row.items() if key not in ("device", "process") and "ev-" not in str(value)}


def test_without_a_device_every_skill_looks_at_all_devices_and_names_them() -> None:
    for name, skill in ON_DEVICES.items():
        envelope = answer(skill, beside_a_twin(), max_rows=200)
        assert not isinstance(envelope, ErrorCode)
        assert envelope["scope"]["devices"] == [0, 3, 6], name
        for row in rows_of(envelope) if "device" in envelope["columns"] else []:
            assert row["device"] in (0, 3, 6, None), name


def test_where_rows_are_of_devices_there_are_rows_of_every_device_with_that_work() -> None:
    capture = of_one_process(small_capture())
    found = set()
    for name, skill in ON_DEVICES.items():
        one, all_of_them = answer(skill, alone(), max_rows=200), answer(skill, beside_a_twin(), max_rows=200)
        assert not isinstance(one, ErrorCode)
        assert not isinstance(all_of_them, ErrorCode)
        if "device" not in one["columns"] or not (rows := rows_of(one)) or all_of_them["truncation"]:
            continue
        if {row["device"] for row in rows} == {0}:
            assert {row["device"] for row in rows_of(all_of_them)} == {0, 3, 6}, name
            found.add(name)
    assert len(found) >= 8
    assert len({kernel.device for kernel in capture.kernels}) == 1


def test_a_device_that_the_capture_lacks_is_refused_by_every_skill_and_those_that_it_has_are_named() -> None:
    for name, skill in ON_DEVICES.items():
        with pytest.raises(EvidenceError) as caught:
            ask(name, beside_a_twin(), **arguments(skill, device=5))
        assert caught.value.code is ErrorCode.DEVICE_NOT_FOUND, name
        assert caught.value.facts["devices"] == [0, 3, 6], name
        assert "0, 3, 6" in caught.value.hint, name


def test_a_device_is_refused_before_anything_else_where_there_is_no_gpu_work_at_all() -> None:
    path = written(Capture(calls=small_capture().calls, ranges=small_capture().ranges))
    for name, skill in ON_DEVICES.items():
        with pytest.raises(EvidenceError) as caught:
            ask(name, path, **arguments(skill, device=0))
        assert caught.value.code is ErrorCode.DEVICE_NOT_FOUND, name
        assert caught.value.facts["devices"] == [], name
        assert not caught.value.hint.startswith("devices with GPU work: ;"), name


@pytest.mark.parametrize("spelling", ["device_id", "gpu", "deviceId", "devices"])
def test_a_device_under_another_name_is_an_unknown_argument_of_every_skill(spelling: str) -> None:
    found = {name: answer(skill, alone(), **{spelling: 0}) for name, skill in ABOUT_PROFILES.items()}
    assert found == dict.fromkeys(ABOUT_PROFILES, ErrorCode.UNKNOWN_ARGUMENT)


def test_the_work_of_one_device_ends_where_it_ends_and_not_where_that_of_another_does() -> None:
    short = small_capture().kernels[0]
    kernels = [
        replace(short, start=100 * MS, end=110 * MS, device=0, correlation=None),
        replace(short, start=100 * MS, end=900 * MS, device=1, correlation=None),
    ]
    path = written(Capture(kernels=kernels))
    for name in ("gpu_idle_gaps", "pipeline_bubble_metrics", "overlap_breakdown", "stream_concurrency"):
        narrow, wide = (ask(name, path, device=device) for device in (0, 1))
        assert narrow["scope"]["span_ms"] == wide["scope"]["span_ms"] == 800, name  # one window, whatever is selected
    [row] = rows_of(ask("kernel_launch_pattern", path, device=0))
    assert (row["extent_ms"], row["busy_ms"]) == (10, 10)


def test_green_contexts_and_contexts_are_streams_of_their_own_and_utilisation_is_that_of_the_gpu() -> None:
    """Two partitions of one GPU at work at once for half of the span: the GPU is busy for half of it, not for all."""
    kernel = replace(small_capture().kernels[0], device=0, stream=7, correlation=None, pid=RANK)
    kernels = [
        replace(kernel, start=100 * MS, end=150 * MS, context=1, green_context=11),
        replace(kernel, start=100 * MS, end=150 * MS, context=2, green_context=12),
        replace(kernel, start=199 * MS, end=200 * MS, context=1, green_context=11),
    ]
    path = written(Capture(kernels=kernels))
    [row] = rows_of(ask("pipeline_bubble_metrics", path))
    assert (row["busy_ms"], row["span_ms"]) == (51, 100)
    streams = {row["stream"] for row in rows_of(ask("kernel_launch_pattern", path))}
    assert len(streams) == 2
    assert ask("top_kernels", path)["totals"]["total_ms"] == 101


def test_a_graph_belongs_to_the_device_that_it_ran_on() -> None:
    kernel = replace(small_capture().kernels[0], start=100 * MS, end=101 * MS, device=0, correlation=None)
    graph = GraphLaunch(102 * MS, 110 * MS, 3, 1, 7, None, kernel.pid, 1)
    path = written(Capture(kernels=[kernel], graph_launches=[graph]))
    busy = {row["device"]: row["busy_ms"] for row in rows_of(ask("pipeline_bubble_metrics", path))}
    assert busy == {0: 1, 3: 8}
