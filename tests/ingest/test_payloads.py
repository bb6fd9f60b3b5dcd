"""Typed NVTX payloads of NCCL: decoded by the schemas of their domain, or counted where they cannot be."""

from __future__ import annotations

import struct
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.ingest.manifest import Coverage
from nsys_evidence.ingest.nccl_calls import operation_of
from nsys_evidence.ingest.synthetic import Capture, Domain, Layout, NcclPayload, Range
from tests.ingest.profiles import Built, build, build_file
from tests.parquet_export import write_parquetdir
from tests.strategies import generated
from tests.support import written

PID = 42
COLUMNS = ("communicator", "bytes", "ranks", "rank", "peer", "root", "reduction")
Entry = dict[str, object]


def call(start: int, payload: NcclPayload | bytes | None, name: str = "ncclAllReduce", domain: int = 1) -> Range:
    return Range(start, start + 5, PID, PID, name, domain, payload=payload)


def decoded(built: Built) -> list[tuple[object, ...]]:
    return [(row["start"], row["operation"], *(row[name] for name in COLUMNS)) for row in built.rows("nccl_calls")]


def entries(*fields: tuple[str, int, int | None], domain: int = 1, schema: int = 5) -> list[Entry]:
    return [
        {"domainId": domain, "schemaId": schema, "idx": index, "type": kind, "name": name, "offset": offset}
        for index, (name, kind, offset) in enumerate(fields)
    ]


def capture_of(calls: list[Range], *schemas: list[Entry]) -> Capture:
    return Capture(
        ranges=calls, extra_tables={"NVTX_PAYLOAD_SCHEMA_ENTRIES": [entry for schema in schemas for entry in schema]}
    )


def blob(body: bytes, *, domain: int = 1, schema: int = 5, size: int | None = None) -> bytes:
    return struct.pack("<4Q", domain, schema, len(body) if size is None else size, 32) + body


sizes = st.none() | st.integers(0, 2**63 - 1)
payloads = st.builds(
    NcclPayload,
    st.none() | st.sampled_from((0, 7, 2**63 + 5, 2**64 - 1)),
    sizes,
    *(st.none() | st.integers(0, 2**31 - 1) for _ in range(5)),
).filter(lambda payload: payload != NcclPayload())


@generated
@given(found=st.lists(payloads, min_size=1, max_size=8), seed=st.integers(0, 99))
def test_what_a_call_says_is_in_its_row_in_both_forms_of_the_export_whatever_the_order(
    found: list[NcclPayload], seed: int
) -> None:
    calls = [call(10 * place + 1, payload) for place, payload in enumerate(found)]
    capture = Capture(ranges=calls, unreferenced=["a string table, without which there is no export to Parquet"])
    export = written(capture, Layout(shuffle=seed))
    one = build_file(export)
    expected = []
    for place, payload in enumerate(found):
        hashed, *others = astuple(payload)
        signed = hashed if hashed is None or hashed < 2**63 else hashed - 2**64
        expected.append((10 * place + 1, "AllReduce", signed, *others))
    assert decoded(one) == expected
    ranges = one.rows("nvtx_ranges")
    assert [ranges[row["range"]]["start"] for row in one.rows("nccl_calls")] == [row[0] for row in expected]
    other = build_file(write_parquetdir(export, export.parent / "parquet", seed=seed))
    assert (other.manifest, other.bytes()) == (one.manifest, one.bytes())
    assert build(capture).bytes() == one.bytes()


def test_a_schema_is_one_of_its_domain_and_its_registration_by_several_processes_is_one() -> None:
    first = entries(("Message size [bytes]", 22, None))
    second = entries(("Rank", 5, None), ("Message size [bytes]", 22, 8), domain=2)
    calls = [call(10, blob(struct.pack("<Q", 64))), call(20, blob(struct.pack("<iiQ", 3, 0, 96), domain=2), domain=2)]
    built = build(capture_of(calls, first, first, second, second))
    assert [(row["bytes"], row["rank"]) for row in built.rows("nccl_calls")] == [(64, None), (96, 3)]
    assert built.manifest.undecoded_payloads == 0


def test_a_schema_that_two_processes_registered_differently_decodes_nothing() -> None:
    schemas = entries(("Message size [bytes]", 22, None)), entries(("Rank", 5, None), ("Message size [bytes]", 22, 8))
    built = build(capture_of([call(10, blob(bytes(16)))], *schemas))
    assert decoded(built) == []
    assert (built.manifest.payload_schemas, built.manifest.undecoded_payloads) == (1, 1)
    assert "1 NCCL calls have a payload that cannot be decoded" in built.manifest.warnings


