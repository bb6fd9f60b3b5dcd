"""A custom skill keeps the promises of every skill: scope, order, types, paging, abstention, the same bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.synthetic import Capture, Copy, GraphLaunch, Kernel, demo_capture, write_sqlite
from nsys_evidence.tools.arguments import input_schema
from nsys_evidence.tools.custom import jail, locked, skills
from nsys_evidence.tools.custom.jail import Sql
from nsys_evidence.tools.custom.sql import RefusedSqlError
from nsys_evidence.tools.registry import Skill
from tests.strategies import Span, captures, duration, generated, gpu_span, has_length, ns, trims
from tests.support import CAPTURES, ask, needs_shared, rows_of, written
from tests.tools.custom.making import asked, made, tried

BY_KERNEL = """\
SELECT n.demangled AS kernel, count(*) AS instances,
  sum(greatest(0, least("end", $end_ns) - greatest(start, $start_ns))) AS total_ns,
  max("end" - start) AS longest_ns, count(*) > $many AS is_many
FROM kernels JOIN kernel_names n USING (name)
WHERE list_contains($gpus, gpu) AND start < $end_ns AND "end" > $start_ns
GROUP BY ALL ORDER BY total_ns DESC"""


@cache
def by_kernel() -> Skill:
    return made(BY_KERNEL, "- many: integer = 2 — more than this are many")


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in this process what is known to be harmless: a child for each example takes its time."""
    monkeypatch.setattr(skills, "run", _run_here)


def _run_here(
    sql: Sql, given: dict[str, Any], directory: Path, offset: int, max_rows: int, interrupt: Interrupt
) -> dict[str, Any]:
    try:
        return locked.run(sql.text, sql.types, given, directory, offset, max_rows)
    except RefusedSqlError as refusal:
        raise AssertionError(refusal.message) from None


def slow_rows(capture: Capture, window: Span, device: int | None, many: int) -> list[list[object]]:
    """Kernel by kernel, in plain Python."""
    names: dict[str, list[Kernel]] = defaultdict(list)
    for k in capture.kernels:
        if device in (None, k.device) and k.start < window.end and k.end > window.start:
            names[k.name].append(k)
    rows = [
        (name, len(found), sum(window.part(k) for k in found), max(duration(k) for k in found), len(found) > many)
        for name, found in names.items()
    ]
    ordered = sorted(rows, key=lambda row: (-row[2], row[0]))
    return [[name, count, ns(total), ns(longest), is_many] for name, count, total, longest, is_many in ordered]


@generated
@given(st.data())
@pytest.mark.usefixtures("in_process")
def test_its_figures_are_those_of_the_slow_and_obvious_method(data: st.DataObject) -> None:
    capture = data.draw(captures().filter(lambda found: bool(found.kernels)))
    path, arguments = written(capture), {"max_rows": 200}
    device = data.draw(st.sampled_from([None, *sorted({k.device for k in capture.kernels})]))
    many = data.draw(st.integers(0, 3))
    window = gpu_span(capture)
    if has_length(capture) and data.draw(st.booleans()):
        window = data.draw(trims(capture))
        arguments["trim"] = window.trim  # type: ignore[assignment]
    envelope = asked(by_kernel(), path, device=device, many=many, **arguments)
    assert envelope["rows"] == slow_rows(capture, window, device, many)
    assert envelope["status"] == ("ok" if envelope["rows"] else "empty")
    page = asked(by_kernel(), path, **{**arguments, "device": device, "many": many, "max_rows": 2, "offset": 1})
    assert page["rows"] == envelope["rows"][1:3]
    assert page["truncation"]["total_rows"] == len(envelope["rows"])


US = 1_000


def kernel(start: int, end: int, device: int = 0, name: str = "scale", pid: int = 101) -> Kernel:
    return Kernel(start * US, end * US, device, 1, 7, None, pid, name)


@pytest.fixture(scope="module")
def two_devices() -> Path:
    return written(Capture([kernel(0, 10), kernel(5, 20, 1, "copy_kernel"), kernel(30, 40, 1)]))


