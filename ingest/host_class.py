"""What the host did in a CUDA API call, by the call's name."""

from __future__ import annotations

import re

from .tables import HOST_CLASSES

_PATTERNS = (  # first match wins; on the name without its version suffix
    ("sync", r"(cuda|cu)(Device|Ctx|Stream|Event)Synchronize|cudaThreadSynchronize"),
    (
        "alloc",
        r"cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemPool)|cuMem\w*(Alloc|Free|Create|Release|Map)",
    ),
    ("module_load", r"cu(Module|Library)(Load|Get|Unload)|cuLink|cudaCompile|cuKernelGet|cudaFuncGetAttributes"),
    ("copy_call", r"cuda(Memcpy|Memset|MemPrefetch)|cuMem(cpy|set|Prefetch)"),
    ("launch", r"cuda(Launch|GraphLaunch)|cu(Launch|GraphLaunch)"),
)
_COMPILED = tuple((HOST_CLASSES.index(name), re.compile(pattern)) for name, pattern in _PATTERNS)
_OTHER = HOST_CLASSES.index("other_cuda")


def host_class(api: str) -> int:
    """The position in `HOST_CLASSES` of a CUDA runtime or driver call."""
    return next((number for number, pattern in _COMPILED if pattern.match(api)), _OTHER)


_VERSION = re.compile(r"_v[0-9]{4}$", re.ASCII)


def api_name(recorded: str) -> str:
    """The name of an API call as nsys shows it: a trailing `_v` and four digits is cut, five digits are kept."""
    return _VERSION.sub("", recorded)
