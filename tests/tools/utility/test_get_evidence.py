from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from nsys_evidence.contracts.envelope import MAX_BYTES
from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.evidence import parse_address, resolve_address
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Capture, Kernel
from nsys_evidence.server.ledger import FileLedger
from nsys_evidence.tools.workspace import Workspace
from tests.support import MemoryLedger, ask, rows_of, workspace, written


def kernels(*names: str) -> Capture:
    return Capture(kernels=[Kernel(1000 + i, 2000 + 10 * i, 0, 1, 7, None, 101, name) for i, name in enumerate(names)])


def ledger_with(envelope: dict[str, Any], names: dict[str, str]) -> Workspace:
    ledger = MemoryLedger()
    ledger.put(envelope, names)
    return Workspace(workspace().library, ledger)


def test_the_result_comes_back_as_it_was_with_the_full_names_beside_it() -> None:
    first = ask("top_kernels", written(kernels("void a<int>(int)", "void a<float>(float)")))
    again = ask("get_evidence", id=first["evidence"])
    names = again["tables"].pop("names")
    assert again == first
    labels = [row["kernel"] for row in rows_of(first)]
    assert names["rows"] == sorted(map(list, zip(labels, ["void a<float>(float)", "void a<int>(int)"], strict=True)))
    assert names["truncation"] is None


def test_cells_point_at_the_same_values_as_before() -> None:
    first = ask("top_kernels", written(kernels("void a()", "void b()", "void c()")), by_device=True)
    again = ask("get_evidence", id=first["evidence"])
    for cell in ("0.total_ms", "2.kernel", "totals.busy_ms", "by_device.1.share_pct"):
        address = parse_address(f"{first['evidence']}:{cell}")
        assert resolve_address(address, again) == resolve_address(address, first)


def test_looking_twice_gives_the_same_and_leaves_the_ledger_as_it_is() -> None:
    first = ask("top_kernels", written(kernels("void a()", "void b()")))
    before = copy.deepcopy(workspace().ledger.get(first["evidence"]))
    assert ask("get_evidence", id=first["evidence"]) == ask("get_evidence", id=first["evidence"])
    assert workspace().ledger.get(first["evidence"]) == before


def test_a_result_without_names_and_an_abstention_come_back_exactly() -> None:
    path = written(kernels("void a()"))
    for skill in ("memory_transfers", "profile_info"):
        first = ask(skill, path)
        assert ask("get_evidence", id=first["evidence"]) == first


def test_a_result_that_has_a_table_of_names_keeps_its_own() -> None:
    first = ask("kernel_instances", written(kernels("void a()", "void b()")))
    assert ask("get_evidence", id=first["evidence"]) == first


def test_names_are_cut_to_whole_rows_below_the_byte_ceiling_and_say_so() -> None:
    envelope = ask("top_kernels", written(kernels("void a()")))
    names = {f"label {i:04d}": f"full name {i} " + "x" * 1000 for i in range(100)}
    again = ask("get_evidence", within=ledger_with(envelope, names), id=envelope["evidence"])
    shown = again["tables"]["names"]["rows"]
    assert len(dump_json(again).encode()) <= MAX_BYTES
    assert len(dump_json(again).encode()) > MAX_BYTES - 1200
    assert shown == [[label, names[label]] for label in sorted(names)][: len(shown)]
    assert again["tables"]["names"]["truncation"] == {
        "total_rows": 100,
        "shown_rows": len(shown),
        "next_offset": None,
    }


def test_names_are_left_out_where_not_one_row_fits() -> None:
    envelope = ask("top_kernels", written(kernels("void a()")))
    envelope["notes"] = ["x" * (MAX_BYTES - 1500)]
    again = ask("get_evidence", within=ledger_with(envelope, {"a": "y" * 1500}), id=envelope["evidence"])
    assert again == envelope


def test_names_are_cleaned_as_all_text_from_a_capture_is() -> None:
    envelope = ask("top_kernels", written(kernels("void a()")))
    again = ask("get_evidence", within=ledger_with(envelope, {"a": "ev\u202eil\x07"}), id=envelope["evidence"])
    assert again["tables"]["names"]["rows"] == [["a", "evil"]]


def test_an_id_that_is_not_kept_is_an_error_whose_hint_is_to_repeat_the_call() -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("get_evidence", id="ev-0123456789")
    assert refused.value.code is ErrorCode.EVIDENCE_NOT_FOUND
    assert "same call" in refused.value.hint
    assert "same id" in refused.value.hint


@pytest.mark.parametrize(
    "text", ["", "ev-123", "ev-012345678I", "ev-0123456789:0.total_ms", "../ev-0123456789", "null"]
)
def test_what_is_no_evidence_id_is_an_invalid_argument(text: str) -> None:
    with pytest.raises(EvidenceError) as refused:
        ask("get_evidence", id=text)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert refused.value.facts["argument"] == "id"


def test_a_server_with_roots_tells_no_list_of_profiles_that_another_made(tmp_path: Path) -> None:
    kept = FileLedger(tmp_path / "state")
    listed = ask("list_profiles", within=Workspace(Library(cache=tmp_path / "cache"), kept))
    fenced = Workspace(Library(cache=tmp_path / "other", roots=[tmp_path]), FileLedger(tmp_path / "state"))
    with pytest.raises(EvidenceError) as caught:
        ask("get_evidence", within=fenced, id=listed["evidence"])
    assert caught.value.code is ErrorCode.EVIDENCE_NOT_FOUND
    own = ask("list_profiles", within=fenced)
    assert ask("get_evidence", within=fenced, id=own["evidence"]) == own