@pytest.mark.usefixtures("in_process")
def test_it_is_asked_as_every_skill_is(two_devices: Path) -> None:
    skill = by_kernel()
    assert set(input_schema(skill)["properties"]) == {
        *("profile", "many", "device", "trim", "iteration", "marker", "max_rows", "offset")
    }
    first = asked(skill, two_devices)
    assert first["rows"] == [["scale", 2, 20_000, 10_000, False], ["copy_kernel", 1, 15_000, 15_000, False]]
    assert first["scope"] == {**first["scope"], "devices": [0, 1], "by": "gpu window"}
    assert dump_json(asked(skill, two_devices)) == dump_json(first)
    assert asked(skill, two_devices, device=1, many=0)["rows"][0] == ["copy_kernel", 1, 15_000, 15_000, True]
    assert asked(skill, two_devices, trim=["0.000008", "0.000031"])["rows"] == [
        ["copy_kernel", 1, 12_000, 15_000, False],
        ["scale", 2, 3_000, 10_000, False],
    ]
    cut = asked(skill, two_devices, max_rows=1)
    assert cut["truncation"] == {"total_rows": 2, "shown_rows": 1, "next_offset": 1}
    for wrong, code in (({"device": 7}, "DEVICE_NOT_FOUND"), ({"few": 1}, "UNKNOWN_ARGUMENT"), ({"many": "x"}, "")):
        with pytest.raises(EvidenceError) as caught:
            asked(skill, two_devices, **wrong)
        assert caught.value.code == (code or "INVALID_ARGUMENT")


def test_what_it_reads_and_was_not_recorded_makes_it_abstain() -> None:
    without = written(Capture(copies=[Copy(0, 10, 0, 1, 7, None, 101, 64, 1)]))
    envelope = asked(by_kernel(), without)
    assert (envelope["status"], envelope["missing"]) == ("abstained", ["kernels"])
    assert envelope["capture_hint"].startswith("nsys profile")


@pytest.mark.usefixtures("in_process")
def test_graphs_that_hide_kernels_make_it_partial() -> None:
    graph = GraphLaunch(0, 30 * US, 0, 1, 9, None, 101, 1)
    envelope = asked(by_kernel(), written(Capture([kernel(10, 40)], graph_launches=[graph])))
    assert envelope["status"] == "partial"
    assert any("graph" in note and "hidden" in note for note in envelope["notes"])


@pytest.fixture(scope="module")
def plain() -> dict[str, Skill]:
    """Skills over no scope, by name, all checked in one process."""
    sqls = {
        "all kernels": "SELECT start, name, gpu FROM kernels",
        "ordered": "SELECT start, gpu FROM kernels ORDER BY gpu DESC",
        "cut": "SELECT gpu, start FROM kernels ORDER BY gpu LIMIT 2",
        "cut without an order": "SELECT start, gpu FROM kernels LIMIT 2",
        "against the order of the table": "SELECT -start AS s FROM kernels",
        "ties against the order of the table": "SELECT gpu, -start AS s FROM kernels ORDER BY gpu DESC",
        "a cut of ties": "SELECT gpu, -start AS s FROM kernels ORDER BY gpu LIMIT 2",
        "a page of a cut": "SELECT start FROM kernels LIMIT 2 OFFSET 1",
        "order by all": "SELECT gpu, start FROM kernels ORDER BY ALL DESC",
        "a union": "SELECT gpu AS a FROM kernels UNION ALL SELECT 9 AS a ORDER BY a DESC",
        "first of each": "SELECT DISTINCT ON (gpu) gpu, start FROM kernels ORDER BY gpu, start DESC",
        "types": (
            "SELECT 1 AS i, 9007199254740993 AS large, 170141183460469231731687303715884105727 AS huge, -5 AS negative,"
            " 0.1::DOUBLE + 0.2::DOUBLE AS d, 2.5::DECIMAL(9,1) AS exact, 1e300 AS far, 1e-9 AS small, true AS f,"
            " NULL::INTEGER AS nothing, 'a' || chr(7) || chr(8238) || 'b' AS t, repeat('x', 3000) AS long"
        ),
        "no numbers": "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, -('inf'::DOUBLE) AS c",
        "nothing": "SELECT gpu FROM kernels WHERE gpu > 99",
        "dialect": (
            "WITH RECURSIVE up(depth) AS (SELECT 0 UNION ALL SELECT depth + 1 FROM up WHERE depth < 3),"
            " kernels AS (SELECT gpu, start FROM kernels)"
            " SELECT u.depth AS depth, count(*) FILTER (WHERE gpu = 1) AS n, list_sum(list(gpu)) AS s,"
            " quantile_cont(start, 0.5) AS med, coalesce(nullif(max(gpu), 1), 7) AS c, split_part('a.b', '.', 2) AS p,"
            " string_agg(gpu::VARCHAR, ',' ORDER BY start) AS g, if(u.depth > 1, 'deep', 'flat') AS f,"
            " list_transform([1, 2], lambda x: x + u.depth)[2] AS l, lag(u.depth) OVER (ORDER BY u.depth) AS before,"
            " (SELECT count(*) FROM strings) > 0 AS has, u.depth IN (1, 2) AS b, 'x' LIKE '%x%' AS k"
            " FROM up u, kernels GROUP BY u.depth"
        ),
        "comment": "SELECT 1 AS a /* /* */ ; COPY kernels TO '/nowhere/x' -- */",
        "division": "SELECT 1 // (gpu - gpu) AS a FROM kernels",
        "conversion": "SELECT ('x' || gpu)::INTEGER AS a FROM kernels",
    }
    found = tried(*sqls.values())
    wrong = {name: error for name, error in zip(sqls, found, strict=True) if isinstance(error, EvidenceError)}
    assert not wrong
    return dict(zip(sqls, found, strict=True))  # type: ignore[arg-type]


