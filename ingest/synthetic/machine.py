"""Rows about the machine, its processes and the export itself: where real exports carry secrets."""

from .model import Capture
from .rows import Row, Strings


def machine_rows(capture: Capture, strings: Strings) -> dict[str, list[Row]]:
    """Rows of the descriptive tables; the environment stands in each of them, as nsys puts it there."""
    vm = capture.processes[0].global_vm if capture.processes else 0
    pairs = [f"{name}={value}" for name, value in capture.environment.items()]
    for text in (*pairs, *capture.unreferenced):
        strings.id(text)
    rows: dict[str, list[Row]] = {
        "PROCESSES": [
            {"globalPid": process.global_pid, "pid": process.pid, "name": " ".join((process.name, *process.command))}
            for process in capture.processes
        ],
        "TARGET_INFO_GPU": [
            {
                "vmId": vm,
                "id": gpu.id,
                "name": gpu.name,
                "busLocation": f"0000:{0x19 + gpu.id * 0x22:02x}:00.0",
                "isDiscrete": 1,
                "totalMemory": gpu.total_memory,
                "memoryBandwidth": gpu.memory_bandwidth,
                "smCount": gpu.sm_count,
                "chipName": gpu.chip,
                "cuDevice": gpu.cu_device,
                "threadsPerWarp": 32,
            }
            for gpu in capture.gpus
        ],
        "TARGET_INFO_CUDA_DEVICE": [
            {"gpuId": device.gpu_id, "cudaId": device.cuda_id, "pid": device.pid} for device in capture.cuda_devices
        ],
    }
    if capture.environment:
        rows["PROCESSES"].append({"globalPid": vm | 1 << 24, "pid": 1, "name": " ".join(["env", *pairs, "launcher"])})
        rows["ProcessStreams"] = [
            {"globalPid": vm | 1 << 24, "filenameId": strings.id("stdout.log"), "contentId": strings.id(pair)}
            for pair in pairs
        ]
    if capture.processes or capture.environment:
        facts = [("DeviceEnvironment", 610, ";".join(pairs)), ("Hostname", 619, capture.host)]
        rows["TARGET_INFO_SYSTEM_ENV"] = [
            {"globalVid": vm, "devStateName": "Local (CLI)", "name": name, "nameEnum": number, "value": value}
            for name, number, value in facts
        ]
        rows["META_DATA_CAPTURE"] = _named(_capture_facts(capture))
    if capture.session is not None:
        start, stop = capture.session
        rows["ANALYSIS_DETAILS"] = [{"globalVid": vm, "duration": stop - start, "startTime": start, "stopTime": stop}]
    rows["META_DATA_EXPORT"] = _named(_export_facts(capture))
    return rows


def _named(facts: list[tuple[str, str]]) -> list[Row]:
    return [{"name": name, "value": value} for name, value in facts]


def _capture_facts(capture: Capture) -> list[tuple[str, str]]:
    facts = [("DEVICE_ID", "Local (CLI)"), ("DEVICE_DISPLAY_NAME", capture.host)]
    for index, process in enumerate(capture.processes):
        prefix = f"PROCESS_{index}"
        facts.append((f"{prefix}:COMMAND", process.name))
        facts += [(f"{prefix}:ARGUMENT_{place}", word) for place, word in enumerate(process.command)]
        facts += [(f"{prefix}:PID", str(process.pid)), (f"{prefix}:USER_NAME", capture.user)]
    quoted = [f'{name}="{value}"' for name, value in capture.environment.items()]
    return facts + [("PROCESS_0:ENVIRONMENT_VARIABLE", pair) for pair in quoted]


def _export_facts(capture: Capture) -> list[tuple[str, str]]:
    major, minor, micro = [*capture.schema.split("."), "0", "0"][:3]
    return [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", capture.product),
        ("EXPORT_PRODUCT_DATE", ".".join(capture.product.split(".")[:2])),
        ("EXPORT_SCHEMA_VERSION", capture.schema),
        ("EXPORT_SCHEMA_VERSION_MAJOR", major),
        ("EXPORT_SCHEMA_VERSION_MINOR", minor),
        ("EXPORT_SCHEMA_VERSION_MICRO", micro),
        ("EXPORT_SCHEMA_VERSION_CKSUM", "0 0"),
        ("EXPORT_PLATFORM", "linux-desktop"),
        ("EXPORT_ARCH", "x64"),
        ("EXPORT_TIME_UTC", "2025-03-14T09:26:53"),
        ("EXPORT_TIME_LOCAL", "2025-03-14T09:26:53 +0000 UTC"),
        ("EXPORT_HOST", capture.host),
        ("EXPORT_USER", capture.user),
        ("EXPORT_PARAM_INPUT_FILE", "capture.nsys-rep"),
        ("EXPORT_PARAM_OUTPUT_FILE", "capture.sqlite"),
        ("EXPORT_PARAM_INPUT_PATH", ""),
        ("EXPORT_PARAM_OUTPUT_PATH", ""),
        ("EXPORT_PARAM_INPUT_PATH_ABS", ""),
        ("EXPORT_PARAM_OUTPUT_PATH_ABS", ""),
        ("EXPORT_PARAM_OVERWRITE", "true"),
        ("EXPORT_PARAM_APPEND", "false"),
        ("EXPORT_PARAM_LAZY", "true"),
        ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
        ("EXPORT_PARAM_TIME_SHIFT", "0"),
        ("EXPORT_PARAM_TABLES_TO_EXPORT", ""),
        ("EXPORT_PARAM_TIMES_TO_EXPORT", ""),
        ("EXPORT_CONFIG_TIME_SHIFT", "0"),
        ("EXPORT_TIME", "0.07 sec"),
    ]
