"""docs/custom-skills.md shows a real file, its real result, and the tables as they are.

After a change that is meant: `python -m tests.test_custom_skills_doc`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from nsys_evidence.contracts.wire import dump_json
from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.ingest.tables import TABLES
from nsys_evidence.tools.custom import child, jail, locked
from nsys_evidence.tools.custom.markdown import parse_skill
from nsys_evidence.tools.custom.skills import KIND_OF_TABLE, make_skills
from nsys_evidence.tools.registry import Skill
from tests.support import scratch
from tests.tools.custom.making import asked

DOC = Path(__file__).resolve().parents[1] / "docs" / "custom-skills.md"
CAPTURE = "nsys-evidence-demo.sqlite"

FILE = """\
# copies_by_size

## Description
To see whether copies are many and small: copies and bytes by power of two of their size.

Rows are per kind of copy (1 host to device, 2 device to host, 8 device to device) and size class. Bytes count where a
copy starts.

## Category
memory

## Parameters
- least_bytes: integer = 1 — copies smaller than this are left out

## SQL
```sql
SELECT kind, CAST(floor(log2(bytes)) AS INTEGER) AS size_class, count(*) AS copies, sum(bytes) AS total_bytes,
       avg("end" - start) / 1000 AS avg_us
FROM copies
WHERE list_contains($gpus, gpu) AND start >= $start_ns AND start < $end_ns AND bytes >= $least_bytes
GROUP BY ALL
ORDER BY total_bytes DESC
```
"""

MEANING = {
    "strings": "every text that an event refers to",
    "processes": "processes; `pid` is that of the system",
    "threads": "threads",
    "streams": "streams of a device, process and context; `label` is how results call them",
    "kernel_names": "one row per kernel name: short label, full name, and the collective it stands for, if any",
    "kernels": "kernels; `comm` says whether it is a collective, `call_start` to `stack` are its launch",
    "copies": "memory copies; the kinds are CUPTI's numbers",
    "sets": "memory sets",
    "graphs": "CUDA graphs traced as a whole",
    "calls": "CUDA API calls; `driver` tells driver from runtime calls",
    "running": "stretches of a thread on a CPU; `state` is that on leaving it",
    "samples": "CPU samples",
    "tensor_samples": "samples of GPU metrics about tensor activity; `value` is in the unit of the metric's name",
    "nccl_calls": "NCCL calls with their decoded payload",
    "syncs": "synchronisations as CUPTI records them",
    "osrt": "OS runtime calls",
    "nvtx_ranges": "NVTX push/pop ranges; `parent` and `depth` are those of thread and domain",
    "nvtx_spans": "NVTX start/end ranges",
    "stacks": "stacks of NVTX ranges that work was launched under; `range` is a row of `nvtx_ranges`",
    "paths": "names of stacks, as recorded",
    "plain_paths": "the same with PyTorch's counters cut",
    "busy": "merged intervals per device: `kind` is compute, comm, kernel, work or compute_copy",
    "stream_busy": "merged intervals per stream",
    "kernel_overlaps": "stretches in which several kernels run on a device, and how many",
}


@cache
def parts() -> dict[str, str]:
    """The generated parts of the page, by their mark."""
    [skill] = make_skills([parse_skill(FILE)])
    assert isinstance(skill, Skill), skill
    (scratch() / "custom-doc").mkdir()
    capture = write_sqlite(demo_capture()[0], scratch() / "custom-doc" / CAPTURE)
    envelope: dict[str, Any] = json.loads(dump_json(asked(skill, capture, least_bytes=1024, max_rows=3)))
    shown = ",\n".join(
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in envelope.items()
    )
    command = f"nsys-evidence skill run copies_by_size {CAPTURE} -p least_bytes=1024 --max-rows 3 --format json"
    tables = "".join(
        f"| `{name}` | {MEANING[name]} | {', '.join(f'`{c.name}` {_type(str(c.type))}' for c in schema)} |\n"
        for name, schema in TABLES.items()
    )
    return {
        "file": f"````markdown\n{FILE}````\n",
        "run": f"On the capture that `nsys-evidence demo` writes:\n\n```\n{command}\n```\n\n"
        f"```json\n{{\n{shown}\n}}\n```\n",
        "tables": f"| table | what it holds | columns |\n|---|---|---|\n{tables}",
    }


def _type(arrow: str) -> str:
    return {"string": "text", "bool": "flag"}.get(arrow, "integer")


def _marked(text: str, mark: str) -> re.Match[str]:
    found = re.search(rf"(<!-- {mark} -->\n)(.*?)(<!-- /{mark} -->\n)", text, re.DOTALL)
    assert found is not None, mark
    return found


def test_the_page_shows_the_file_the_run_and_the_tables_as_they_are() -> None:
    text = DOC.read_text(encoding="utf-8")
    assert set(MEANING) == set(TABLES)
    for mark, body in parts().items():
        assert _marked(text, mark)[2] == body, mark


def test_the_page_names_the_limits_and_what_a_skill_abstains_without() -> None:
    text = " ".join(DOC.read_text(encoding="utf-8").split())
    assert f"{jail.RUN_S:g} seconds" in text
    assert f"{locked.MAX_COLUMNS} columns" in text
    assert (locked.MEMORY_LIMIT, child.MAX_MEMORY) == ("1GB", 2 << 30)
    assert "1 GB for DuckDB and 2 GiB for all" in text
    listed = re.search(r"lacks what it reads: ([^.]*)\.", text)
    assert listed is not None
    named = re.findall(r"`(\w+)`", listed[1])
    assert {KIND_OF_TABLE[name] for name in named} == set(KIND_OF_TABLE.values())


if __name__ == "__main__":
    page = DOC.read_text(encoding="utf-8")
    for name, generated in parts().items():
        at = _marked(page, name)
        page = page[: at.start(2)] + generated + page[at.end(2) :]
    DOC.write_text(page, encoding="utf-8")
