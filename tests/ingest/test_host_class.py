"""What the host did in a CUDA API call follows from the call's name."""

import sqlite3

import pytest

from nsys_evidence.ingest.host_class import api_name, host_class
from nsys_evidence.ingest.tables import HOST_CLASSES
from tests.support import CAPTURES, needs_shared

CALLS = {
    "sync": """cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cudaThreadSynchronize cuCtxSynchronize
        cuStreamSynchronize cuEventSynchronize""",
    "alloc": """cudaMalloc cudaMallocAsync_v11020 cudaMallocHost cudaMallocManaged cudaMallocPitch cudaFree
        cudaFreeAsync_v11020 cudaFreeHost cudaHostAlloc cudaHostRegister cudaHostUnregister cudaMemPoolCreate_v11020
        cuMemAlloc_v2 cuMemAllocAsync cuMemFree_v2 cuMemHostAlloc cuMemFreeHost cuMemCreate cuMemRelease cuMemMap
        cuMemAddressFree cuMemPoolCreate""",
    "module_load": """cuModuleLoadData cuModuleLoadDataEx cuModuleGetFunction cuModuleUnload cuLibraryLoadData
        cuLibraryGetKernel cuLibraryUnload cuLinkCreate_v2 cuLinkComplete cuKernelGetFunction cudaFuncGetAttributes""",
    "copy_call": """cudaMemcpy cudaMemcpyAsync cudaMemcpy2DAsync cudaMemcpyPeerAsync cudaMemcpyToSymbolAsync cudaMemset
        cudaMemsetAsync cudaMemPrefetchAsync cuMemcpyHtoDAsync_v2 cuMemcpyDtoH_v2 cuMemcpyAsync cuMemsetD8Async
        cuMemPrefetchAsync""",
    "launch": """cudaLaunchKernel cudaLaunchKernelExC_v11060 cudaLaunchCooperativeKernel cudaGraphLaunch_v10000
        cuLaunchKernel cuLaunchKernelEx cuGraphLaunch""",
    "other_cuda": """cudaStreamWaitEvent cudaEventRecord cudaEventQuery cudaStreamCreateWithFlags
        cudaGetDeviceProperties cuStreamWaitEvent cuEventRecord cudaStreamIsCapturing_v10000
        cudaGraphInstantiate_v12000 cuInit cuMemGetInfo_v2
        cuGetProcAddress mycudaMalloc""",
}


@pytest.mark.parametrize(
    ("expected", "name"), [(kind, name) for kind, names in CALLS.items() for name in names.split()]
)
def test_a_call_is_of_the_class_that_its_name_says(expected: str, name: str) -> None:
    assert HOST_CLASSES[host_class(name)] == expected
    assert HOST_CLASSES[host_class(api_name(name))] == expected


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC_v11060"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cudaMalloc_v3020_v3020", "cudaMalloc_v3020"),
        ("cudaX_v\u0661\u0662\u0663\u0664", "cudaX_v\u0661\u0662\u0663\u0664"),
        ("_v7000x", "_v7000x"),
        ("", ""),
    ],
)
def test_a_version_of_four_digits_is_cut_as_nsys_cuts_it(recorded: str, shown: str) -> None:
    assert api_name(recorded) == shown


@needs_shared
def test_every_call_of_the_real_captures_that_waits_copies_allocates_or_launches_is_known_as_such() -> None:
    names: set[str] = set()
    for path in CAPTURES:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_RUNTIME'").fetchone():
            query = "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId"
            names |= {name for (name,) in database.execute(query)}
        database.close()
    assert len(names) > 40
    telling = ("Synchronize", "Memcpy", "Memset", "Malloc", "MemAlloc", "MemFree", "cudaFree", "Launch")
    unclear = {n for n in names if any(word in n for word in telling) and HOST_CLASSES[host_class(n)] == "other_cuda"}
    assert unclear == set()
