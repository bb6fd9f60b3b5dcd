"""Custom SQL from the parent's side: a child process, its deadline, and what its end means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...contracts.errors import ErrorCode, EvidenceError

if TYPE_CHECKING:
    from ...ingest.interrupt import Interrupt

BIND_S = 20.0
"""Longest time to check the SQL of the skills in a directory, in seconds; one more for each of them."""

RUN_S = 60.0
"""Longest time of a custom skill's query, in seconds; the server's own deadline holds as well."""

_SPARE_CPU_S = 5
"""What a child may compute beyond its deadline if nobody is left to kill it, in seconds."""

_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR")
"""All that a child is told of the environment."""

_SETTINGS = {
    "PYTHONHASHSEED": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # so that all that Arrow holds counts against the limit
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Sql:
    """SQL and the parameters that it may use, with their types."""

    text: str
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """SQL that a child refused or could not finish.

    Attributes:
        code: SKILL_INVALID or TIMEOUT.
        message: why.
        hint: what to do.
        position: where in the SQL, in bytes; None where nobody knows.
    """

    code: ErrorCode
    message: str
    hint: str
    position: int | None


def bind(skills: Sequence[Sql]) -> list[dict[str, Any] | Refusal]:
    """Columns, tables and parameters of each SQL, or why it is refused; one that hangs takes no other with it."""
    from ...ingest.interrupt import Interrupt

    answers: list[dict[str, Any] | Refusal] = []
    while len(answers) < len(skills):
        rest = skills[len(answers) :]
        got, end = _ask({"do": "bind", "sql": [_job(sql) for sql in rest]}, Interrupt(), BIND_S + len(rest))
        answers += [_read(answer) for answer in got]
        if end is not None:
            answers.append(end)
    return answers


def run(
    sql: Sql, given: Mapping[str, object], directory: Path, offset: int, max_rows: int, interrupt: Interrupt
) -> dict[str, Any] | Refusal:
    """The rows of a page, or why there are none.

    Raises:
        EvidenceError: as the interrupt says; PROFILE_NOT_FOUND when the profile is gone.
    """
    job = {
        "do": "run",
        "sql": [_job(sql)],
        "given": given,
        "directory": str(directory),
        "offset": offset,
        "max_rows": max_rows,
    }
    got, end = _ask(job, interrupt, RUN_S)
    if got and got[0].get("gone"):
        from ...ingest.interrupt import gone

        raise gone()
    return end or _read(got[0])


def _job(sql: Sql) -> dict[str, object]:
    return {"sql": sql.text, "types": dict(sql.types)}


def _read(answer: dict[str, Any]) -> dict[str, Any] | Refusal:
    if "error" not in answer:
        return answer
    return Refusal(ErrorCode.SKILL_INVALID, answer["error"], answer["hint"], answer["position"])


class _Child:
    """A running child, as `Interrupt.track` takes it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def interrupt(self) -> None:
        """End it at once."""
        self._process.kill()


def _ask(
    job: Mapping[str, Any], interrupt: Interrupt, deadline_s: float
) -> tuple[list[dict[str, Any]], Refusal | None]:
    """The answers of a child, and what it means that they are not all there."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", f"{__package__}.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environment, **_SETTINGS},
    )
    text = json.dumps({**job, "cpu_s": int(deadline_s) + _SPARE_CPU_S}).encode()
    late = False
    try:
        with interrupt.track(_Child(process)):
            try:
                output, _ = process.communicate(text, timeout=deadline_s)
            except subprocess.TimeoutExpired:
                late = True
                process.kill()
                output, _ = process.communicate()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    interrupt.check()
    answers = [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
    return answers, None if len(answers) == len(job["sql"]) else _end(late, deadline_s, process.returncode)


def _end(late: bool, deadline_s: float, code: int) -> Refusal:
    if late:
        message = f"the SQL did not end within {deadline_s:g} s"
        hint = "filter by $start_ns and $end_ns, ask for a narrower window, and let every recursion end"
        return Refusal(ErrorCode.TIMEOUT, message, hint, None)
    if code < 0:  # killed, by a limit or for want of memory
        hint = "make it smaller: filter before joining, and build no long texts or lists"
        return Refusal(ErrorCode.SKILL_INVALID, "the SQL needs too much memory or time", hint, None)
    raise EvidenceError(
        ErrorCode.INTERNAL, "the process of the custom skill ended without an answer", "call again, and report it"
    )
