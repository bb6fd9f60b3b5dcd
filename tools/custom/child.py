"""The process that custom SQL runs in: one job on stdin, one JSON line an answer on stdout, limits that hold.

DuckDB can be interrupted between batches only and counts its buffers but not the texts it makes, so neither its own
deadline nor its own memory limit ends every query. A process can be limited and killed.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

MAX_MEMORY = 2 << 30
"""Memory that the process may map beyond its libraries, in bytes."""


def _limit(cpu_s: int) -> None:
    try:
        import resource
    except ImportError:  # no such limits here
        return
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_CPU": cpu_s}
    with contextlib.suppress(OSError):  # where it cannot be read it is not enforced either
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limits["RLIMIT_AS"] = pages * resource.getpagesize() + MAX_MEMORY
    for name, most in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            which = getattr(resource, name)
            _, hard = resource.getrlimit(which)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (least, least))


def _answer(job: dict[str, Any], sql: dict[str, Any]) -> dict[str, Any]:
    import duckdb

    from . import locked
    from .sql import RefusedSqlError

    try:
        if job["do"] == "bind":
            return locked.bind(sql["sql"], sql["types"])
        directory = Path(job["directory"])
        return locked.run(sql["sql"], sql["types"], job["given"], directory, job["offset"], job["max_rows"])
    except RefusedSqlError as error:
        refusal = error
    except duckdb.Error as error:
        refusal = locked.failed(error)
    except (MemoryError, RecursionError):
        hint = "make it smaller: filter before joining, and build no long texts or lists"
        refusal = RefusedSqlError("the SQL needs too much memory", hint)
    except FileNotFoundError:
        return {"gone": True}
    return {"error": refusal.message, "hint": refusal.hint, "position": refusal.position}


def main() -> None:
    """Answer the job on stdin."""
    job = json.load(sys.stdin)
    import pyarrow.dataset  # noqa: F401  (loaded before the limits)

    from . import locked  # noqa: F401

    _limit(job["cpu_s"])
    for sql in job["sql"]:
        sys.stdout.write(json.dumps(_answer(job, sql)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
