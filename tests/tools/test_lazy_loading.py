from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "pyarrow", "duckdb"}


def test_registering_the_skills_loads_neither_duckdb_nor_arrow_nor_numpy() -> None:
    program = "import sys; from nsys_evidence.tools.registry import all_skills; all_skills(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "nsys_evidence.tools.kernels.gpu_idle_gaps" in loaded
    assert HEAVY.isdisjoint(loaded)
