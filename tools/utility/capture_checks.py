"""Checks of a capture: what its recording can and cannot carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...contracts.units import ratio
from ...ingest.manifest import Coverage
from ..call import Call
from ..capture_hints import CAPTURE_HINTS, TABLE_OF
from ..measures.work import WORK_TABLES
from .checks import Check, Standing

_MUCH_OVERHEAD = 20
"""nsys's own work is worth a warning from one part in this many of the capture window."""


def capture_checks(call: Call[Any]) -> list[Check]:
    """Everything that is checked of the capture, always in the same order."""
    return [
        _export(call),
        *_windows(call),
        _clocks(call),
        *_devices(call),
        *_kinds(call),
        _collectives(call),
        *_ranges(call),
        *_health(call),
    ]


def _export(call: Call[Any]) -> Check:
    source = call.profile.source
    value = f"{source.form}, nsys {source.nsys_version or 'unknown'}, schema {source.schema_version or 'unknown'}"
    if source.warnings:
        return Check("export", Standing.WARN, value, note="; ".join(source.warnings))
    if source.schema_version is None:
        return Check("export", Standing.NOT_RECORDED, value, note="exports of 2021 and before do not say their version")
    return Check("export", Standing.OK, value)


def _windows(call: Call[Any]) -> Iterator[Check]:
    capture, gpu = call.profile.capture_window, call.profile.gpu_window
    yield (
        Check("capture window", Standing.OK, f"starts at {_seconds(capture.start_ns)} s", ns=capture.span_ns)
        if capture
        else Check("capture window", Standing.FAIL, note=f"no event at all; record with {CAPTURE_HINTS['events']}")
    )
    yield (
        Check("gpu window", Standing.OK, f"starts at {_seconds(gpu.start_ns)} s", ns=gpu.span_ns)
        if gpu
        else Check("gpu window", Standing.NOT_RECORDED, note=CAPTURE_HINTS["kernels"])
    )


def _seconds(instant: int) -> str:
    """An instant on the capture clock, exactly: 9 decimals of a second."""
    sign, whole = "-" if instant < 0 else "", abs(instant)
    return f"{sign}{whole // 10**9}.{whole % 10**9:09}"


def _clocks(call: Call[Any]) -> Check:
    work = " UNION ALL ".join(f"SELECT start, call_start FROM {table}" for table in WORK_TABLES)
    [(launched, early)] = call.sql(f"SELECT count(call_start), count(*) FILTER (start < call_start) FROM ({work})")
    if not launched:
        return Check("clocks", Standing.NOT_RECORDED, note="no GPU work with a recorded API call to compare with")
    if early:
        return Check(
            "clocks",
            Standing.WARN,
            "GPU work that starts before its API call",
            count=early,
            share=ratio(early, launched),
            note="the clocks of GPU and host are not aligned: queue times and what the host did meanwhile are off",
        )
    return Check("clocks", Standing.OK, "GPU work that starts before its API call", count=0, share=ratio(0, launched))


def _devices(call: Call[Any]) -> Iterator[Check]:
    manifest = call.profile.manifest
    names = ", ".join(sorted({device.name for device in manifest.devices if device.name})) or None
    if not manifest.devices:
        yield Check("GPUs with work", Standing.NOT_RECORDED, count=None, note=CAPTURE_HINTS["kernels"])
    elif any(device.process is not None for device in manifest.devices):
        yield Check(
            "GPUs with work",
            Standing.WARN,
            names,
            count=len(manifest.devices),
            note="a device id stands for several GPUs, or may: rows are per process and device",
        )
    else:
        yield Check("GPUs with work", Standing.OK, names, count=len(manifest.devices))
    if manifest.listed_gpus:
        yield Check("GPUs listed", Standing.OK, count=manifest.listed_gpus)
    else:
        yield Check("GPUs listed", Standing.NOT_RECORDED, note="which physical GPU a device id means is not known")


def _kinds(call: Call[Any]) -> Iterator[Check]:
    manifest = call.profile.manifest
    for kind, found in sorted(manifest.coverage.items()):
        if found is Coverage.RECORDED:
            yield Check(f"events: {kind}", Standing.OK, count=manifest.rows[TABLE_OF.get(kind, kind)])
        else:
            yield Check(f"events: {kind}", Standing.NOT_RECORDED, note=CAPTURE_HINTS.get(kind))
    for kind, count in sorted(manifest.quarantined.items()):
        yield Check(
            f"impossible rows: {kind}", Standing.WARN, count=count, note="set aside: no figure has anything of them"
        )


def _collectives(call: Call[Any]) -> Check:
    if not call.profile.recorded("kernels"):
        return Check("collectives", Standing.NOT_RECORDED, note=CAPTURE_HINTS["kernels"])
    [(count,)] = call.sql("SELECT count(*) FILTER (comm) FROM kernels")
    return Check("collectives", Standing.OK, "by kernel name", count=count)


def _ranges(call: Call[Any]) -> Iterator[Check]:
    manifest = call.profile.manifest
    nvtx = manifest.marks or manifest.unclosed_ranges or manifest.rows["nvtx_ranges"] or manifest.rows["nvtx_spans"]
    for check, count, note in (
        ("NVTX marks", manifest.marks, None),
        ("unclosed NVTX ranges", manifest.unclosed_ranges, "they never ended, and are no intervals"),
    ):
        if not nvtx:
            yield Check(check, Standing.NOT_RECORDED, note=CAPTURE_HINTS["nvtx"])
        elif count and note:
            yield Check(check, Standing.WARN, count=count, note=note)
        else:
            yield Check(check, Standing.OK, count=count)
    if graphs := manifest.rows["graphs"]:
        note = "their kernels are hidden: record with --cuda-graph-trace=node"
        yield Check("whole CUDA graphs", Standing.WARN, count=graphs, note=note)
    elif call.profile.gpu_window is None:
        yield Check("whole CUDA graphs", Standing.NOT_RECORDED, note=CAPTURE_HINTS["kernels"])
    else:
        yield Check("whole CUDA graphs", Standing.OK, count=0)


def _health(call: Call[Any]) -> Iterator[Check]:
    health, capture = call.profile.source.health, call.profile.capture_window
    for check, count, bad, note in (
        (
            "messages of lost events",
            health.dropped,
            Standing.WARN,
            "events are, or may be, missing: counts and times may be too low",
        ),
        ("errors of nsys", health.errors, Standing.WARN, "see the diagnostics of the report in the nsys GUI"),
        ("warnings of nsys", health.warnings, Standing.OK, "see the diagnostics of the report in the nsys GUI"),
    ):
        if count is None:
            missing = "the diagnostics" if health.errors is None else "the texts of the diagnostics"
            yield Check(check, Standing.NOT_RECORDED, note=f"the export does not have {missing}")
        else:
            yield Check(check, bad if count else Standing.OK, count=count, note=note if count else None)
    if health.overhead_ns is None or capture is None:
        yield Check("overhead of nsys", Standing.NOT_RECORDED, note="the export has no rows in PROFILER_OVERHEAD")
        return
    much = health.overhead_ns * _MUCH_OVERHEAD >= capture.span_ns
    yield Check(
        "overhead of nsys",
        Standing.WARN if much else Standing.OK,
        "time within the capture window in which nsys itself worked on any thread",
        ns=health.overhead_ns,
        share=ratio(health.overhead_ns, capture.span_ns),
        note="of the capture, not of the program: leave the start out with trim" if much else None,
    )
