"""Building a canonical profile: read a source, number what it holds, derive launches, nesting, stacks and busy time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .busy_tables import busy_tables
from .devices import idle_devices, process_id, read_cuda_devices, read_gpus, sampled_devices
from .event_tables import WORK_KINDS, call_table, osrt_table, sorted_rows, sync_table, work_table
from .fingerprint import profile_id
from .gpu_metrics import SAMPLES, TIME, on_devices, tensor_samples
from .integrity import add_sums
from .kernel_names import collective_of, labels_of
from .launches import LaunchIndex
from .manifest import Coverage, Manifest
from .nccl_calls import NcclCalls
from .numbering import Table, number, number_streams
from .order import canonical_order
from .payloads import read_schemas
from .ranges import Ranges, nest, range_events, split_nvtx
from .raw import KINDS, Events, Ints32, read_events
from .reader import NONE, Reader
from .stacks import StackForest, name_paths, plain_names
from .strings import SourceStrings, StringPool
from .tables import FORMAT_VERSION, TABLES
from .threads import running_table, sample_table, thread_names
from .warnings import content_warnings, payload_warnings
from .writing import TableWriter

Step = Callable[[float, str], None]
"""Told the share done, 0 to 1, and what is being done; raises to stop the work."""

_INSTANTS = ("SCHED_EVENTS", "COMPOSITE_EVENTS")
"""Tables of instants: all of them lie in the capture window, those too that cannot be given to a thread."""


def build_profile(reader: Reader, directory: Path, step: Step) -> Manifest:
    """Read a capture and write the tables of its canonical profile, and their digests, into an empty directory.

    Raises:
        EvidenceError: PROFILE_CORRUPT when the source cannot be read through; what `step` raises.
        OSError: when the directory cannot be written.
    """
    writer = TableWriter(directory)
    with writer.finishing():
        manifest = _build(reader, writer, step)
    add_sums(directory, writer.digests)
    return replace(manifest, files=writer.files())


def _build(reader: Reader, writer: TableWriter, step: Step) -> Manifest:
    step(0.0, "reading strings")
    pool = StringPool(SourceStrings(*reader.strings()))
    events = _read(reader, step)
    metrics, unbelievable = tensor_samples(reader, pool, lambda share: step(0.52 + 0.03 * share, "reading GPU metrics"))
    step(0.55, "naming")
    gpus, cuda_devices = read_gpus(reader), read_cuda_devices(reader)
    numbers = number(
        [events[kind] for kind in WORK_KINDS],
        [
            *((events[kind], None) for kind in ("calls", "osrt", "sched", "samples")),
            (events["nvtx"], range_events(events["nvtx"])),
        ],
        [events["syncs"]],
        gpus,
        cuda_devices,
    )
    coverage = {kind: found.coverage for kind, found in events.items()}
    quarantined = {kind: found.quarantined for kind, found in events.items() if found.quarantined}
    schemas = read_schemas(reader)
    registered = len(schemas.fields) + len(schemas.ambiguous)
    nvtx = split_nvtx(events.pop("nvtx"), numbers.threads, pool, schemas)
    if not len(nvtx.pushpop.start):
        coverage["nvtx"] = Coverage.NOT_RECORDED
    if nvtx.quarantined:
        quarantined["nvtx"] = nvtx.quarantined

    calls = call_table(events.pop("calls"), numbers, pool)
    work = {kind: work_table(kind, events.pop(kind), numbers, pool) for kind in WORK_KINDS}
    osrt = osrt_table(events.pop("osrt"), numbers, pool)
    syncs = sync_table(events.pop("syncs"), numbers)
    running, unpaired = running_table(events.pop("sched"), numbers.threads)
    samples = sample_table(events.pop("samples"), numbers.threads)
    coverage["gpu_metrics"] = Coverage.RECORDED if len(metrics["start"]) else Coverage.NOT_RECORDED
    if unbelievable:
        quarantined["gpu_metrics"] = unbelievable
    if unpaired:
        quarantined["sched"] = quarantined.get("sched", 0) + unpaired
    if not len(running["start"]):
        coverage["sched"] = Coverage.NOT_RECORDED
    instants = [*map(reader.extent, _INSTANTS), reader.extent(SAMPLES, TIME)]
    capture = _hull([*_extents([calls, *work.values(), osrt, syncs]), nvtx.extent, *instants])
    gpu = _hull(_extents(work.values()))
    streams = number_streams(work.values(), [process_id(packed) for packed in numbers.processes])
    plain = _plain_codes(nvtx.pushpop.name, pool)
    names = thread_names(reader, numbers.threads, pool)
    final = pool.numbers()
    writer.write("strings", pool.table())
    writer.write("processes", numbers.process_table, hashed=("process", "global_pid"))
    writer.write("threads", {**numbers.thread_table, "name": final[names]}, hashed=("thread", "global_tid", "name"))
    writer.write("streams", streams, hashed=("stream", "gpu", "process", "context", "stream_id"))
    writer.write("osrt", sorted_rows({**osrt, "name": final[osrt["name"]]}), hashed=TABLES["osrt"].names)
    writer.write("syncs", sorted_rows(syncs), hashed=TABLES["syncs"].names)
    writer.write("running", sorted_rows(running), hashed=TABLES["running"].names)
    writer.write("samples", sorted_rows(samples), hashed=TABLES["samples"].names)
    metrics = on_devices({**metrics, "metric": final[metrics["metric"]]}, sampled_devices(numbers.gpus, cuda_devices))
    writer.write("tensor_samples", metrics, hashed=TABLES["tensor_samples"].names)

    step(0.6, "matching launches")
    calls = sorted_rows({**calls, "name": final[calls["name"]]})
    recorded = [name for name in TABLES["calls"].names if name != "host_class"]  # which is derived
    writer.write("calls", calls, hashed=recorded)
    work["kernels"]["name"] = final[work["kernels"]["name"]]
    work = {kind: sorted_rows(table) for kind, table in work.items()}
    index = LaunchIndex(calls["process"], calls["correlation"], calls["start"], calls["end"])
    matched = {kind: index.find(table["process"], table["correlation"]) for kind, table in work.items()}
    launching = np.zeros(len(calls["start"]) + 1, bool)  # the last place takes the -1s
    for found in matched.values():
        launching[found] = True
    places = np.flatnonzero(launching[:-1])
    launches = {name: calls[name][places] for name in ("start", "end", "thread", "name")}
    number_of = np.full(len(launching), -1, np.int32)
    number_of[places] = np.arange(len(places))
    launch: dict[str, Ints32] = {kind: number_of[found] for kind, found in matched.items()}
    del calls, index, matched, launching, number_of

    step(0.7, "nesting ranges and attributing work to them")
    spans = {name: getattr(nvtx.startend, name) for name in ("start", "end", "thread", "domain")}
    spans |= {"name": final[nvtx.startend.name], "end_thread": nvtx.end_thread}
    writer.write("nvtx_spans", sorted_rows(spans), hashed=TABLES["nvtx_spans"].names)
    forest = StackForest(launches["start"], launches["end"], launches["thread"], len(numbers.threads))

    nccl_calls = NcclCalls()

    def nested(pushpop: Ranges) -> Iterator[Table]:
        for ranges in nest(pushpop, final, len(numbers.threads)):
            step(0.7, f"attributing work to ranges, thread {ranges.thread + 1} of {len(numbers.threads)}")
            forest.add(ranges)
            nccl_calls.add(ranges)
            yield ranges.table

    writer.write_parts("nvtx_ranges", nested(nvtx.pushpop), hashed=("start", "end", "thread", "domain", "name"))
    marks, unclosed, payloads = nvtx.marks, nvtx.unclosed, nvtx.payloads
    del nvtx
    texts = dict(zip(final.tolist(), pool.values, strict=False))
    nccl = nccl_calls.table(payloads, texts)
    derived = ("range", "operation")
    order = canonical_order(
        nccl["start"], *(nccl[name] for name in TABLES["nccl_calls"].names[1:] if name not in derived)
    )
    nccl = {name: values[order] for name, values in nccl.items()}
    writer.write("nccl_calls", nccl, hashed=[name for name in TABLES["nccl_calls"].names if name not in derived])
    coverage["nccl_calls"] = Coverage.RECORDED if len(order) else Coverage.NOT_RECORDED
    _write_stacks(writer, forest, _final_plain(plain, final))

    step(0.85, "writing GPU work")
    comm = _write_kernel_names(writer, work["kernels"], texts)
    for kind, table in work.items():
        launched = {**_launch_columns(launches, launch[kind], forest), **({"comm": comm} if kind == "kernels" else {})}
        hashed = [name for name in TABLES[kind].names if name not in launched]
        writer.write(kind, {**table, **launched}, hashed=hashed)
    step(0.95, "merging busy time")
    for name, columns in busy_tables(work, comm, len(numbers.devices)):
        writer.write(name, columns)

    idle = idle_devices(numbers.devices, gpus, cuda_devices)
    digest = hashlib.sha256()
    for text in sorted(pool.values):
        digest.update(text.encode("utf-8", "replace") + b"\0")
    identity = {
        "rows": writer.hashes,
        "strings": digest.hexdigest(),
        "devices": [asdict(device) for device in (*numbers.devices, *idle)],
        "capture": capture,
        "coverage": {kind: str(value) for kind, value in coverage.items()},
        "quarantined": quarantined,
        "marks": marks,
        "unclosed": unclosed,
        "payload_schemas": registered,
        "undecoded_payloads": nccl_calls.undecoded,
        "listed": len(gpus),
    }
    return Manifest(
        format_version=FORMAT_VERSION,
        profile_id=profile_id(identity),
        capture=capture,
        gpu=gpu,
        devices=numbers.devices,
        idle_devices=idle,
        rows=writer.rows,
        coverage=coverage,
        quarantined=quarantined,
        unclosed_ranges=unclosed,
        payload_schemas=registered,
        undecoded_payloads=nccl_calls.undecoded,
        marks=marks,
        listed_gpus=len(gpus),
        warnings=(
            *content_warnings(coverage, quarantined, unclosed, writer.rows, launch, numbers.devices),
            *payload_warnings(registered, writer.rows["nccl_calls"], nccl_calls.undecoded),
        ),
    )


def _read(reader: Reader, step: Step) -> dict[str, Events]:
    events = {}
    for place, kind in enumerate(KINDS):
        share, words = 0.02 + 0.5 * place / len(KINDS), f"reading {kind}"
        step(share, words)

        def tick(done: float, share: float = share, words: str = words) -> None:
            step(share + done * 0.5 / len(KINDS), words)

        events[kind] = read_events(reader, kind, tick)
    return events


def _extents(tables: Iterable[Table]) -> list[tuple[int, int] | None]:
    return [(int(t["start"].min()), int(t["end"].max())) if len(t["start"]) else None for t in tables]


def _hull(extents: Iterable[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [extent for extent in extents if extent is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _plain_codes(names: Ints32, pool: StringPool) -> Ints32:
    """For each provisional name code of a range the code of the name without PyTorch's counters."""
    codes = np.unique(names)
    plain = np.full(len(pool.values), -1, np.int32)
    plain[codes] = [pool.add(text) for text in plain_names([pool.values[code] for code in codes.tolist()])]
    return plain


