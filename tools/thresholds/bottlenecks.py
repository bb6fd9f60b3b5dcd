"""Name patterns of the bottleneck skills."""

from __future__ import annotations

from .kinds import PatternTable

_HOW = (
    "the whole name of the runtime or driver call, without _v2, _v7000, _ptsz and the like; * stands for any "
    "characters; case counts"
)

MODULE_LOADING = PatternTable(
    name="module loading",
    how=_HOW,
    rows=(
        ("cuModuleLoad*", "loads a module; from PTX it compiles too"),
        ("cuLibraryLoad*", "loads a library of kernels"),
        ("cudaLibraryLoad*", "loads a library of kernels"),
        ("cuLink*", "links, and compiles PTX"),
        ("cudaCompile*", "compiles"),
        ("cuModuleGetFunction", "lazy loading: may load a kernel"),
        ("cuLibraryGetKernel", "lazy loading: may load a kernel"),
        ("cudaLibraryGetKernel", "lazy loading: may load a kernel"),
        ("cuLibraryGetModule", "lazy loading: loads the module into the context"),
        ("cuKernelGetFunction", "lazy loading: loads the kernel into the context"),
        ("cuFuncLoad", "lazy loading: loads the kernel"),
        ("cudaFuncGetAttributes", "lazy loading: loads the kernel"),
    ),
    skills=("module_loading",),
)

POOL = "pool"
"""Stream-ordered allocation, from a pool: cheap, does not wait for the device."""

ALLOCATION = "allocation"
"""Allocation and release that may wait for the device."""

MAPPING = "mapping"
"""Virtual memory management: address ranges, physical memory, and the mapping between them."""

ALLOCATIONS = PatternTable(
    name="allocation",
    how=_HOW,
    rows=(
        ("cudaMallocAsync", POOL),
        ("cudaMallocFromPoolAsync", POOL),
        ("cudaFreeAsync", POOL),
        ("cudaMemPool*", POOL),
        ("cuMemAllocAsync", POOL),
        ("cuMemAllocFromPoolAsync", POOL),
        ("cuMemFreeAsync", POOL),
        ("cuMemPool*", POOL),
        ("cudaMalloc*", ALLOCATION),
        ("cudaFree*", ALLOCATION),
        ("cudaHostAlloc", ALLOCATION),
        ("cuMemAlloc*", ALLOCATION),
        ("cuMemHostAlloc", ALLOCATION),
        ("cuMemFree*", ALLOCATION),
        ("cuMemAddressReserve", MAPPING),
        ("cuMemAddressFree", MAPPING),
        ("cuMemCreate", MAPPING),
        ("cuMemRelease", MAPPING),
        ("cuMemMap", MAPPING),
        ("cuMemUnmap", MAPPING),
    ),
    skills=("gc_impact",),
)

GC_RANGES = PatternTable(
    name="garbage collection",
    how=(
        "RE2 regular expression at the start of the name of an NVTX range (after DOMAIN: where it is in a domain); "
        "any case"
    ),
    rows=((r"(python[ _])?gc\b", "the program says that it collects garbage"),),
    skills=("gc_impact",),
)
