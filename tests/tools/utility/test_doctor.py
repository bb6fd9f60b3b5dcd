"""doctor says what a capture, or a machine, cannot carry, and takes nothing unknown for fine."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.cache import Cache
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.synthetic import Call, Capture, Copy, GraphLaunch, Kernel, Range, demo_capture, write_sqlite
from nsys_evidence.server.cli import cli
from nsys_evidence.tools.registry import all_skills
from nsys_evidence.tools.run import run_skill
from nsys_evidence.tools.utility import environment_checks
from nsys_evidence.tools.workspace import Workspace
from tests.nsys_program import pretend_nsys
from tests.parquet_export import write_parquetdir
from tests.support import CAPTURES, MemoryLedger, ask, needs_shared, rows_of, scratch, written

DEMO = demo_capture()[0]
KERNEL = Kernel(1_000, 2_000, 0, 1, 7, 5, 101, "k()")


def checks(capture: Path | None, **more: object) -> dict[str, dict[str, Any]]:
    return {row["check"]: row for row in rows_of(ask("doctor", capture, **more))}


def status(capture: Capture, check: str) -> str:
    return str(checks(written(capture))[check]["status"])


def test_the_demo_is_in_order_but_for_what_it_does_not_record() -> None:
    found = checks(written(DEMO))
    assert {row["status"] for row in found.values()} == {"ok", "not recorded"}
    assert found["events: kernels"]["count"] == len(DEMO.kernels)
    assert found["events: nvtx"]["count"] == sum(r.style == "pushpop" for r in DEMO.ranges)
    assert found["collectives"]["count"] == sum("nccl" in k.name for k in DEMO.kernels)
    assert found["GPUs with work"]["count"] == 2
    assert found["clocks"]["pct"] == 0


def test_the_totals_count_all_checks_also_those_that_are_not_shown() -> None:
    whole, cut = ask("doctor", written(DEMO)), ask("doctor", written(DEMO), max_rows=3)
    assert sum(whole["totals"].values()) == len(whole["rows"])
    assert (cut["totals"], cut["rows"]) == (whole["totals"], whole["rows"][:3])


def test_gpu_work_before_its_call_means_clocks_that_are_not_aligned() -> None:
    calls = [Call(900, 950, 101, 101, "cudaLaunchKernel", 5), Call(5_000, 5_010, 101, 101, "cudaLaunchKernel", 6)]
    early = replace(KERNEL, start=4_000, end=4_500, correlation=6)
    found = checks(written(Capture(kernels=[KERNEL, early], calls=calls)))["clocks"]
    assert (found["status"], found["count"], found["pct"]) == ("warn", 1, 50)
    assert status(Capture(kernels=[KERNEL], calls=calls[:1]), "clocks") == "ok"
    assert status(Capture(kernels=[KERNEL]), "clocks") == "not recorded"


def test_what_was_not_recorded_comes_with_what_would_record_it() -> None:
    found = checks(written(Capture(calls=[Call(100, 200, 101, 101, "cudaMalloc")])))
    for check in ("gpu window", "events: kernels", "GPUs with work", "collectives"):
        assert found[check]["status"] == "not recorded"
        assert found[check]["note"].startswith("nsys profile --trace=cuda")
        assert found[check]["count"] is None
    assert found["events: osrt"]["note"].startswith("nsys profile --trace=cuda,nvtx,osrt")


def test_what_was_not_traced_is_unknown_and_not_fine() -> None:
    found = checks(written(Capture(calls=[Call(100, 200, 101, 101, "cudaMalloc")])))
    for check in ("NVTX marks", "unclosed NVTX ranges", "whole CUDA graphs", "GPUs listed"):
        assert (found[check]["status"], found[check]["count"]) == ("not recorded", None)


def test_a_capture_without_events_fails() -> None:
    assert status(Capture(), "capture window") == "fail"


def test_rows_and_ranges_that_cannot_be_true_are_counted() -> None:
    capture = Capture(
        kernels=[KERNEL, replace(KERNEL, start=9, end=3)],
        copies=[Copy(7, 2, 0, 1, 7, None, 101, 4096, 1)],
        ranges=[Range(1, None, 101, 101, "never closed")],
        graph_launches=[GraphLaunch(5, 30, 0, 1, 8, None, 101, 1)],
    )
    found = checks(written(capture))
    for check in ("impossible rows: kernels", "impossible rows: copies", "unclosed NVTX ranges", "whole CUDA graphs"):
        assert (found[check]["status"], found[check]["count"]) == ("warn", 1)


def said(*messages: tuple[int, str]) -> Capture:
    rows: list[dict[str, object]] = [{"timestamp": 1, "severity": level, "text": text} for level, text in messages]
    return replace(DEMO, extra_tables={"DIAGNOSTIC_EVENT": rows})


def test_messages_of_nsys_are_counted_by_severity_and_by_what_they_say_of_lost_events() -> None:
    capture = said(
        (1, "Lost nothing worth a warning"),
        (2, "Not all CUDA events might have been collected."),
        (3, "no"),
        (3, "12 events were DROPPED"),
        (3, "Event requests: 0 dropped"),
        (3, "Number of CUDA events lost: 0"),
    )
    found = checks(written(capture))
    assert (found["messages of lost events"]["status"], found["messages of lost events"]["count"]) == ("warn", 2)
    assert (found["errors of nsys"]["status"], found["errors of nsys"]["count"]) == ("warn", 4)
    assert (found["warnings of nsys"]["status"], found["warnings of nsys"]["count"]) == ("ok", 1)
    fine = checks(written(said((1, "Process was launched"))))
    assert [fine[check]["count"] for check in ("messages of lost events", "errors of nsys")] == [0, 0]


def test_without_messages_or_without_their_texts_lost_events_are_unknown() -> None:
    assert status(DEMO, "messages of lost events") == "not recorded"
    blank = checks(written(said((3, ""))))
    assert (blank["messages of lost events"]["status"], blank["errors of nsys"]["count"]) == ("not recorded", 1)


@given(
    spans=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 200)), min_size=1, max_size=12),
    origin=st.sampled_from([0, 10**15]),
)
@settings(max_examples=40, deadline=None)
def test_the_overhead_is_the_union_of_nsys_own_work_within_the_capture(
    spans: list[tuple[int, int]], origin: int
) -> None:
    first, last = 100 * 10**6 + origin, 500 * 10**6 + origin
    rows: list[dict[str, object]] = [
        {"start": origin + start * 10**6, "end": origin + (start + size) * 10**6, "globalTid": 101 << 24}
        for start, size in spans
    ]
    believed = [row for row in rows if (row["start"], row["end"]) != (0, 0)]
    path = written(
        Capture(
            kernels=[replace(KERNEL, start=first, end=first + 1), replace(KERNEL, start=last - 1, end=last)],
            extra_tables={"PROFILER_OVERHEAD": rows},
        )
    )
    covered = {ms for start, size in spans for ms in range(max(start, 100), min(start + size, 500))}
    found = checks(path)["overhead of nsys"]
    if not believed:
        assert found["ms"] in (None, 0)
        return
    assert found["ms"] == len(covered)
    assert found["pct"] == pytest.approx(100 * len(covered) / 400, abs=0.005)
    assert found["status"] == ("warn" if len(covered) >= 20 else "ok")


@needs_shared
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_a_real_capture_has_the_same_checks_from_sqlite_and_parquet_but_for_the_export(
    capture: Path, tmp_path: Path
) -> None:
    one, other = checks(capture), checks(write_parquetdir(capture, tmp_path / "export"))
    assert one.pop("export")["value"].startswith("sqlite, ")
    assert other.pop("export")["value"].startswith("parquetdir, ")
    assert other == one


def test_the_checks_of_a_capture_do_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(DEMO)
    before = dump_json(ask("doctor", path))
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "nonsense")
    monkeypatch.setenv("NSYS_EVIDENCE_NSYS", "/nowhere/nsys")
    assert dump_json(ask("doctor", path)) == before


def test_without_a_profile_it_looks_at_the_machine_and_names_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NSYS_EVIDENCE_INGEST", raising=False)

    def looked(nsys: Path) -> dict[str, dict[str, Any]]:
        library = Library(cache=tmp_path / "cache", nsys=nsys, roots=[tmp_path / "root"])
        envelope = run_skill(all_skills()["doctor"], {}, Workspace(library, MemoryLedger()))
        assert str(tmp_path) not in dump_json(envelope)
        assert (envelope["profile"], envelope["scope"]) == (None, None)
        return {row["check"]: row for row in rows_of(envelope)}

    found = looked(pretend_nsys(tmp_path / "nsys", "exit 1"))
    assert found["nsys"]["value"] == "2023.4.4.54-234433681190v0"
    assert (found["cache"]["status"], found["profiles in the cache"]["count"]) == ("ok", 0)
    assert found["python"]["value"].startswith("3.")
    absent = looked(tmp_path / "absent")["nsys"]
    assert (absent["status"], absent["value"]) == ("warn", None)
    assert "nsys export --type=sqlite" in absent["note"]
    monkeypatch.setenv("NSYS_EVIDENCE_INGEST", "nonsense")
    assert looked(tmp_path / "absent")["form of export"]["status"] == "fail"


def test_a_capture_outside_the_roots_is_not_looked_at(tmp_path: Path) -> None:
    path = write_sqlite(DEMO, scratch() / "outside.sqlite")
    library = Library(cache=tmp_path / "cache", roots=[tmp_path])
    with pytest.raises(EvidenceError) as caught:
        run_skill(all_skills()["doctor"], {"profile": str(path)}, Workspace(library, MemoryLedger()))
    assert caught.value.code is ErrorCode.PATH_NOT_ALLOWED


def test_the_command_is_strict_where_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS_EVIDENCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NSYS_EVIDENCE_STATE", str(tmp_path / "state"))
    fine = write_sqlite(DEMO, tmp_path / "fine.sqlite")
    ill = write_sqlite(said((3, "events were lost")), tmp_path / "ill.sqlite")
    for arguments, code in (([fine, "--strict"], 0), ([ill], 0), ([ill, "--strict"], 1), ([], 0)):
        result = CliRunner().invoke(cli, ["doctor", *map(str, arguments), "--format", "json"])
        assert result.exit_code == code, result.output
        assert json.loads(result.stdout)["skill"] == "doctor"


def test_an_export_of_an_unknown_schema_warns() -> None:
    found = checks(written(replace(DEMO, schema="3.99.0")))["export"]
    assert (found["status"], "3.99.0" in found["note"]) == ("warn", True)
    assert status(DEMO, "export") == "ok"


def test_a_device_id_that_may_mean_several_gpus_warns() -> None:
    capture = Capture(kernels=[KERNEL, replace(KERNEL, pid=102)])
    found = checks(written(capture))["GPUs with work"]
    assert (found["status"], found["count"]) == ("warn", 2)
    assert status(DEMO, "GPUs with work") == "ok"


def test_a_machine_without_room_without_a_library_or_with_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked() -> dict[str, str]:
        library = Library(cache=tmp_path / "cache")
        envelope = run_skill(all_skills()["doctor"], {}, Workspace(library, MemoryLedger()))
        return {row["check"]: row["status"] for row in rows_of(envelope)}

    monkeypatch.setattr(Cache, "free_bytes", lambda self: 5 * 2**30)
    fine = looked()
    assert (fine["room on its disk"], fine["cache"], fine["duckdb"]) == ("ok", "ok", "ok")

    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(Cache, "free_bytes", lambda self: 5 * 2**30 - 1)
    monkeypatch.setattr(Cache, "is_writable", lambda self: False)
    monkeypatch.setattr(environment_checks, "version", unknown)
    bad = looked()
    assert (bad["room on its disk"], bad["cache"], bad["duckdb"]) == ("warn", "fail", "fail")
