"""The same capture gives the same profile, to the byte, however the export stores it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.manifest import Coverage
from nsys_evidence.ingest.synthetic import (
    Capture,
    Domain,
    Kernel,
    Layout,
    Process,
    Range,
    demo_capture,
    write_sqlite,
)
from nsys_evidence.ingest.synthetic.tables import TABLES as SOURCE_TABLES
from tests.ingest.profiles import Built, build, build_file
from tests.strategies import captures, generated
from tests.support import CAPTURES, scratch

DEMO = demo_capture()[0]

VERSIONED = {table: f"_V{number}" for number, table in enumerate(SOURCE_TABLES, 2)}
LAYOUTS = {
    "rows and ids shuffled": Layout(shuffle=1),
    "shuffled otherwise": Layout(shuffle=2),
    "all NVTX text inline": Layout(text="inline"),
    "all NVTX text by reference": Layout(text="ids"),
    "starts stored as text": Layout(text_affinity=True),
    "versioned table names": Layout(suffix=VERSIONED),
    "empty tables written": Layout(empty_tables=True),
    "everything at once": Layout(
        shuffle=3, text="ids", text_affinity=True, suffix={"NVTX_EVENTS": "_V3"}, empty_tables=True
    ),
}
"""Ways to store the demo, which has kernels, so that no table that tells "none" from "not recorded" is empty."""


def assert_same(one: Built, other: Built) -> None:
    """Equal to the byte: profile id, manifest and every table."""
    assert one.manifest == other.manifest
    expected = other.bytes()
    assert [table for table, content in one.bytes().items() if content != expected[table]] == []


@pytest.fixture(scope="module")
def demo() -> Built:
    return build(DEMO)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_of_an_export_leaves_no_trace(demo: Built, layout: Layout) -> None:
    assert_same(build(DEMO, layout), demo)


@generated
@given(capture=captures(), seed=st.integers(0, 2**16), text=st.sampled_from(("as_given", "inline", "ids")))
def test_no_capture_depends_on_the_order_of_rows_or_ids(capture: Capture, seed: int, text: str) -> None:
    one = build(capture)
    assert_same(build(capture, Layout(shuffle=seed, text=text)), one)  # type: ignore[arg-type]
    assert_same(build(capture, Layout(text_affinity=True, suffix={"NVTX_EVENTS": "_V2"})), one)


def test_twins_in_every_column_are_kept_and_leave_no_trace_of_their_order() -> None:
    kernel = Kernel(10, 20, 0, 1, 7, 1, 42, "k()")
    ranges = [Range(5, 30, 42, 42, "outer"), Range(5, 30, 42, 42, "inner"), Range(5, 30, 42, 42, "inner")]
    capture = Capture(kernels=[kernel, kernel, replace(kernel, stream=8)], ranges=ranges)
    one = build(capture)
    assert one.manifest.rows["kernels"] == 3
    for seed in range(4):
        assert_same(build(capture, Layout(shuffle=seed)), one)
    assert build(replace(capture, kernels=capture.kernels[1:])).manifest.profile_id != one.manifest.profile_id


def test_of_two_names_for_one_domain_the_later_one_holds_whatever_the_order_of_rows() -> None:
    domains = [Domain(42, 1, "first", start=3), Domain(42, 1, "second", start=9)]
    capture = Capture(domains=domains, ranges=[Range(5, 30, 42, 42, "r", domain=1)])
    one = build(capture)
    assert one.named("nvtx_ranges", "name") == [("second:r",)]
    for seed in range(6):
        assert_same(build(capture, Layout(shuffle=seed)), one)


def test_a_table_without_rows_is_no_table() -> None:
    """nsys writes tables of what was never traced where it is told to (--lazy=false), in every form of export."""
    host_only = replace(DEMO, kernels=[], copies=[], sets=[], syncs=[])
    lazy, eager = build(host_only), build(host_only, Layout(empty_tables=True))
    assert lazy.manifest.coverage["kernels"] is Coverage.NOT_RECORDED
    assert_same(eager, lazy)


def test_what_the_capture_says_changes_the_profile() -> None:
    def changed(**fields: object) -> str:
        return build(replace(DEMO, **fields)).manifest.profile_id  # type: ignore[arg-type]

    kernel, span, call = DEMO.kernels[5], DEMO.ranges[3], DEMO.calls[7]
    other = next(r for r in DEMO.ranges[4:] if r.text != span.text and r.pid == span.pid)
    swapped = [
        replace(span, text=other.text),
        *(replace(other, text=span.text) if r is other else r for r in DEMO.ranges[4:]),
    ]
    ids = [
        build(DEMO).manifest.profile_id,
        changed(kernels=[replace(kernel, end=(kernel.end or 0) + 1), *DEMO.kernels[6:]]),
        changed(kernels=[*DEMO.kernels[:5], replace(kernel, registers=7), *DEMO.kernels[6:]]),
        changed(kernels=[*DEMO.kernels[:5], replace(kernel, name="other()"), *DEMO.kernels[6:]]),
        changed(kernels=[*DEMO.kernels[:5], replace(kernel, stream=99), *DEMO.kernels[6:]]),
        changed(ranges=[*DEMO.ranges[:3], replace(span, text="renamed"), *DEMO.ranges[4:]]),
        changed(ranges=[*DEMO.ranges[:3], *swapped]),
        changed(ranges=[*DEMO.ranges[:3], replace(span, tid=span.tid + 1), *DEMO.ranges[4:]]),
        changed(calls=[*DEMO.calls[:7], replace(call, correlation=10**6), *DEMO.calls[8:]]),
        changed(calls=[*DEMO.calls[:7], replace(call, driver=not call.driver), *DEMO.calls[8:]]),
        changed(marks=[]),
        changed(osrt_calls=DEMO.osrt_calls[1:]),
        changed(syncs=DEMO.syncs[1:]),
        changed(running=[replace(DEMO.running[0], state=3), *DEMO.running[1:]]),
        changed(samples=DEMO.samples[1:]),
        changed(thread_names=[replace(DEMO.thread_names[0], name="renamed"), *DEMO.thread_names[1:]]),
        changed(thread_names=[]),
        changed(gpus=[]),
        changed(cuda_devices=[]),
        changed(domains=[]),
    ]
    assert len(set(ids)) == len(ids)


def test_what_describes_the_machine_or_the_export_does_not_change_the_profile(demo: Built) -> None:
    other = replace(
        DEMO,
        processes=[Process(p.pid, vm=1, name="renamed", command=("other.py",)) for p in DEMO.processes],
        streams=[],
        session=None,
        host="elsewhere",
        user="somebody",
        schema="3.16.0",
        product="2024.6.1.90",
        environment={"TOKEN": "x"},
        unreferenced=["lost"],
    )
    assert_same(build(other), demo)


def test_a_captures_file_name_and_cache_leave_no_trace() -> None:
    profiles = []
    for number, name in enumerate(("a.sqlite", "some other name")):
        path = write_sqlite(DEMO, scratch() / name, layout=Layout(shuffle=number))
        profiles.append(Library(cache=scratch() / f"cache of {name}").open(str(path)))
    first, second = profiles
    assert first.id == second.id == build(DEMO).manifest.profile_id
    of_the_source = {"source.json", "SHA256SUMS"}
    names = {file.name for file in first.directory.iterdir()} - of_the_source
    assert names == {file.name for file in second.directory.iterdir()} - of_the_source
    assert all((first.directory / name).read_bytes() == (second.directory / name).read_bytes() for name in names)


@pytest.mark.parametrize("capture", CAPTURES[:2], ids=lambda path: path.stem)
def test_a_real_capture_gives_the_same_profile_again(capture: object) -> None:
    assert_same(build_file(capture), build_file(capture))  # type: ignore[arg-type]
