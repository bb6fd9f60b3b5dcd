"""An evidence id stands for one result of one call on one profile, whatever the file is called."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.evidence import (
    CellAddress,
    evidence_id,
    is_evidence_id,
    parse_address,
    resolve_address,
)

quick = settings(max_examples=60, deadline=None)
EVIDENCE = "ev-7k3m9qx2w4"
ARGUMENTS: dict[str, object] = {"device": 1, "trim": ["1.5", "2.5"], "max_rows": 20}
RESULT: dict[str, Any] = {
    "evidence": EVIDENCE,
    "status": "ok",
    "skill": "top_kernels",
    "profile": {"id": "p-1", "name": "baseline.nsys-rep"},
    "scope": {"devices": [0, 1], "start_s": 155.357525002, "end_s": 156.326972607, "span_ms": 969.448, "by": "trim"},
    "columns": ["kernel", "total_ms"],
    "rows": [["gemm", 31.122], ["copy", None]],
    "of": {},
    "totals": {"kernels": 41, "total_ms": 44.83},
    "truncation": None,
    "tables": {"streams": {"columns": ["stream", "busy_ms"], "rows": [["7", 1.5]], "totals": None, "truncation": None}},
    "notes": ["as recorded"],
    "next": ["kernel_instances"],
}


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values in nested objects and lists."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key], (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    copy = deepcopy(value)
    at = copy
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = "something else"
    return copy


def id_of(result: dict[str, Any] = RESULT, arguments: dict[str, object] = ARGUMENTS) -> str:
    return evidence_id("p-1", "top_kernels", arguments, result)


def test_the_id_is_the_same_in_every_version() -> None:
    # Ids stand in answers that people keep: a change of this one is a break.
    assert id_of() == "ev-jk50b7wpjw"
    assert is_evidence_id(id_of())


def test_the_id_does_not_depend_on_the_captures_name_nor_on_itself() -> None:
    renamed = changed(changed(RESULT, ("profile", "name")), ("evidence",))
    assert id_of(renamed) == id_of()


def test_the_id_does_not_depend_on_the_order_of_keys() -> None:
    assert id_of(reversed_keys(RESULT), reversed_keys(ARGUMENTS)) == id_of()
    assert id_of(json.loads(json.dumps(RESULT))) == id_of()


def test_the_id_depends_on_everything_else_in_the_result() -> None:
    places = [place for place in leaves(RESULT) if place not in (("evidence",), ("profile", "name"))]
    ids = [id_of(changed(RESULT, place)) for place in places]
    assert len(places) > 20
    assert len({id_of(), *ids}) == len(places) + 1


def test_the_id_depends_on_the_order_of_rows_and_on_every_key() -> None:
    swapped = {**RESULT, "rows": RESULT["rows"][::-1]}
    lacking = [{key: value for key, value in RESULT.items() if key != gone} for gone in RESULT if gone != "evidence"]
    lacking = [result for result in lacking if "profile" in result]
    assert len({id_of(), id_of(swapped), *map(id_of, lacking)}) == len(lacking) + 2


def test_the_id_depends_on_profile_skill_and_every_argument() -> None:
    ids = [
        id_of(),
        evidence_id("p-2", "top_kernels", ARGUMENTS, RESULT),
        evidence_id(None, "top_kernels", ARGUMENTS, RESULT),
        evidence_id("p-1", "top_kernel", ARGUMENTS, RESULT),
        *(id_of(arguments=changed(ARGUMENTS, place)) for place in leaves(ARGUMENTS)),
        *(id_of(arguments={k: v for k, v in ARGUMENTS.items() if k != key}) for key in ARGUMENTS),
    ]
    assert len(set(ids)) == len(ids)


def test_a_result_without_a_profile_has_an_id() -> None:
    result = {**RESULT, "profile": None}
    assert is_evidence_id(evidence_id(None, "list_profiles", {}, result))
    assert evidence_id(None, "list_profiles", {}, result) != evidence_id(None, "list_profiles", {}, RESULT)


@pytest.mark.parametrize(
    "text",
    ["", "ev-", "ev-7k3m9qx2w", "ev-7k3m9qx2w45", "EV-7k3m9qx2w4", "ev-7k3m9qx2wo", "ev-7k3m9qx2wl", "7k3m9qx2w4"],
)
def test_what_is_no_evidence_id_is_not_taken_for_one(text: str) -> None:
    assert not is_evidence_id(text)
    assert is_evidence_id(EVIDENCE)


names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
addresses = st.one_of(
    st.builds(CellAddress, st.just(EVIDENCE), st.none(), st.integers(0, 10**6), names),
    st.builds(CellAddress, st.just(EVIDENCE), st.just("totals"), st.none(), names),
    st.builds(CellAddress, st.just(EVIDENCE), names.filter(lambda n: n != "totals"), st.integers(0, 10**6), names),
)


@quick
@given(address=addresses)
def test_an_address_that_is_written_can_be_read_again(address: CellAddress) -> None:
    assert parse_address(str(address)) == address


def test_the_three_kinds_of_address_find_their_cells() -> None:
    found = {
        f"{EVIDENCE}:0.kernel": "gemm",
        f"{EVIDENCE}:1.total_ms": None,
        f"{EVIDENCE}:totals.kernels": 41,
        f"{EVIDENCE}:streams.0.busy_ms": 1.5,
    }
    assert {text: resolve_address(parse_address(text), RESULT) for text in found} == found


@quick
@given(place=st.sampled_from([(row, column) for row in (0, 1) for column in RESULT["columns"]]))
def test_every_cell_of_a_result_has_an_address(place: tuple[int, str]) -> None:
    row, column = place
    address = parse_address(str(CellAddress(EVIDENCE, None, row, column)))
    assert resolve_address(address, RESULT) == RESULT["rows"][row][RESULT["columns"].index(column)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        EVIDENCE,
        f"{EVIDENCE}:",
        f"{EVIDENCE}:kernel",
        f"{EVIDENCE}:0",
        f"{EVIDENCE}:0.",
        f"{EVIDENCE}:-1.kernel",
        f"{EVIDENCE}:0.kernel.x",
        f"{EVIDENCE}:totals",
        f"{EVIDENCE}:totals.",
        f"{EVIDENCE}:totals.0.kernels",
        f"{EVIDENCE}:streams.busy_ms",
        f"{EVIDENCE}:Streams.0.busy_ms",
        f"{EVIDENCE}:\u0661.kernel",
        f"{EVIDENCE}:0.kernel\n",
        f" {EVIDENCE}:0.kernel",
        "ev-7k3m9qx2wo:0.kernel",
    ],
)
def test_a_wrong_address_is_refused_and_shown_a_right_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"ev-…:ROW\.COLUMN, ev-…:totals\.KEY or ev-…:TABLE\.ROW\.COLUMN"):
        parse_address(text)


@pytest.mark.parametrize(
    ("cell", "instead"),
    [
        ("2.kernel", "rows are 0 to 1"),
        ("0.kernels", "columns are kernel, total_ms"),
        ("totals.rows", "totals has kernels, total_ms"),
        ("stream.0.busy_ms", "tables are streams"),
        ("streams.1.busy_ms", "rows are 0 to 0"),
        ("streams.0.stream_id", "columns are stream, busy_ms"),
    ],
)
def test_a_cell_that_is_not_there_is_an_error_that_says_what_is(cell: str, instead: str) -> None:
    with pytest.raises(KeyError, match=instead):
        resolve_address(parse_address(f"{EVIDENCE}:{cell}"), RESULT)


@pytest.mark.parametrize(
    ("cell", "instead"),
    [("0.kernel", "no rows"), ("totals.kernels", "totals has nothing"), ("t.0.x", "tables are none")],
)
def test_an_abstention_has_no_cells(cell: str, instead: str) -> None:
    abstention = {**RESULT, "rows": [], "totals": None, "tables": {}}
    with pytest.raises(KeyError, match=instead):
        resolve_address(parse_address(f"{EVIDENCE}:{cell}"), abstention)