@pytest.mark.usefixtures("in_process")
def test_rows_have_a_total_order_its_own_first_then_every_column(plain: dict[str, Skill], two_devices: Path) -> None:
    def rows(name: str, **page: int) -> list[list[object]]:
        found: list[list[object]] = asked(plain[name], two_devices, **page)["rows"]
        return found

    assert [row[0] for row in rows("all kernels")] == [0, 5_000, 30_000]
    assert rows("ordered") == [[5_000, 1], [30_000, 1], [0, 0]]
    assert rows("against the order of the table") == [[-30_000], [-5_000], [0]]
    assert rows("ties against the order of the table") == [[1, -30_000], [1, -5_000], [0, 0]]
    assert rows("a cut of ties") == [[0, 0], [1, -30_000]]
    assert rows("cut") == [[0, 0], [1, 5_000]]
    assert rows("cut without an order") == [[0, 0], [5_000, 1]]
    assert rows("a page of a cut") == [[5_000], [30_000]]
    assert rows("a page of a cut", offset=1) == [[30_000]]
    assert rows("order by all") == [[1, 30_000], [1, 5_000], [0, 0]]
    assert rows("a union") == [[9], [1], [1], [0]]
    assert rows("first of each") == [[0, 0], [1, 30_000]]
    assert asked(plain["nothing"], two_devices)["status"] == "empty"


@pytest.mark.usefixtures("in_process")
def test_values_have_the_types_of_their_columns(plain: dict[str, Skill], two_devices: Path) -> None:
    [row] = rows_of(asked(plain["types"], two_devices))
    assert row == {
        "i": 1,
        "large": "9007199254740993",
        "huge": "170141183460469231731687303715884105727",
        "negative": -5,
        "d": 0.3,
        "exact": 2.5,
        "far": 1e300,
        "small": 0.0,
        "f": True,
        "nothing": None,
        "t": "ab",
        "long": "x" * 1999 + "…",
    }
    envelope = asked(plain["no numbers"], two_devices)
    assert envelope["rows"] == [[None, None, None]]
    assert any("NaN" in note for note in envelope["notes"])


@pytest.mark.usefixtures("in_process")
def test_the_sql_that_analysts_write_is_let_through(plain: dict[str, Skill], two_devices: Path) -> None:
    first, *_, last = rows_of(asked(plain["dialect"], two_devices))
    assert first == {
        **{"depth": 0, "n": 2, "s": 2, "med": 5_000.0, "c": 7, "p": "b", "g": "0,1,1", "f": "flat", "l": 2},
        **{"before": None, "has": True, "b": False, "k": True},
    }
    assert (last["depth"], last["f"], last["before"]) == (3, "deep", 2)
    assert asked(plain["comment"], two_devices)["rows"] == [[1]]


def test_sql_that_fails_while_it_runs_is_a_coded_error(plain: dict[str, Skill], two_devices: Path) -> None:
    for name, what in (("division", "Division by zero"), ("conversion", "Conversion Error")):
        with pytest.raises(EvidenceError) as caught:
            asked(plain[name], two_devices)
        assert caught.value.code is ErrorCode.SKILL_INVALID
        assert caught.value.facts["line"] == 13
        assert what in caught.value.message