def _final_plain(plain: Ints32, final: Ints32) -> Ints32:
    """The same in final numbers on both sides."""
    result = np.full(len(final), -1, np.int32)
    result[final[np.arange(len(plain))]] = final[plain]
    return result


def _write_stacks(writer: TableWriter, forest: StackForest, plain: Ints32) -> None:
    nodes = forest.nodes()
    paths = name_paths(nodes["parent"], nodes["depth"], nodes["name"])
    plain_paths = name_paths(nodes["parent"], nodes["depth"], plain[nodes["name"]])
    nodes |= {"node": np.arange(len(paths.path)), "path": paths.path, "plain_path": plain_paths.path}
    writer.write("stacks", nodes)
    for table, found in (("paths", paths), ("plain_paths", plain_paths)):
        number_of = np.arange(len(found.name), dtype=np.int32)
        writer.write(table, {"path": number_of, "parent": found.parent, "name": found.name, "depth": found.depth})


def _write_kernel_names(writer: TableWriter, kernels: Table, texts: Mapping[int, str]) -> npt.NDArray[Any]:
    """Write the table `kernel_names` and tell, for each kernel, whether it is a collective by its name."""
    names = np.unique(kernels["name"])
    demangled = [texts[name] for name in names.tolist()]
    collectives = [collective_of(text) for text in demangled]
    columns = {
        "name": names,
        "label": np.array(labels_of(demangled), object),
        "demangled": np.array(demangled, object),
        "collective": np.array(collectives, object),
    }
    writer.write("kernel_names", columns)
    is_comm = np.array([collective is not None for collective in collectives], bool)
    return is_comm[np.searchsorted(names, kernels["name"])] if len(names) else np.empty(0, bool)


def _launch_columns(launches: Table, launch: Ints32, forest: StackForest) -> Table:
    """The launch of each piece of work, by its number among the launching calls; -1 for none."""
    return {
        "call_start": _picked(launches["start"], launch, NONE),
        "call_end": _picked(launches["end"], launch, NONE),
        "thread": _picked(launches["thread"], launch, -1),
        "api": _picked(launches["name"], launch, -1),
        "stack": _picked(forest.call_node, launch, -1),
    }


def _picked(values: npt.NDArray[Any], place: Ints32, none: int) -> npt.NDArray[Any]:
    """Values at places, `none` where the place is -1."""
    return np.append(values, np.array([none], values.dtype))[place]
