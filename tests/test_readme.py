"""What the README shows of the demo capture is what anybody gets."""

from __future__ import annotations

import re
from pathlib import Path

from nsys_evidence.ingest.synthetic import demo_capture, write_sqlite
from nsys_evidence.tools.registry import all_skills
from tests.support import ask, rows_of, scratch

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_every_evidence_id_and_profile_id_in_the_readme_is_that_of_the_call_it_stands_with() -> None:
    (scratch() / "readme").mkdir()
    demo = write_sqlite(demo_capture()[0], scratch() / "readme" / "nsys-evidence-demo.sqlite")
    top = ask("top_kernels", demo)
    gaps = ask("gpu_idle_gaps", demo)
    on_device_0 = ask("gpu_idle_gaps", demo, max_rows=3, device=0)
    two_rows = ask("gpu_idle_gaps", demo, max_rows=2)
    shown = {result["evidence"] for result in (top, gaps, on_device_0, two_rows)}
    assert set(re.findall(r"ev-[0-9a-z]{10}\b", README)) == shown
    assert set(re.findall(r"p-[0-9a-f]{20}\b", README)) == {top["profile"]["id"]}
    first = rows_of(top)[0]
    assert f"answered: {first['instances']}  [{top['evidence']}:0.instances]" in README
    assert f"answered: {first['total_ms']}  [{top['evidence']}:0.total_ms]" in README
    assert f"answered: {gaps['totals']['idle_ms']}  [{gaps['evidence']}:totals.idle_ms]" in README
    for row in rows_of(on_device_0):
        assert str(row["start_ns"]) in README
        assert str(row["gap_us"]) in README


def test_the_readme_names_every_skill() -> None:
    assert set(re.findall(r"^\| `([a-z_]+)` \|", README, re.MULTILINE)) == set(all_skills())
