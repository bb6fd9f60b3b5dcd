"""Devices: which physical GPU a device id means, in which process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .manifest import Device
from .reader import NONE, Reader

Key = tuple[int, int]
"""(packed process id, CUDA device id), as GPU work carries it."""


def process_id(packed: int) -> int:
    """The process id in a packed globalPid or globalTid: bits 24 to 47."""
    return (packed >> 24) & 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that the capture lists."""

    name: str | None
    chip: str | None
    memory_bytes: int | None
    memory_bytes_per_s: int | None
    cuda_id: int | None


_UNKNOWN = Gpu(None, None, None, None, None)


def _ignore(share: float) -> None:
    """Progress of tables too small to count."""


def read_gpus(reader: Reader) -> dict[int, Gpu]:
    """The GPUs that the capture lists, by GPU id, with or without work."""
    table = reader.read(
        "TARGET_INFO_GPU",
        {
            "id": "int",
            "name": "text",
            "chipName": "text",
            "totalMemory": "int",
            "memoryBandwidth": "int",
            "cuDevice": "int",
        },
        _ignore,
    )

    def value(name: str, row: int) -> Any:
        if name in table.codes:
            return table.values[name][table.codes[name][row]] or None
        number = int(table.integer(name)[row])
        return None if number == NONE else number

    return {
        int(number): Gpu(
            name=value("name", row),
            chip=value("chipName", row),
            memory_bytes=value("totalMemory", row),
            memory_bytes_per_s=value("memoryBandwidth", row),
            cuda_id=value("cuDevice", row),
        )
        for row, number in enumerate(table.integer("id"))
    }


def read_cuda_devices(reader: Reader) -> dict[Key, int]:
    """Which GPU id a process means by a CUDA device id: (process id, CUDA id) to GPU id."""
    table = reader.read("TARGET_INFO_CUDA_DEVICE", {"gpuId": "int", "cudaId": "int", "pid": "int"}, _ignore)
    columns = [table.integer(name).tolist() for name in ("pid", "cudaId", "gpuId")]
    # Some exports pack the process id, most do not.
    rows = [(process_id(pid) if pid >> 24 else pid, cuda, gpu) for pid, cuda, gpu in zip(*columns, strict=True)]
    return {(pid, cuda): gpu for pid, cuda, gpu in sorted(rows) if NONE not in (pid, cuda, gpu)}


def build_devices(
    keys: Collection[Key], gpus: dict[int, Gpu], cuda_devices: dict[Key, int]
) -> tuple[tuple[Device, ...], dict[Key, int]]:
    """Devices with work in their order, and which one each (process, device id) is.

    Work of several processes on one mapped GPU is one device; where the capture does not map, each (process, device id)
    is its own.
    """
    members: dict[tuple[int, ...], list[Key]] = defaultdict(list)
    for packed, device in sorted(keys, key=lambda key: (key[1], process_id(key[0]), key[0])):
        mapped = cuda_devices.get((process_id(packed), device))
        members[(packed, device) if mapped is None else (mapped,)].append((packed, device))
    # A group is called by its first member; a (process, device id) is in one group only, so no two are called alike.
    first = {group: (found[0][1], process_id(found[0][0])) for group, found in members.items()}
    ids, called = Counter(device for device, _ in first.values()), Counter(first.values())
    devices, numbers = [], {}
    for gpu, (group, found) in enumerate(members.items()):
        device, process = first[group]
        if called[device, process] > 1:  # the same process id on two virtual machines
            process = found[0][0]
        physical = len(group) == 1
        described = (gpus.get(group[0]) if physical else _alike(gpus)) or _UNKNOWN
        devices.append(
            Device(
                gpu=gpu,
                device=device,
                process=process if ids[device] > 1 else None,
                pids=tuple(sorted({process_id(packed) for packed, _ in found})),
                basis="physical GPU" if physical else "process and device",
                ids=tuple(sorted({number for _, number in found})),
                name=described.name,
                chip=described.chip,
                memory_bytes=described.memory_bytes,
                memory_bytes_per_s=described.memory_bytes_per_s,
            )
        )
        numbers.update(dict.fromkeys(found, gpu))
    return tuple(devices), numbers


def sampled_devices(numbers: Mapping[Key, int], cuda_devices: dict[Key, int]) -> dict[int, int]:
    """The device with work that each GPU is: GPU id to `gpu`; only those of which the capture says it.

    Args:
        numbers: (packed process id, device id) to `gpu`.
        cuda_devices: which GPU id a process means by a CUDA device id.
    """
    mapped = {(packed, device): cuda_devices.get((process_id(packed), device)) for packed, device in numbers}
    return {physical: numbers[key] for key, physical in mapped.items() if physical is not None}


def idle_devices(devices: Collection[Device], gpus: dict[int, Gpu], cuda_devices: dict[Key, int]) -> tuple[Device, ...]:
    """Devices that the capture lists by a CUDA id and that did nothing; their numbers go on after those with work."""
    listed = {gpu.cuda_id: gpu for _, gpu in sorted(gpus.items()) if gpu.cuda_id is not None}
    listed |= {cuda: gpus.get(gpu, _UNKNOWN) for (_, cuda), gpu in sorted(cuda_devices.items()) if cuda not in listed}
    busy = {number for device in devices for number in device.ids}
    return tuple(
        Device(
            gpu=len(devices) + place,
            device=number,
            process=None,
            pids=(),
            basis="listed, no work",
            ids=(number,),
            name=listed[number].name,
            chip=listed[number].chip,
            memory_bytes=listed[number].memory_bytes,
            memory_bytes_per_s=listed[number].memory_bytes_per_s,
        )
        for place, number in enumerate(sorted(set(listed) - busy))
    )


def _alike(gpus: dict[int, Gpu]) -> Gpu | None:
    """What a device is where the capture does not map it: any listed GPU, when all listed are of one product."""
    if len({(gpu.name, gpu.chip, gpu.memory_bytes, gpu.memory_bytes_per_s) for gpu in gpus.values()}) == 1:
        return next(iter(gpus.values()))
    return None
