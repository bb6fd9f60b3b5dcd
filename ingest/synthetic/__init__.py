"""The project's own Nsight Systems exports: a capture described in plain terms, written as SQLite in any layout.

`demo_capture` is a small training run whose figures are known; `write_sqlite` stores it, or any other `Capture`.
"""

from .demo import demo_capture
from .model import (
    Call,
    Capture,
    Copy,
    CudaDevice,
    Domain,
    Gpu,
    GpuMetric,
    GraphLaunch,
    Kernel,
    Mark,
    NcclPayload,
    OsrtCall,
    Process,
    Range,
    Running,
    Sample,
    Set,
    Stream,
    Sync,
    ThreadName,
)
from .truth import DeviceTruth, KernelTruth, Truth, capture_window, device_truth, gpu_window
from .write import Layout, write_sqlite

__all__ = [
    "Call",
    "Capture",
    "Copy",
    "CudaDevice",
    "DeviceTruth",
    "Domain",
    "Gpu",
    "GpuMetric",
    "GraphLaunch",
    "Kernel",
    "KernelTruth",
    "Layout",
    "Mark",
    "NcclPayload",
    "OsrtCall",
    "Process",
    "Range",
    "Running",
    "Sample",
    "Set",
    "Stream",
    "Sync",
    "ThreadName",
    "Truth",
    "capture_window",
    "demo_capture",
    "device_truth",
    "gpu_window",
    "write_sqlite",
]