@pytest.mark.parametrize(
    "payload",
    [
        blob(bytes(8))[:31],  # shorter than a header
        blob(bytes(8))[:36],  # cut short
        blob(bytes(4)),  # a struct smaller than its schema
        blob(bytes(8), size=9),  # it says that it is longer than it is
        blob(bytes(8), schema=6),
        blob(bytes(8), domain=2),
        b"text",
    ],
)
def test_a_payload_that_does_not_fit_its_schema_is_counted_and_nothing_of_it_is_kept(payload: bytes) -> None:
    calls = [call(10, payload), call(20, blob(struct.pack("<Q", 7))), call(30, payload, "forward")]
    built = build(capture_of(calls, entries(("Message size [bytes]", 22, None))))
    assert [row["bytes"] for row in built.rows("nccl_calls")] == [7]
    assert built.manifest.undecoded_payloads == 1  # "forward" is none of NCCL's


def test_fields_without_an_offset_follow_each_other_aligned_and_foreign_ones_take_their_place() -> None:
    fields = entries(("mine", 12, None), ("Rank", 5, None), ("Message size [bytes]", 22, None), ("Peer rank", 5, None))
    built = build(capture_of([call(10, blob(struct.pack("<BxxxiQixxxx", 9, 3, 1000, 6)))], fields))
    assert [(row["rank"], row["bytes"], row["peer"]) for row in built.rows("nccl_calls")] == [(3, 1000, 6)]


def test_negative_ranks_and_sizes_beyond_63_bits_are_none() -> None:
    fields = entries(("Message size [bytes]", 22, None), ("Peer rank", 5, 8))
    built = build(capture_of([call(10, blob(struct.pack("<Qi", 2**64 - 1, -1)))], fields))
    assert [(row["bytes"], row["peer"]) for row in built.rows("nccl_calls")] == [(None, None)]


@pytest.mark.parametrize("layout", [Layout(), Layout(drop_columns={"NVTX_EVENTS": frozenset({"binaryData"})})])
def test_an_export_without_payload_data_says_so(layout: Layout) -> None:
    capture = Capture(ranges=[call(10, NcclPayload(1, 8))])
    if not layout.drop_columns:
        capture = capture_of([call(10, None)], entries(("Message size [bytes]", 22, None)))
    built = build(capture, layout)
    assert built.manifest.coverage["nccl_calls"] is Coverage.NOT_RECORDED
    assert built.manifest.payload_schemas == 1
    assert any("--include-blobs=true" in warning for warning in built.manifest.warnings)


def test_without_schemas_of_nccl_no_payload_is_read_and_none_is_missing() -> None:
    built = build(capture_of([call(10, blob(bytes(8)))], entries(("mine", 22, None))))
    assert (built.manifest.payload_schemas, built.manifest.undecoded_payloads) == (0, 0)
    assert built.manifest.warnings == ()


def test_twins_that_differ_in_their_payload_leave_no_trace_of_their_order() -> None:
    capture = Capture(ranges=[call(10, NcclPayload(1, size)) for size in (8, 4, 8, 2)])
    one = build(capture)
    assert [row["bytes"] for row in one.rows("nccl_calls")] == [2, 4, 8, 8]
    for seed in range(5):
        assert build(capture, Layout(shuffle=seed)).bytes() == one.bytes()


def test_only_the_numbers_of_a_payload_change_the_profile() -> None:
    one, other = (build(Capture(ranges=[call(10, NcclPayload(1, size))])) for size in (8, 9))
    assert one.manifest.profile_id != other.manifest.profile_id


def test_calls_in_a_named_domain_and_by_other_spellings_are_those_of_nccl() -> None:
    assert operation_of("NCCL:ncclAllReduce") == operation_of("ncclAllReduce") == operation_of("pncclAllReduce")
    assert operation_of("ncclAlltoAll") == "AllToAll"
    assert operation_of("ncclBcast") == "Broadcast"
    assert operation_of("nccl:all_reduce") is None
    assert operation_of("my ncclAllReduce") is None
    built = build(Capture(ranges=[call(10, NcclPayload(1, 8))], domains=[Domain(PID, 1, "NCCL")]))
    assert built.named("nccl_calls", "name", "operation") == [("NCCL:ncclAllReduce", "AllReduce")]
