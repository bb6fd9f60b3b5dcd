"""Which physical GPU a device id means is a matter of the process, where the capture says it."""

from nsys_evidence.ingest.manifest import Device
from nsys_evidence.ingest.synthetic import Capture, CudaDevice, Gpu, Kernel, Process
from tests.ingest.profiles import Built, build

PIDS = (101, 102)
GPUS = [Gpu(n, f"GPU {n}", f"GX{n}", 10**12, 10**10 + n, 100, n) for n in (0, 1, 2)]
ALIKE = [Gpu(n, "GPU", "GX", 10**12, 10**10, 100, n) for n in (0, 1)]


def kernels(*where: tuple[int, int]) -> list[Kernel]:
    """One kernel for each (process, device), one after the other, all with the same ids."""
    return [Kernel(100 * n + 100, 100 * n + 150, device, 1, 7, 1, pid, "k()") for n, (pid, device) in enumerate(where)]


def key(device: Device) -> tuple[int, int | None, tuple[int, ...], str, str | None]:
    return device.device, device.process, device.pids, device.basis, device.name


def gpus_of(built: Built) -> list[int]:
    """The device of each kernel, in order of start."""
    return [row["gpu"] for row in built.rows("kernels")]


def busy(built: Built) -> list[tuple[int, int]]:
    return [(row["gpu"], row["end"] - row["start"]) for row in built.rows("busy") if row["kind"] == "work"]


def test_without_a_map_the_same_device_id_of_two_processes_is_two_devices() -> None:
    built = build(Capture(kernels=kernels((101, 0), (102, 0), (101, 1)), gpus=GPUS))
    assert [key(device) for device in built.manifest.devices] == [
        (0, 101, (101,), "process and device", None),
        (0, 102, (102,), "process and device", None),
        (1, None, (101,), "process and device", None),
    ]
    assert gpus_of(built) == [0, 1, 2]
    assert [gpu for gpu, _ in busy(built)] == [0, 1, 2]
    assert any("device 0 occurs in several processes" in warning for warning in built.manifest.warnings)


def test_mapped_to_the_same_gpu_two_processes_share_one_device() -> None:
    both = [CudaDevice(0, 0, pid) for pid in PIDS]
    built = build(Capture(kernels=kernels((101, 0), (102, 0)), gpus=GPUS, cuda_devices=both))
    assert [key(device) for device in built.manifest.devices] == [(0, None, PIDS, "physical GPU", "GPU 0")]
    assert gpus_of(built) == [0, 0]
    assert not any("several processes" in warning for warning in built.manifest.warnings)


def test_on_one_gpu_the_work_of_two_processes_is_one_union() -> None:
    overlapping = [
        Kernel(100, 200, 0, 1, 7, 1, 101, "k()"),
        Kernel(150, 300, 0, 1, 7, 1, 102, "k()"),
    ]
    mapped = build(Capture(kernels=overlapping, cuda_devices=[CudaDevice(0, 0, pid) for pid in PIDS]))
    assert busy(mapped) == [(0, 200)]
    assert busy(build(Capture(kernels=overlapping))) == [(0, 100), (1, 150)]


def test_mapped_to_different_gpus_the_same_device_id_is_two_devices_with_their_own_names() -> None:
    """Every rank sees its GPU as device 0 where CUDA_VISIBLE_DEVICES names one each."""
    each = [CudaDevice(2, 0, 101), CudaDevice(1, 0, 102)]
    built = build(Capture(kernels=kernels((101, 0), (102, 0)), gpus=GPUS, cuda_devices=each))
    assert [key(device) for device in built.manifest.devices] == [
        (0, 101, (101,), "physical GPU", "GPU 2"),
        (0, 102, (102,), "physical GPU", "GPU 1"),
    ]
    assert not any("does not say which GPU" in warning for warning in built.manifest.warnings)


def test_different_device_ids_of_two_processes_may_be_one_gpu() -> None:
    crossed = [CudaDevice(1, 0, 101), CudaDevice(1, 1, 102)]
    built = build(Capture(kernels=kernels((101, 0), (102, 1)), gpus=GPUS, cuda_devices=crossed))
    assert [key(device) for device in built.manifest.devices] == [(0, None, PIDS, "physical GPU", "GPU 1")]


