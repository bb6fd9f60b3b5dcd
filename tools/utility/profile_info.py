"""What a capture holds: windows, counts, devices, and what was not recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...contracts.columns import Row, column
from ...contracts.envelope import Status
from ...contracts.units import Count, Id, Ms, S, Text
from ...contracts.window import Window
from ...ingest.manifest import Coverage
from ..call import Call
from ..capture_hints import CAPTURE_HINTS, TABLE_OF
from ..registry import NoParams, skill
from ..result import Result, Table

if TYPE_CHECKING:
    from ...ingest.profile import Profile


class WindowRow(Row):
    """One of the two windows of a capture."""

    window: Text = column("capture (all events) or gpu (first to last kernel, graph, copy or set over all devices)")
    start_s: S = column("first start, on the capture clock")
    end_s: S = column("last end, on the capture clock")
    span_ms: Ms = column("length")


class ProfileInfoTotals(Row):
    """Events of the whole capture."""

    kernels: Count = column("kernel executions")
    copies: Count = column("memory copies")
    sets: Count = column("memory sets")
    graphs: Count = column("CUDA graph launches traced as a whole, whose kernels are hidden")
    api_calls: Count = column("CUDA API calls, runtime and driver")
    nvtx_ranges: Count = column("NVTX ranges with an end, push/pop and start/end")
    start_end_ranges: Count = column("those of them that are start/end ranges, which do not nest")
    unclosed_ranges: Count = column("NVTX ranges that never ended: no intervals")
    marks: Count = column("NVTX marks")
    osrt_calls: Count = column("OS runtime calls")
    devices: Count = column("devices with GPU work")
    listed_gpus: Count = column("GPUs that the capture lists, with or without work")
    processes: Count = column("processes with events")
    quarantined: Count = column("rows set aside because they cannot be true: no end, end before start, or all zero")
    form: Text = column("form of the source")
    nsys_version: Text | None = column("version of the nsys that exported it; null where the export does not say")
    schema_version: Text | None = column("version of the export schema; null where the export does not say")


class DeviceRow(Row):
    """One device with GPU work."""

    device: Id = column("CUDA device id")
    process: Id | None = column("process id, where several processes have this device id")
    pids: Text = column("processes that used it")
    name: Text | None = column("product name; null where the capture does not say")
    basis: Text = column("what busy and idle are of: physical GPU, or process and device")
    kernels: Count = column("kernel executions")
    copies: Count = column("memory copies")
    sets: Count = column("memory sets")


class CoverageRow(Row):
    """One kind of event."""

    kind: Text = column("kind of event; nvtx stands for push/pop ranges")
    status: Text = column("recorded or not recorded; a table without rows says nothing")
    rows: Count = column("events")
    quarantined: Count = column("rows set aside because they cannot be true")
    capture_hint: Text | None = column("how to record it; null when it is recorded, or when no skill needs it")


@skill(
    title="Profile info",
    when="To see first what a capture holds: time windows, devices, event counts, and what was not recorded.",
    row=WindowRow,
    totals=ProfileInfoTotals,
    tables={"devices": DeviceRow, "coverage": CoverageRow},
    window="none",
    next=("top_kernels", "gpu_idle_gaps", "memory_transfers", "schema_inspect"),
)
def profile_info(call: Call[NoParams]) -> Result:
    """One row per window; GPU skills look at the gpu window by default, host skills at the capture window.

    The capture clock does not start at zero: trim takes seconds between start_s and end_s. A count of zero with
    "not recorded" in table coverage means unknown, not none. Read the notes before any number.
    """
    profile = call.profile
    manifest, source = profile.manifest, profile.source
    rows, windows = manifest.rows, _windows(profile)
    devices = _devices(call)
    coverage = [
        (
            kind,
            found.value,
            rows[TABLE_OF.get(kind, kind)],
            manifest.quarantined.get(kind, 0),
            None if found is Coverage.RECORDED else CAPTURE_HINTS.get(kind),
        )
        for kind, found in sorted(manifest.coverage.items())
    ]
    return Result(
        rows=call.page_of(windows),
        total_rows=len(windows),
        totals={
            "kernels": rows["kernels"],
            "copies": rows["copies"],
            "sets": rows["sets"],
            "graphs": rows["graphs"],
            "api_calls": rows["calls"],
            "nvtx_ranges": rows["nvtx_ranges"] + rows["nvtx_spans"],
            "start_end_ranges": rows["nvtx_spans"],
            "unclosed_ranges": manifest.unclosed_ranges,
            "marks": manifest.marks,
            "osrt_calls": rows["osrt"],
            "devices": len(manifest.devices),
            "listed_gpus": manifest.listed_gpus,
            "processes": rows["processes"],
            "quarantined": sum(manifest.quarantined.values()),
            "form": source.form,
            "nsys_version": source.nsys_version,
            "schema_version": source.schema_version,
        },
        tables={"devices": Table(devices, len(devices)), "coverage": Table(coverage, len(coverage))},
        notes=[*manifest.warnings, *source.warnings],
        status=Status.OK if windows else Status.EMPTY,
    )


def _windows(profile: Profile) -> list[tuple[str, int, int, int]]:
    windows: tuple[tuple[str, Window | None], ...] = (
        ("capture", profile.capture_window),
        ("gpu", profile.gpu_window),
    )
    return [(name, window.start_ns, window.end_ns, window.span_ns) for name, window in windows if window is not None]


def _devices(call: Call[NoParams]) -> list[tuple[object, ...]]:
    """The devices, with how many events of each kind of work they have."""
    counts = {
        table: dict(call.sql(f"SELECT gpu, count(*) FROM {table} GROUP BY gpu"))
        for table in ("kernels", "copies", "sets")
    }
    return [
        (
            d.device,
            d.process,
            ", ".join(map(str, d.pids)),
            d.name,
            d.basis,
            *(counts[table].get(d.gpu, 0) for table in counts),
        )
        for d in call.profile.devices
    ]
