"""The first call: what a capture holds, where its time goes, and what to ask next."""

from __future__ import annotations

from typing import Any

from ...contracts.columns import Row, column
from ...contracts.envelope import MAX_ROWS, Status
from ...contracts.units import Cited, Count, Text
from ..call import Call
from ..capture_hints import TABLE_OF
from ..registry import NoParams, all_skills, skill
from ..result import Result, Table
from .asked import Asked, Figure

_KERNELS, _COLLECTIVES = 5, 4
"""Rows of the tables `kernels` and `comm`."""

_REASON = 100
"""How much of a reason is shown."""


class FactRow(Row):
    """One figure of the capture."""

    fact: Text = column("column of the skill that it is from, with its unit")
    value: Cited | None = column("as that result shows it; null is unknown")
    cell: Text = column("where it stands: evidence id and cell")


class ManifestTotals(Row):
    """What the manifest comes to."""

    bottleneck: Text | None = column("what bounds the devices, taken together: cpu, compute, comm, copy or mixed")
    bottleneck_cell: Text | None = column("where that stands; null where it is not known")
    devices: Count = column("devices with GPU work")
    findings: Count | None = column("findings of root_cause_matcher; null when it did not answer")
    unanswered: Count = column("skills that abstained or failed")


class CoverageRow(Row):
    """One kind of event."""

    kind: Text = column("kind of event; nvtx stands for push/pop ranges")
    status: Text = column("recorded or not recorded")
    rows: Cited = column("events")
    quarantined: Cited = column("rows set aside because they cannot be true")
    source: Text = column("this row there: a figure's cell is source.COLUMN")


class DeviceRow(Row):
    """One device with GPU work."""

    device: Cited = column("CUDA device id")
    process: Cited | None = column("process id, where several processes have this device id")
    name: Text | None = column("product name")
    compute_ms: Cited | None = column("as in critical_path")
    exposed_comm_ms: Cited | None = column("as in critical_path")
    copy_only_ms: Cited | None = column("as in critical_path")
    host_ms: Cited | None = column("idle time, as in critical_path")
    bound: Text | None = column("cpu, compute, comm, copy or mixed")
    source: Text = column("this row there: a figure's cell is source.COLUMN")


class KernelRow(Row):
    """One of the kernels that take most time."""

    kernel: Text = column("short unique label of the demangled name")
    instances: Cited = column("launches")
    total_ms: Cited = column("sum of durations")
    share_pct: Cited | None = column("its part", of="kernel time in scope, over devices")
    tensor_core: Text = column("by the kernel's name")
    source: Text = column("this row there: a figure's cell is source.COLUMN")


class CommRow(Row):
    """One of the first rows of nccl_breakdown."""

    device: Cited = column("CUDA device id")
    process: Cited | None = column("process id, where several processes have this device id")
    stream: Text = column("stream id")
    collective: Text = column("by kernel name")
    variant: Text | None = column("reduction and datatype as named")
    count: Cited = column("kernels")
    total_ms: Cited = column("sum of durations; includes waiting for peers")
    exposed_ms: Cited = column("time without compute")
    source: Text = column("this row there: a figure's cell is source.COLUMN")


class IterationsRow(Row):
    """The repeating steps."""

    count: Cited = column("iterations")
    median_ms: Cited | None = column("median wall time")
    p95_ms: Cited | None = column("95th percentile of wall time")
    cv: Cited | None = column("sample standard deviation over mean")
    slowest: Cited | None = column("the longest iteration")
    marker: Text = column("the ranges' name, or which kernels repeat")
    source: Text = column("where these stand: a figure's cell is source.COLUMN")


class FindingRow(Row):
    """One finding of root_cause_matcher."""

    pattern: Text = column("name of the pattern")
    severity: Text = column("high, medium, low, or about the capture")
    share_pct: Cited | None = column("what it takes", of="window times devices")
    recoverable_ms: Cited | None = column("idle or exposed communication time that it owns")
    source: Text = column("this row there: a figure's cell is source.COLUMN")


