from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.oracle import Report, exact, exact_rows, with_reports

COLUMNS = ("NVTX Inst", "Kern Inst", "Total Time (ns)")


@with_reports("nvtx_kern_sum")
def test_summed_over_paths_every_range_and_kernel_agrees_with_nsys_stats_to_the_nanosecond(
    capture: Path, report: Report
) -> None:
    expected: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in report:
        for place, name in enumerate(COLUMNS):
            expected[row["NVTX Range"], row["Kernel Name"]][place] += int(row[name])
    names = exact("nvtx_kernel_map", capture, normalize=False).names
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for ours in exact_rows("nvtx_kernel_map", capture, normalize=False):
        last = "" if ours["path"] == "(no range)" else ours["path"].split(" > ")[-1]
        for place, name in enumerate(("ranges", "kernels", "inclusive_ms")):
            found[last, names[ours["kernel"]]][place] += ours[name]
    assert found == expected
