"""One envelope for every result; its schema is plain enough for every client; what is cut is said."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from nsys_evidence.contracts.columns import Row, column
from nsys_evidence.contracts.envelope import Status, denominators, envelope_schema, scope_dict, truncation_of
from nsys_evidence.contracts.units import Count, Id, Ms, Pct, Text
from nsys_evidence.contracts.window import Window

quick = settings(max_examples=60, deadline=None)


class Kernel(Row):
    kernel: Text = column("short label")
    instances: Count = column("executions")
    total_ms: Ms = column("summed duration")
    share_pct: Pct | None = column("share", of="kernel time in scope")


class Totals(Row):
    kernels: Count = column("kernels")
    busy_pct: Pct = column("busy", of="the span")


class PerStream(Row):
    device: Id | None = column("device")
    stream: Text = column("stream")
    busy_pct: Pct = column("busy", of="the device's busy time")


SCHEMA = envelope_schema("top_kernels", Kernel, Totals, {"streams": PerStream})
ANY = envelope_schema(None, None, None, None)
WINDOW = Window(155_357_525_002, 156_326_972_607, "gpu window", includes_end=True)


def envelope(**changes: Any) -> dict[str, Any]:
    """A result written by hand."""
    return {
        "evidence": "ev-7k3m9qx2w4",
        "status": "ok",
        "skill": "top_kernels",
        "profile": {"id": "p-0123", "name": "baseline.nsys-rep"},
        "scope": scope_dict(WINDOW, [0, 1]),
        "columns": ["kernel", "instances", "total_ms", "share_pct"],
        "rows": [["gemm", 248, 31.122, 69.42], ["copy", 1, 0.0, None]],
        "of": {"share_pct": "kernel time in scope"},
        "totals": {"kernels": 41, "busy_pct": 12.5},
        "truncation": {"total_rows": 41, "shown_rows": 2, "next_offset": 2},
        "tables": {
            "streams": {
                "columns": ["device", "stream", "busy_pct"],
                "rows": [[0, "1:7", 50.0], [None, "7", 100]],
                "totals": None,
                "truncation": None,
            }
        },
        "notes": ["as recorded"],
        "next": ["kernel_instances"],
    } | changes


ABSTENTION = envelope(
    status="abstained",
    rows=[],
    totals=None,
    truncation=None,
    tables={},
    scope=None,
    reason="kernels not recorded in this capture",
    missing=["kernels"],
    capture_hint="nsys profile --trace=cuda",
)


def schemas_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every subschema, however deep; values of `const` and `enum` are none."""
    if isinstance(value, dict):
        yield value
        for key, inner in value.items():
            if key == "properties":
                for schema in inner.values():
                    yield from schemas_in(schema)
            elif key not in ("const", "enum", "required"):
                yield from schemas_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from schemas_in(inner)