def test_a_skill_that_looks_at_no_window_takes_none_and_names_none(
    plain: dict[str, Skill], two_devices: Path, in_process: None
) -> None:
    skill = plain["all kernels"]
    assert set(input_schema(skill)["properties"]) == {"profile", "max_rows", "offset"}
    assert asked(skill, two_devices)["scope"] is None


def test_a_skill_that_chooses_no_devices_takes_none() -> None:
    windowed, host = tried(
        'SELECT count(*) AS n FROM kernels WHERE start < $end_ns AND "end" > $start_ns',
        'SELECT count(*) AS n FROM calls WHERE start < $end_ns AND "end" > $start_ns',
    )
    assert isinstance(windowed, Skill)
    assert isinstance(host, Skill)
    assert "trim" in input_schema(windowed)["properties"]
    assert "device" not in input_schema(windowed)["properties"]
    assert (windowed.window, host.window) == ("gpu", "capture")


PARAMETERS = """\
- n: integer — a required one
- x: number = 0.5 — a number
- t: text = "it's" — a text
- f: flag = false — a flag"""


@pytest.mark.usefixtures("in_process")
def test_parameters_are_values_and_never_sql(two_devices: Path) -> None:
    skill = made("SELECT $n AS n, $x AS x, $t AS t, $f AS f", PARAMETERS)
    assert input_schema(skill)["required"] == ["profile", "n"]
    assert asked(skill, two_devices, n=3)["rows"] == [[3, 0.5, "it's", False]]
    evil = "'; DROP VIEW kernels; --"
    assert asked(skill, two_devices, n=2**62, x=2, t=evil, f=True)["rows"] == [[str(2**62), 2.0, evil, True]]
    wrong: list[dict[str, Any]] = [{}, {"n": 2**63}, {"n": 1.5}, {"n": 1, "t": "a\ud800"}, {"n": 1, "t": "x" * 2001}]
    for arguments in [*wrong, {"n": 1, "x": float("inf")}, {"n": 1, "f": "maybe"}]:
        with pytest.raises(EvidenceError) as caught:
            asked(skill, two_devices, **arguments)
        assert caught.value.code is ErrorCode.INVALID_ARGUMENT, arguments


def test_a_process_of_its_own_gives_the_same_bytes(two_devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_child = dump_json(asked(by_kernel(), two_devices))
    monkeypatch.setattr(skills, "run", _run_here)
    assert dump_json(asked(by_kernel(), two_devices)) == of_child


@pytest.mark.usefixtures("in_process")
def test_the_evidence_of_other_sql_under_the_same_name_is_another(two_devices: Path) -> None:
    one, other = tried("SELECT 1 AS a", "SELECT 2 - 1 AS a")
    assert isinstance(one, Skill)
    assert isinstance(other, Skill)
    first, second = asked(one, two_devices), asked(other, two_devices)
    assert first["rows"] == second["rows"]
    assert first["evidence"] != second["evidence"]


def test_a_profile_that_left_the_cache_is_ingested_again(two_devices: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    real = jail.run
    calls: Iterator[int] = iter(range(9))

    def evicted(sql: Sql, given: dict[str, Any], directory: Path, *rest: Any) -> Any:
        if next(calls) == 0:
            shutil.rmtree(directory)
        return real(sql, given, directory, *rest)

    monkeypatch.setattr(skills, "run", evicted)
    assert asked(by_kernel(), two_devices)["totals"] == {}
    assert next(calls) == 2


@needs_shared
def test_kernel_time_of_a_real_capture_is_that_of_the_built_in_skill() -> None:
    capture = next(path for path in CAPTURES if path.stem == "h100x2_nccl_2026.2")
    mine = asked(by_kernel(), capture, max_rows=200)
    theirs = rows_of(ask("top_kernels", capture, max_rows=200))
    assert sorted(row[1] for row in mine["rows"]) == sorted(row["instances"] for row in theirs)
    totals = sorted(row[2] for row in mine["rows"])
    assert [round(total / 1e6, 3) for total in totals] == pytest.approx(
        sorted(row["total_ms"] for row in theirs), abs=0.001
    )


def test_on_the_demo_capture_it_counts_what_was_planted(tmp_path: Path) -> None:
    capture, _ = demo_capture()
    rows = rows_of(asked(by_kernel(), write_sqlite(capture, tmp_path / "demo.sqlite"), max_rows=200))
    assert sum(row["instances"] for row in rows) == len(capture.kernels)
