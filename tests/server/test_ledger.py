"""The ledger keeps every result under its id, for all processes, and never fails for want of a disk."""

import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.evidence import evidence_id
from nsys_evidence.server.ledger import FileLedger, evidence_directory, prune

NAMES = {"gemm": "void gemm<float>(float *)"}


def envelope_of(number: int, name: str = "a.sqlite") -> dict[str, object]:
    body: dict[str, object] = {"skill": "s", "profile": {"id": "p-1", "name": name}, "rows": [[number, None, 0.5, "µ"]]}
    return {"evidence": evidence_id("p-1", "s", {"n": number}, body), **body}


def stored(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_result_is_one_file_that_another_process_reads(tmp_path: Path) -> None:
    envelope = envelope_of(1)
    FileLedger(tmp_path).put(envelope, NAMES)
    assert stored(tmp_path) == [f"{envelope['evidence']}.json"]
    assert json.loads((tmp_path / stored(tmp_path)[0]).read_text()) == {"envelope": envelope, "names": NAMES}
    assert FileLedger(tmp_path).get(str(envelope["evidence"])) == (envelope, NAMES)


def test_the_first_result_under_an_id_stays_to_the_byte(tmp_path: Path) -> None:
    first, copy = envelope_of(1, "a.sqlite"), envelope_of(1, "copy of a.sqlite")
    assert first["evidence"] == copy["evidence"]
    FileLedger(tmp_path).put(first, NAMES)
    before = (tmp_path / stored(tmp_path)[0]).read_bytes()
    other = FileLedger(tmp_path)
    other.put(copy, NAMES)
    other.put(copy, NAMES)
    assert (tmp_path / stored(tmp_path)[0]).read_bytes() == before
    assert other.get(str(first["evidence"])) == (first, NAMES)


def test_what_a_caller_does_to_a_result_does_not_reach_the_ledger(tmp_path: Path) -> None:
    ledger, envelope = FileLedger(tmp_path), envelope_of(1)
    ledger.put(envelope, NAMES)
    kept = ledger.get(str(envelope["evidence"]))
    assert kept is not None
    kept[0]["rows"].clear()
    envelope["rows"] = "changed"
    assert ledger.get(str(envelope["evidence"])) == (envelope_of(1), NAMES)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"envelope": {}, "names": {}}', '{"envelope": 1}', "null", "\x00"])
def test_a_damaged_file_is_no_result_and_is_replaced(tmp_path: Path, text: str) -> None:
    envelope = envelope_of(1)
    path = tmp_path / f"{envelope['evidence']}.json"
    path.write_text(text)
    assert FileLedger(tmp_path).get(str(envelope["evidence"])) is None
    FileLedger(tmp_path).put(envelope, NAMES)
    assert FileLedger(tmp_path).get(str(envelope["evidence"])) == (envelope, NAMES)


@given(st.text(max_size=30) | st.sampled_from(["../secret", "ev-../../etc", "ev-7k3m9qx2w4/../x", "ev-7K3M9QX2W4"]))
def test_only_an_evidence_id_ever_becomes_a_file_name(evidence: str) -> None:
    class Trap(FileLedger):
        def _path(self, evidence: str) -> Path:
            raise AssertionError(evidence)

    assert Trap(Path("nowhere")).get(evidence) is None


def test_a_place_that_cannot_be_written_means_memory_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    ledger = FileLedger(tmp_path / "file" / "evidence")
    for number in range(3):
        ledger.put(envelope_of(number), NAMES)
    assert ledger.get(str(envelope_of(2)["evidence"])) == (envelope_of(2), NAMES)
    assert len(caplog.records) == 1
    assert str(tmp_path) not in caplog.text


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    ledger = FileLedger(tmp_path)
    ledger.put(envelope_of(1), NAMES)
    assert stored(tmp_path) == []
    assert ledger.get(str(envelope_of(1)["evidence"])) == (envelope_of(1), NAMES)


def test_memory_is_bounded_and_forgets_the_least_recently_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = FileLedger(tmp_path / "file", max_in_memory=2)
    first, second, third = (envelope_of(number) for number in range(3))
    ledger.put(first, NAMES)
    ledger.put(second, NAMES)
    ledger.get(str(first["evidence"]))
    ledger.put(third, NAMES)
    assert ledger.get(str(second["evidence"])) is None
    assert ledger.get(str(first["evidence"])) == (first, NAMES)


def test_the_files_used_longest_ago_go_first(tmp_path: Path) -> None:
    for age, number in enumerate((3, 1, 2, 0)):
        envelope = envelope_of(number)
        FileLedger(tmp_path).put(envelope, NAMES)
        os.utime(tmp_path / f"{envelope['evidence']}.json", ns=(age, age))
    (tmp_path / ".half.tmp").write_text("")
    os.utime(tmp_path / ".half.tmp", ns=(0, 0))
    (tmp_path / "README").write_text("not ours")
    assert prune(tmp_path, keep=2) == 3
    assert stored(tmp_path) == sorted(["README", *(f"{envelope_of(number)['evidence']}.json" for number in (0, 2))])
    assert prune(tmp_path, keep=2) == 0


def test_every_process_keeps_the_number_of_files_bounded_however_short_it_lives(tmp_path: Path) -> None:
    for number in range(12):
        FileLedger(tmp_path, max_files=5).put(envelope_of(number), NAMES)
    assert len(stored(tmp_path)) <= 5


def test_a_result_that_is_asked_for_again_is_not_the_oldest(tmp_path: Path) -> None:
    old, young = envelope_of(1), envelope_of(2)
    ledger = FileLedger(tmp_path)
    for age, envelope in enumerate((old, young)):
        ledger.put(envelope, NAMES)
        os.utime(tmp_path / f"{envelope['evidence']}.json", ns=(age, age))
    ledger.put(old, NAMES)
    prune(tmp_path, keep=1)
    assert stored(tmp_path) == [f"{old['evidence']}.json"]


def test_many_threads_and_ledgers_put_the_same_results_without_harm(tmp_path: Path) -> None:
    def work() -> None:
        ledger = FileLedger(tmp_path)
        for number in range(20):
            ledger.put(envelope_of(number), NAMES)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(tmp_path) == sorted(f"{envelope_of(number)['evidence']}.json" for number in range(20))
    assert all(FileLedger(tmp_path).get(name.removesuffix(".json")) for name in stored(tmp_path))


def test_the_directory_is_the_one_of_the_environment_else_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_STATE", "/somewhere/state")
    assert evidence_directory() == Path("/somewhere/state/evidence")
    monkeypatch.delenv("NSYS_EVIDENCE_STATE")
    assert evidence_directory().parts[-2:] == ("nsys-evidence", "evidence")