@pytest.mark.parametrize("schema", [SCHEMA, ANY])
def test_the_schema_is_a_plain_object_at_the_root(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    assert schema.keys() == {"type", "properties", "required"}
    assert set(schema["required"]) == schema["properties"].keys() - {"reason", "missing", "capture_hint"}


@pytest.mark.parametrize("schema", [SCHEMA, ANY])
def test_the_schema_has_no_references_and_every_part_of_it_is_typed(schema: dict[str, Any]) -> None:
    parts = list(schemas_in(schema))
    assert len(parts) > 40
    for part in parts:
        assert not part.keys() & {"$ref", "$defs", "definitions", "oneOf", "allOf", "not", "if"}
        assert part.get("items") is not False
        assert part.get("additionalProperties") in (None, False) or isinstance(part["additionalProperties"], dict)
        if "anyOf" in part:
            assert part.keys() == {"anyOf"}
        else:
            assert isinstance(part["type"], str)


@pytest.mark.parametrize("schema", [SCHEMA, ANY])
@pytest.mark.parametrize("validator", [Draft7Validator, Draft202012Validator])
@pytest.mark.parametrize("result", [envelope(), ABSTENTION])
def test_a_result_written_by_hand_is_valid_in_every_dialect(
    schema: dict[str, Any], validator: Any, result: Any
) -> None:
    validator.check_schema(schema)
    validator(schema).validate(result)


WRONG: dict[str, dict[str, Any]] = {
    "a row too short": {"rows": [["gemm", 248, 31.122]]},
    "a row too long": {"rows": [["gemm", 248, 31.122, None, 1]]},
    "a null where none may be": {"rows": [["gemm", None, 31.122, None]]},
    "a text for a number": {"rows": [["gemm", 248, "31.122", None]]},
    "a negative count": {"rows": [["gemm", -1, 31.122, None]]},
    "a share above 100": {"rows": [["gemm", 248, 31.122, 100.01]]},
    "a row as an object": {"rows": [{"kernel": "gemm"}]},
    "other columns": {"columns": ["kernel", "instances"]},
    "another skill": {"skill": "top_kernel"},
    "an unknown status": {"status": "failed"},
    "an id of another form": {"evidence": "ev-1"},
    "totals without a key": {"totals": {"kernels": 41}},
    "a further total": {"totals": {"kernels": 41, "busy_pct": 1, "more": 2}},
    "a truncation without next_offset": {"truncation": {"total_rows": 41, "shown_rows": 2}},
    "notes that are no texts": {"notes": [1]},
    "a denominator that is no text": {"of": {"share_pct": 1}},
    "a table with a short row": {
        "tables": {"streams": {"columns": ["device", "stream", "busy_pct"], "rows": [[0, "7"]], "totals": None}}
    },
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_wrong_with_a_result_is_seen(fault: str) -> None:
    assert not Draft202012Validator(SCHEMA).is_valid(envelope(**WRONG[fault]))


@pytest.mark.parametrize("key", [key for key in envelope() if key != "tables"])
def test_no_key_of_a_result_may_be_missing(key: str) -> None:
    lacking = {name: value for name, value in envelope().items() if name != key}
    assert not Draft202012Validator(SCHEMA).is_valid(lacking)
    assert not Draft202012Validator(ANY).is_valid(lacking)


@pytest.mark.parametrize("status", list(Status))
def test_the_four_ways_to_end_are_all_allowed(status: Status) -> None:
    assert Draft202012Validator(SCHEMA).is_valid(envelope(status=status.value))
    assert [s.value for s in Status] == ["ok", "partial", "empty", "abstained"]


def test_every_share_names_its_denominator_under_the_address_of_its_cells() -> None:
    assert denominators(Kernel, Totals, {"streams": PerStream}) == {
        "share_pct": "kernel time in scope",
        "totals.busy_pct": "the span",
        "streams.busy_pct": "the device's busy time",
    }


def test_the_scope_shows_window_devices_and_how_it_was_chosen() -> None:
    assert scope_dict(WINDOW, [0, 1]) == {
        "devices": [0, 1],
        "start_s": 155.357525002,
        "end_s": 156.326972607,
        "span_ms": 969.448,
        "by": "gpu window",
    }


def test_a_marker_in_the_scope_is_a_name_from_the_capture_and_cleaned() -> None:
    assert scope_dict(Window(0, 1, "iteration 3 of \u202estep\x00"), [])["by"] == "iteration 3 of step"


def test_a_scope_late_on_the_clock_is_valid_too() -> None:
    late = scope_dict(Window(2**60, 2**60 + 1, "trim"), [])
    assert late["start_s"] == "1152921504.606846976"
    Draft202012Validator(SCHEMA).validate(envelope(scope=late))


@pytest.mark.parametrize(
    ("total", "offset", "shown", "expected"),
    [
        (0, 0, 0, None),
        (41, 0, 41, None),  # exactly at the limit is not cut
        (41, 0, 40, (41, 40, 40)),
        (41, 0, 0, (41, 0, 0)),
        (41, 20, 20, (41, 20, 40)),
        (41, 40, 1, (41, 1, None)),  # the last page keeps its truncation
        (41, 21, 20, (41, 20, None)),
        (41, 41, 0, (41, 0, None)),  # past the end
        (41, 99, 0, (41, 0, None)),
    ],
)
def test_truncation_says_what_is_not_shown_and_where_to_go_on(
    total: int, offset: int, shown: int, expected: tuple[int, int, int | None] | None
) -> None:
    found = truncation_of(total, offset, shown)
    assert found == (expected and dict(zip(("total_rows", "shown_rows", "next_offset"), expected, strict=True)))


@quick
@given(total=st.integers(0, 50), page=st.integers(1, 20))
def test_following_the_offsets_shows_every_row_once_and_ends(total: int, page: int) -> None:
    shown: list[int] = []
    offset: int | None = 0
    while offset is not None:
        rows = list(range(total))[offset : offset + page]
        shown += rows
        truncation = truncation_of(total, offset, len(rows))
        offset = truncation["next_offset"] if truncation else None
    assert shown == list(range(total))