def test_a_process_that_the_map_leaves_out_keeps_its_device_to_itself() -> None:
    built = build(Capture(kernels=kernels((101, 0), (102, 0)), gpus=GPUS, cuda_devices=[CudaDevice(0, 0, 101)]))
    assert [key(device) for device in built.manifest.devices] == [
        (0, 101, (101,), "physical GPU", "GPU 0"),
        (0, 102, (102,), "process and device", None),
    ]


def test_the_map_may_hold_packed_process_ids() -> None:
    packed = [CudaDevice(0, 0, Process(pid).global_pid) for pid in PIDS]
    built = build(Capture(kernels=kernels((101, 0), (102, 0)), cuda_devices=packed))
    assert [key(device)[:4] for device in built.manifest.devices] == [(0, None, PIDS, "physical GPU")]


def test_an_unmapped_device_is_named_where_all_listed_gpus_are_of_one_product() -> None:
    alike = build(Capture(kernels=kernels((101, 0)), gpus=ALIKE)).manifest
    assert [(d.name, d.chip, d.memory_bytes, d.memory_bytes_per_s) for d in alike.devices] == [
        ("GPU", "GX", 10**10, 10**12)
    ]
    assert alike.listed_gpus == 2
    assert build(Capture(kernels=kernels((101, 0)), gpus=GPUS)).manifest.devices[0].name is None
    assert build(Capture(kernels=kernels((101, 0)))).manifest.listed_gpus == 0


def test_only_gpus_with_work_are_devices() -> None:
    every = [CudaDevice(gpu, gpu, 101) for gpu in (0, 1, 2)]
    manifest = build(Capture(kernels=kernels((101, 2)), gpus=GPUS, cuda_devices=every)).manifest
    assert [(d.gpu, d.device) for d in manifest.devices] == [(0, 2)]
    assert manifest.listed_gpus == 3


def test_devices_that_are_listed_and_did_nothing_come_after_those_with_work() -> None:
    every = [CudaDevice(gpu, gpu, 101) for gpu in (0, 1, 2)]
    for cuda_devices in (every, []):
        manifest = build(Capture(kernels=kernels((101, 1)), gpus=GPUS, cuda_devices=cuda_devices)).manifest
        assert [(d.gpu, d.device, d.name, d.pids, d.basis) for d in manifest.idle_devices] == [
            (1, 0, "GPU 0", (), "listed, no work"),
            (2, 2, "GPU 2", (), "listed, no work"),
        ]
    assert build(Capture(kernels=kernels((101, 1)))).manifest.idle_devices == ()


def test_a_device_knows_every_id_that_stands_for_it_and_none_of_these_is_idle() -> None:
    crossed = [CudaDevice(1, 0, 101), CudaDevice(1, 1, 102)]
    manifest = build(Capture(kernels=kernels((101, 0), (102, 1)), gpus=GPUS, cuda_devices=crossed)).manifest
    assert [device.ids for device in manifest.devices] == [(0, 1)]
    assert [device.device for device in manifest.idle_devices] == [2]


def test_equal_streams_of_two_processes_are_two_streams() -> None:
    built = build(Capture(kernels=kernels((101, 0), (102, 0), (101, 0))))
    assert [row["stream"] for row in built.rows("kernels")] == [0, 1, 0]
    assert [(row["gpu"], row["stream_id"], row["label"]) for row in built.rows("streams")] == [(0, 7, "7"), (1, 7, "7")]


def test_processes_of_two_machines_may_have_the_same_id() -> None:
    twins = [Process(42, vm=1), Process(42, vm=2)]
    built = build(Capture(kernels=kernels(*((twin.global_pid, 0) for twin in twins))))
    assert [(row["global_pid"], row["pid"]) for row in built.rows("processes")] == [(t.global_pid, 42) for t in twins]
    assert gpus_of(built) == [0, 1]
    keys = [(device.device, device.process) for device in built.manifest.devices]
    assert len(set(keys)) == 2  # told apart all the same
    assert [device.pids for device in built.manifest.devices] == [(42,), (42,)]