class SkillsRow(Row):
    """The skills of a category that have what they need in this capture."""

    category: Text = column("category of skills")
    apply: Text = column("skills whose kinds of event were recorded; steps, a known GPU or traces may still be missing")


class UnansweredRow(Row):
    """A skill that did not answer, or a pattern that root_cause_matcher could not check."""

    skill: Text = column("its name; root_cause_matcher: and the pattern")
    status: Text = column("abstained, failed or not recorded")
    reason: Text = column("why")


_FACTS = (
    ("profile_info", ("kernels", "copies", "sets", "graphs", "api_calls", "nvtx_ranges", "processes", "quarantined")),
    ("pipeline_bubble_metrics", ("span_ms", "busy_ms", "idle_ms", "idle_pct")),
    ("overlap_breakdown", ("comm_ms", "exposed_comm_ms", "overlap_pct")),
    ("kernel_launch_overhead", ("launches", "launch_bound_pct")),
)
"""Which totals are shown as facts."""

_HEALTH = (("messages of lost events", "count"), ("overhead of nsys", "pct"))
"""Which checks of `doctor` are."""

_NEXT = {
    "cpu": ("gpu_idle_gaps", "cpu_gpu_pipeline", "sync_cost_analysis", "host_sync_parent_ranges"),
    "compute": ("top_kernels", "nvtx_layer_breakdown", "tensor_core_usage"),
    "comm": ("overlap_breakdown", "nccl_breakdown", "nccl_anomaly"),
    "copy": ("memory_transfers", "memory_bandwidth", "h2d_distribution"),
    None: ("top_kernels", "gpu_idle_gaps", "overlap_breakdown"),
}
"""What leads on from a bottleneck."""


@skill(
    title="Health manifest",
    when="Call first: what the capture holds, where its time goes, what bounds it, and which skills apply.",
    row=FactRow,
    totals=ManifestTotals,
    tables={
        "coverage": CoverageRow,
        "devices": DeviceRow,
        "kernels": KernelRow,
        "comm": CommRow,
        "iterations": IterationsRow,
        "findings": FindingRow,
        "skills": SkillsRow,
        "unanswered": UnansweredRow,
    },
    max_bytes=8_000,
    max_rows=30,
    next=_NEXT[None],
)
def profile_health_manifest(call: Call[NoParams]) -> Result:
    """Figures of other skills, each with the evidence id and cell that it stands in: cite these, not this page.

    Rows carry their cell. The rows of tables carry source, to which a column of the same name is added:
    source.total_ms. A table is absent when nothing answered for it; table unanswered says why. A null is unknown, never
    zero, and coverage comes before any number: what was not recorded cannot be seen. The suspected bottleneck is that
    of critical_path over all devices in scope. Findings are patterns, not proven causes. profile_info and doctor are of
    the whole capture, whatever the window.
    """
    asked = Asked(call)
    facts = [
        (f"{row['window'].value} window {key}", row[key].value, row[key].cell)
        for row in asked.rows("profile_info")
        for key in ("start_s", "span_ms")
    ]
    facts += [
        (figure.name, figure.value, figure.cell)
        for name, keys in _FACTS
        for key in keys
        if (figure := asked.total(name, key)) is not None
    ]
    checks = {str(row["check"].value): row for row in asked.rows("doctor")}
    facts += [(check, checks[check][key].value, checks[check][key].cell) for check, key in _HEALTH if check in checks]
    bound = asked.total("critical_path", "bound")
    bottleneck = None if bound is None else bound.value
    devices = _devices(asked)
    tables = {
        "coverage": _table(asked, "profile_info", CoverageRow, table="coverage"),
        "devices": Table(devices, asked.count("critical_path")),
        "kernels": _table(asked, "top_kernels", KernelRow, most=_KERNELS),
        "comm": _table(asked, "nccl_breakdown", CommRow, most=_COLLECTIVES),
        "iterations": _iterations(asked),
        "findings": _table(asked, "root_cause_matcher", FindingRow),
        "skills": _skills(call, asked),
    }
    findings = asked.total("root_cause_matcher", "findings")
    unanswered = [(why.skill, why.status, _short(why.reason)) for why in asked.unanswered]
    unanswered += [
        (f"root_cause_matcher: {row['pattern'].value}", str(row["status"].value), _short(str(row["reason"].value)))
        for row in asked.rows("root_cause_matcher", "not_checked")
    ]
    tables["unanswered"] = Table(unanswered, len(unanswered))
    notes = list(call.profile.manifest.warnings)
    if asked.partial:
        notes.append(f"answers with a hole, which their notes name: {', '.join(asked.partial)}")
    return Result(
        rows=call.page_of(list(facts)),
        total_rows=len(facts),
        totals={
            "bottleneck": bottleneck,
            "bottleneck_cell": bound.cell if bound is not None and bottleneck is not None else None,
            "devices": len(call.devices),
            "findings": None if findings is None else findings.value,
            "unanswered": len(unanswered),
        },
        tables={name: table for name, table in tables.items() if table.total_rows},
        notes=notes,
        status=Status.PARTIAL if unanswered or asked.partial else Status.OK,
        next=_NEXT.get(None if bottleneck is None else str(bottleneck), _NEXT[None]),
    )


