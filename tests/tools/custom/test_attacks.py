"""SQL that a custom skill may not have ends in a coded error, reads no file and leaves no trace in the cache."""

from __future__ import annotations

import hashlib
import os
import resource
import threading
import time
from pathlib import Path

import duckdb
import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError
from nsys_evidence.ingest.interrupt import Interrupt
from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.tools.custom import jail
from nsys_evidence.tools.custom.child import MAX_MEMORY
from nsys_evidence.tools.custom.jail import Refusal, Sql
from nsys_evidence.tools.custom.locked import connect, empty_tables, tables_in
from nsys_evidence.tools.registry import Skill
from tests.support import scratch, workspace
from tests.tools.custom.making import asked, made, tried

SECRET = "the-secret-of-this-file"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sqlite(demo_capture()[0], tmp_path_factory.mktemp("attacks") / "demo.sqlite")


@pytest.fixture(scope="module")
def canonical(demo: Path) -> Path:
    """The demo's directory in the cache."""
    return workspace().library.open(str(demo)).directory


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "secret.csv"
    path.write_text(f"{SECRET}\n{SECRET}\n")
    return path


def digest(directory: Path) -> str:
    """A hash over names, sizes and contents of all files below a directory; opening a profile touches its times."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        total.update(f"{path} {path.stat().st_size}".encode())
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()


ATTACKS = {
    # Writing and reaching out.
    "copy to a file": "COPY kernels TO '{file}'",
    "copy a query to a file": "COPY (SELECT 1) TO '{file}'",
    "copy from a file": "COPY kernels FROM '{secret}'",
    "export": "EXPORT DATABASE '{file}'",
    "import": "IMPORT DATABASE '{file}'",
    "attach": "ATTACH '{file}' AS other",
    "attach over the network": "ATTACH 'https://127.0.0.1:9/x.db' AS other",
    "detach": "DETACH memory",
    "use": "USE memory",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "load a file": "LOAD '{file}'",
    "create a table": "CREATE TABLE mine AS SELECT 1",
    "create a secret": "CREATE SECRET mine (TYPE s3)",
    "create a macro": "CREATE MACRO mine() AS 1",
    "create a function over a file": "CREATE VIEW mine AS SELECT * FROM '{secret}'",
    "insert": "INSERT INTO kernels SELECT * FROM kernels",
    "update": "UPDATE kernels SET gpu = 0",
    "delete": "DELETE FROM kernels",
    "merge": "MERGE INTO kernels USING strings ON true WHEN MATCHED THEN DELETE",
    "truncate": "TRUNCATE kernels",
    "drop": "DROP VIEW kernels",
    "alter": "ALTER TABLE kernels ADD COLUMN x INTEGER",
    "vacuum": "VACUUM",
    "checkpoint": "CHECKPOINT",
    "transaction": "BEGIN",
    # Settings.
    "set": "SET memory_limit = '100GB'",
    "reset": "RESET memory_limit",
    "unlock": "SET lock_configuration = false",
    "let out": "SET enable_external_access = true",
    "set a variable": "SET VARIABLE x = 1",
    "pragma": "PRAGMA database_list",
    "pragma that sets": "PRAGMA enable_profiling",
    "call": "CALL pragma_version()",
    # Other statements.
    "prepare": "PREPARE p AS SELECT 1",
    "execute": "EXECUTE p",
    "explain": "EXPLAIN SELECT 1",
    "explain that runs": "EXPLAIN ANALYZE SELECT 1",
    "describe": "DESCRIBE kernels",
    "show": "SHOW TABLES",
    "summarize": "SUMMARIZE kernels",
    "describe as a table": "SELECT * FROM (DESCRIBE kernels)",
    "show as a table": "SELECT * FROM (SHOW ALL TABLES)",
    "pivot": "PIVOT kernels ON gpu USING count(*)",
    "pivot as a table": "SELECT * FROM (PIVOT kernels ON gpu IN (0, 1) USING count(*))",
    # Files as tables.
    "read_csv": "SELECT * FROM read_csv('{secret}')",
    "read_csv_auto": "SELECT * FROM read_csv_auto('{secret}')",
    "read_text": "SELECT content FROM read_text('{secret}')",
    "read_blob": "SELECT content FROM read_blob('{secret}')",
    "read_parquet": "SELECT * FROM read_parquet('{kernels}')",
    "parquet_scan": "SELECT * FROM parquet_scan('{kernels}')",
    "parquet_metadata": "SELECT * FROM parquet_metadata('{kernels}')",
    "read_json": "SELECT * FROM read_json('{secret}')",
    "sniff_csv": "SELECT * FROM sniff_csv('{secret}')",
    "glob": "SELECT file FROM glob('/*')",
    "a file as a table": "SELECT * FROM '{secret}'",
    "a parquet file as a table": "SELECT * FROM '{kernels}'",
    "a file as a quoted table": 'SELECT * FROM "{secret}"',
    "an address as a table": "FROM 'https://127.0.0.1:9/x.parquet'",
    "a file in a subquery": "SELECT (SELECT count(*) FROM '{secret}') AS n",
    "a file in a join": "SELECT gpu FROM kernels JOIN '{secret}' ON true",
    "a file in EXISTS": "SELECT gpu FROM kernels WHERE EXISTS (FROM '{secret}')",
    "a file in a lambda": "SELECT list_transform([1], lambda x: (SELECT count(*) FROM '{secret}'))[1] AS n",
    "a file in a CTE": "WITH f AS (FROM '{secret}') SELECT * FROM f",
    "a file in a recursive CTE": "WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n FROM f, '{secret}') FROM f",
    "a file in ORDER BY": "SELECT gpu FROM kernels ORDER BY (SELECT count(*) FROM '{secret}')",
    "a file in LIMIT": "SELECT gpu FROM kernels LIMIT (SELECT count(*) FROM '{secret}')",
    "a file in a set operation": "SELECT gpu FROM kernels UNION ALL FROM '{secret}'",
    "a file called as a CTE elsewhere": "SELECT gpu FROM (WITH \"{secret}\" AS (SELECT 1) SELECT 1 AS gpu), '{secret}'",
    "a table by its text": "SELECT * FROM query('SELECT 1')",
    "a table by its name": "SELECT * FROM query_table('kernels')",
    "a list of tables": "SELECT * FROM query_table(['kernels', 'strings'])",
    "a series": "SELECT * FROM generate_series(1, 1000000000000)",
    "a range": "SELECT * FROM range(1000000000000)",
    "a range in a list": "SELECT len(range(1000000000)) AS n",
    "repeat a row": "SELECT * FROM repeat(1, 1000000000)",
    "a serialised plan": "SELECT * FROM json_execute_serialized_sql('{{}}')",
    "a plan as text": "SELECT json_serialize_plan('SELECT * FROM ''{secret}''') AS n",
    "an object of Python": "SELECT * FROM python_arrow_scan()",
    "a variable of Python": "SELECT * FROM job",
    # Looking around.
    "settings": "SELECT * FROM duckdb_settings()",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "databases": "SELECT * FROM duckdb_databases()",
    "views and where they read": "SELECT sql FROM duckdb_views()",
    "functions": "SELECT * FROM duckdb_functions()",
    "memory": "SELECT * FROM duckdb_memory()",
    "temporary files": "SELECT * FROM duckdb_temporary_files()",
    "sqlite_master": "SELECT * FROM sqlite_master",
    "information_schema": "SELECT * FROM information_schema.tables",
    "pg_catalog": "SELECT * FROM pg_catalog.pg_tables",
    "a table by schema": "SELECT * FROM temp.kernels",
    "getenv": "SELECT getenv('HOME') AS home",
    "getvariable": "SELECT getvariable('x') AS x",
    "current_setting": "SELECT current_setting('temp_directory') AS x",
    "current_user": "SELECT current_user",
    "user": "SELECT user",
    "version": "SELECT version() AS v",
    "a macro over a catalogue": "SELECT pg_get_viewdef(1) AS v",
    "write to a log": "SELECT write_log('x') AS x",
    # Answers that differ each time.
    "random": "SELECT random() AS r",
    "setseed": "SELECT setseed(0.5) AS r",
    "uuid": "SELECT uuid()::VARCHAR AS r",
    "now": "SELECT epoch_ns(now()) AS r",
    "current_timestamp": "SELECT current_timestamp::VARCHAR AS r",
    "localtime": "SELECT localtime::VARCHAR AS r",
    "today": "SELECT today()::VARCHAR AS r",
    "ago": "SELECT ago(INTERVAL 1 DAY)::VARCHAR AS r",
    "a macro over the time": "SELECT pg_postmaster_start_time()::VARCHAR AS r",
    "a sample": "SELECT gpu FROM kernels USING SAMPLE 3",
    "a sample of a table": "SELECT gpu FROM kernels TABLESAMPLE 10%",
    "an estimate": "SELECT approx_count_distinct(gpu) AS n FROM kernels",
    "an estimate of a list": "SELECT list_approx_count_distinct(list(gpu)) AS n FROM kernels",
    "an estimate named in a text": "SELECT list_aggregate(list(gpu), 'approx_count_distinct') AS n FROM kernels",
    "a sample named in a text": "SELECT list_aggr(list(gpu), 'reservoir_quantile', 0.5) AS n FROM kernels",
    "an estimate of an array": "SELECT array_aggr(list(gpu), 'Approx_Quantile', 0.5) AS n FROM kernels",
    "an aggregate named by a value": "SELECT list_aggr(list(gpu), 'app' || 'rox_count_distinct') AS n FROM kernels",
    "a reservoir": "SELECT reservoir_quantile(start, 0.5) AS n FROM kernels",
    "random in a lambda": "SELECT list_transform([1], lambda x: x + random())[1] AS n",
    "random in ORDER BY": "SELECT gpu FROM kernels ORDER BY random()",
    "random in a window": "SELECT row_number() OVER (ORDER BY random()) AS n FROM kernels",
    "random in a filter": "SELECT count(*) FILTER (WHERE random() < 0.5) AS n FROM kernels",
    "random by its schema": "SELECT main.random() AS r",
    "random in a method": "SELECT (1).random() AS r",
    "sleep": "SELECT sleep_ms(100000) AS r",
    "an error": "SELECT error('x') AS r",
    # Several statements, hidden ones.
    "two statements": "SELECT 1 AS a; SELECT 2 AS a",
    "two statements on lines": "SELECT 1 AS a;\nCOPY kernels TO '{file}'",
    "a statement behind a comment": "SELECT 1 AS a -- nothing more\n; DROP VIEW kernels",
    "a statement behind a block comment": "SELECT 1 AS a /* nothing; */ ; ATTACH '{file}'",
    "a statement before": "SET threads = 4; SELECT 1 AS a",
    "a statement behind a comment that ends early": "SELECT 1 AS a /* /* */ */ ; COPY kernels TO '{file}' -- */",
    "insert in a CTE": "WITH x AS (INSERT INTO kernels SELECT * FROM kernels RETURNING *) SELECT * FROM x",
    "delete in a CTE": "WITH x AS (DELETE FROM kernels RETURNING *) SELECT * FROM x",
    "update in a CTE": "WITH x AS (UPDATE kernels SET gpu = 1 RETURNING *) SELECT * FROM x",
    "a copy in a CTE": "WITH x AS (COPY kernels TO '{file}') SELECT * FROM x",
    "select into": "SELECT 1 AS a INTO mine",
    "nothing": "-- nothing",
    "only a semicolon": ";",
    "no SQL": "please drop everything",
    "an open text": "SELECT 'x",
    "much nesting": "SELECT " + "(" * 5_000 + "1" + ")" * 5_000 + " AS a",
    "nested subqueries": "SELECT a FROM " + "(SELECT a FROM " * 900 + "(SELECT 1 AS a)" + ")" * 900,
    # Parameters and columns.
    "a parameter that is not declared": "SELECT $path AS p",
    "a parameter by number": "SELECT $1 AS p",
    "a parameter without a name": "SELECT ? AS p",
    "a table as a parameter": "SELECT * FROM $path",
    "a column of bytes": "SELECT 'x'::BLOB AS b",
    "a column of a time": "SELECT TIMESTAMP '2020-01-01' AS t",
    "a column without a name": "SELECT count(*) FROM kernels",
    "two columns of a name": "SELECT gpu, gpu FROM kernels",
    "a column that is not there": "SELECT token FROM kernels",
    "a function that is not there": "SELECT system('id') AS x",
    "very many columns": "SELECT " + ", ".join(f"1 AS c{n}" for n in range(300)),
}


def test_every_attack_ends_in_a_coded_error_and_leaves_the_cache_as_it_was(
    demo: Path, canonical: Path, secret: Path, tmp_path: Path
) -> None:
    cache, places = scratch() / "cache", {"file": tmp_path / "out", "secret": secret}
    before, around = digest(cache), digest(secret.parent)
    sqls = [sql.replace("{{}}", "{}") for sql in ATTACKS.values()]
    for place, path in {**places, "kernels": canonical / "kernels.parquet"}.items():
        sqls = [sql.replace("{" + place + "}", str(path)) for sql in sqls]
    for (name, _), error in zip(ATTACKS.items(), tried(*sqls), strict=True):
        assert isinstance(error, EvidenceError), f"{name} is let through"
        assert error.code is ErrorCode.SKILL_INVALID, name
        assert error.facts["line"] >= 13, name  # type: ignore[operator]
        assert error.message.startswith(f"line {error.facts['line']}: "), name
        assert error.hint, name
        assert SECRET not in error.to_json(), name
    assert digest(cache) == before
    assert digest(secret.parent) == around
    assert list(tmp_path.iterdir()) == []


REACHING_OUT = (
    "COPY (SELECT 1) TO '{file}'",
    "ATTACH '{file}'",
    "EXPORT DATABASE '{file}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET temp_directory = '{file}'",
    "SET memory_limit = '100GB'",
    "SET threads = 8",
    "SET allowed_directories = ['/']",
    "SET python_enable_replacements = true",
    "PRAGMA enable_profiling = 'json'",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_parquet('{kernels}')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM secret",
)


@pytest.mark.parametrize("statement", REACHING_OUT)
def test_the_locks_hold_even_for_a_statement_that_nobody_checked(
    statement: str, canonical: Path, secret: Path, tmp_path: Path
) -> None:
    before = digest(scratch() / "cache")
    connection = connect(tables_in(canonical, {"kernels"}))
    text = statement.format(file=tmp_path / "out", secret=secret, kernels=canonical / "kernels.parquet")
    with pytest.raises(duckdb.Error) as caught:
        connection.execute(text).fetchall()
    assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert digest(scratch() / "cache") == before


def test_a_locked_duckdb_has_one_thread_a_memory_limit_and_no_disk() -> None:
    names = "'threads', 'memory_limit', 'enable_external_access', 'lock_configuration', 'temp_directory'"
    rows = connect(empty_tables()).execute(f"SELECT name, value FROM duckdb_settings() WHERE name IN ({names})")
    settings = dict(rows.fetchall())
    assert settings.pop("temp_directory") in ("", None)
    assert settings == {
        "threads": "1",
        "memory_limit": "953.6 MiB",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }


# What only running can show.

ENDLESS = {
    "endless recursion": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n % 7 FROM t) SELECT max(n) AS n FROM t",
    "a join of everything with everything": (
        "SELECT count(*) AS n FROM kernels a, kernels b, kernels c, kernels d"
        " WHERE a.start % 9 * b.start % 7 = c.start % d.start"
    ),
    "one endless expression": "SELECT levenshtein(repeat('a', 3000000 + gpu), repeat('b', 3000000)) AS n FROM kernels",
}


MEMORY_BOMBS = {
    "recursion that keeps all": (
        "WITH RECURSIVE t(n, s) AS (SELECT 1, repeat('x', 1000) UNION ALL SELECT n + 1, s || s FROM t WHERE n < 60)"
        " SELECT max(length(s)) AS n FROM t"
    ),
    "long texts": "SELECT max(length(repeat(start::VARCHAR, 1000000) || gpu)) AS n FROM kernels",
    "one long text": "SELECT max(length(repeat('x', 4000000000))) AS n FROM kernels",
    "a sort of everything": (
        "SELECT max(n) AS n FROM (SELECT row_number() OVER (ORDER BY a.start % 9 * b.start % 9973, c.start) AS n"
        " FROM kernels a, kernels b, kernels c)"
    ),
}


@pytest.fixture(scope="module")
def hungry() -> dict[str, Skill]:
    """Skills that nothing is wrong with until they run, by name, all checked in one process."""
    skills = tried(*ENDLESS.values(), *MEMORY_BOMBS.values())
    assert all(isinstance(skill, Skill) for skill in skills), skills
    return dict(zip([*ENDLESS, *MEMORY_BOMBS], skills, strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ENDLESS)
def test_a_query_that_does_not_end_is_ended(
    name: str, hungry: dict[str, Skill], demo: Path, canonical: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail, "RUN_S", 1.5)
    before, began = digest(canonical.parent), time.monotonic()
    with pytest.raises(EvidenceError) as caught:
        asked(hungry[name], demo)
    assert caught.value.code is ErrorCode.TIMEOUT, caught.value
    assert caught.value.facts["line"] == 13
    assert time.monotonic() - began < 15
    assert digest(canonical.parent) == before


@pytest.mark.parametrize("name", MEMORY_BOMBS)
def test_a_query_that_takes_all_memory_is_ended(
    name: str, hungry: dict[str, Skill], demo: Path, canonical: Path
) -> None:
    before = digest(canonical.parent)
    with pytest.raises(EvidenceError) as caught:
        asked(hungry[name], demo)
    assert caught.value.code is ErrorCode.SKILL_INVALID, caught.value
    assert "memory" in caught.value.message
    assert caught.value.facts["line"] == 13
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert most < MAX_MEMORY + (1 << 30)
    assert digest(canonical.parent) == before


def test_sql_that_hangs_while_it_is_bound_takes_no_other_skill_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "BIND_S", 4.0)
    constant = "SELECT levenshtein(repeat('a', 3000000), repeat('b', 3000000)) + max(gpu) AS n FROM kernels"
    hangs = Sql(constant, {})
    first, second, third = jail.bind([Sql("SELECT 1 AS a", {}), hangs, Sql("SELECT 2 AS b", {})])
    assert isinstance(second, Refusal)
    assert second.code is ErrorCode.TIMEOUT
    assert isinstance(first, dict)
    assert isinstance(third, dict)
    assert (first["columns"], third["columns"]) == ([["a", "integer"]], [["b", "integer"]])


def test_a_call_that_is_cancelled_kills_its_process_at_once(demo: Path, canonical: Path) -> None:
    interrupt = Interrupt()
    threading.Timer(1.5, interrupt.set).start()
    began = time.monotonic()
    with pytest.raises(EvidenceError) as caught:
        jail.run(Sql(ENDLESS["one endless expression"], {}), {}, canonical, 0, 20, interrupt)
    assert caught.value.code is ErrorCode.CANCELLED
    assert time.monotonic() - began < 15


def test_the_process_knows_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, dict[str, str]] = {}
    popen = jail.subprocess.Popen

    def watched(*arguments: object, **options: object) -> object:
        seen["env"] = options["env"]  # type: ignore[assignment]
        return popen(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setenv("SECRET_TOKEN", SECRET)
    monkeypatch.setattr(jail.subprocess, "Popen", watched)
    made("SELECT 1 AS a")
    assert SECRET not in " ".join(seen["env"].values())
    assert set(seen["env"]) <= {*jail._ENVIRONMENT, *jail._SETTINGS}
    assert "SECRET_TOKEN" in os.environ