def _source(row: dict[str, Figure]) -> str:
    """The address of a row: that of its first cell without the column."""
    return next(iter(row.values())).cell.rpartition(".")[0]


def _table(asked: Asked, skill_name: str, model: type[Row], *, table: str | None = None, most: int = MAX_ROWS) -> Table:
    """The columns of the model, of the first rows of another skill."""
    names = [name for name in model.model_fields if name != "source"]
    rows = [(*(row[name].value for name in names), _source(row)) for row in asked.rows(skill_name, table)[:most]]
    return Table(rows, asked.count(skill_name, table))


def _devices(asked: Asked) -> list[tuple[object, ...]]:
    names = {
        (row["device"].value, row["process"].value): row["name"].value for row in asked.rows("profile_info", "devices")
    }
    figures = ("compute_ms", "exposed_comm_ms", "copy_only_ms", "host_ms", "bound")
    return [
        (
            row["device"].value,
            row["process"].value,
            names.get((row["device"].value, row["process"].value)),
            *(row[name].value for name in figures),
            _source(row),
        )
        for row in asked.rows("critical_path")
    ]


def _iterations(asked: Asked) -> Table:
    keys = [name for name in IterationsRow.model_fields if name != "source"]
    found = [figure for key in keys if (figure := asked.total("iteration_timing", key)) is not None]
    if not found:
        return Table([], 0)
    return Table([(*(figure.value for figure in found), found[0].cell.rpartition(".")[0])], 1)


def _skills(call: Call[Any], asked: Asked) -> Table:
    """The skills that apply, by category."""
    silent = {why.skill for why in asked.unanswered if why.status == "abstained"}
    if "iteration_timing" in silent:
        silent.add("iteration_detail")
    rows = call.profile.manifest.rows

    def recorded(kind: str) -> bool:
        return bool(rows.get(TABLE_OF.get(kind, kind)))

    by_category: dict[str, list[str]] = {}
    for found in all_skills().values():
        has = all(map(recorded, found.needs)) and (not found.one_of or any(map(recorded, found.one_of)))
        if found.profile and has and found.name not in silent:
            by_category.setdefault(found.category, []).append(found.name)
    table = [(category, ", ".join(names)) for category, names in by_category.items()]
    return Table(table, len(table))


def _short(text: str) -> str:
    return text if len(text) <= _REASON else text[: _REASON - 1] + "…"
