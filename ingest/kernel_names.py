"""Kernel names: short unique labels, and the collective that a name stands for. By name only: a name is a hint."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from ..contracts.wire import clean_text

LABEL_LENGTH = 60

_COMM_PREFIXES = (
    "ncclKernel",
    "ncclDevKernel",
    "ncclSymk",
    "ncclSymDevKernel",
    "nvshmem",
    "rcclKernel",
    "rcclDevKernel",
)
_COLLECTIVES = (  # ReduceScatter and AllReduce before Reduce: the first that the name contains
    "AllReduce",
    "ReduceScatter",
    "AllGather",
    "AllToAll",
    "SendRecv",
    "Broadcast",
    "Gather",
    "Scatter",
    "Reduce",
    "Barrier",
)
_ALIASES = {"alltoall": "AllToAll", "all_to_all": "AllToAll", "bcast": "Broadcast"}


def collective_of(demangled: str) -> str | None:
    """The collective that a kernel is by its name, None for a compute kernel.

    Anchored prefixes only, so that a `pack_for_nccl_bucket_kernel` stays compute. A communication kernel whose
    collective the name does not tell is "Generic".
    """
    name = base_name(demangled)
    if not name.startswith(_COMM_PREFIXES):
        return None
    lowered = name.lower()
    for alias, collective in _ALIASES.items():
        if alias in lowered:
            return collective
    squeezed = lowered.replace("_", "")
    return next((c for c in _COLLECTIVES if c.lower() in squeezed), "Generic")


def _outside_brackets(name: str) -> str:
    """The name without anything in <>, () or []; `(anonymous namespace)` and `operator()` are no brackets."""
    name = name.replace("(anonymous namespace)", "anonymous").replace("<unnamed>", "unnamed")
    depth, kept = 0, []
    for position, character in enumerate(name):
        if character in "<([":
            depth += 1
        elif character in ">)]" and not (character == ">" and name[position - 1] == "-"):
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(character)
    return "".join(kept)


def base_name(demangled: str) -> str:
    """The function's own name: no return type, namespaces, template arguments or parameters."""
    plain = _outside_brackets(demangled).strip()
    words = plain.split()
    return words[-1].rpartition("::")[2] if words else demangled.strip()


_SEARCHED = 1_000
"""How much of the template arguments is looked through for a hint."""

_FUNCTOR = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]*(?:[Ff]unctor|_functor|Op|Ops)(?:_[a-z0-9]+)?\b")
_GENERIC = re.compile(r"[Kk]ernel[0-9]*|device_kernel|run_kernel|elementwise_kernel|cutlass_kernel")
_ARGUMENT = re.compile(r"<(?:\([a-z ]+\))?([A-Za-z_][A-Za-z0-9_:]*)")


def _hinted(demangled: str) -> str:
    """The base name with what tells it apart among its template arguments: a functor, or the first one of a wrapper."""
    base = base_name(demangled)
    if "<" not in demangled:
        return base
    after = demangled.find(base) + len(base)
    demangled = demangled[: after + _SEARCHED]
    found = _FUNCTOR.search(demangled, after)
    if found:
        return f"{base}<{found[0]}>"
    argument = _ARGUMENT.match(demangled, after) if _GENERIC.fullmatch(base) else None
    return f"{base}<{argument[1].rpartition('::')[2]}>" if argument else base


_HEAD = LABEL_LENGTH // 4


def _shortened(names: Sequence[str]) -> list[str]:
    """Names that are not too long as they are. Long ones keep their head and the words that not all long names with
    this head have, or, where these are none or too many, lose their middle."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in set(names):
        if len(name) > LABEL_LENGTH:
            families[name[:_HEAD]].append(name)
    shared = {
        head: set.intersection(*(set(member.split("_")) for member in members)) for head, members in families.items()
    }
    labels = []
    for name in names:
        if len(name) <= LABEL_LENGTH:
            labels.append(name)
            continue
        words = "_".join(word for word in name[_HEAD:].split("_") if word not in shared[name[:_HEAD]])
        if not 0 < len(words) < LABEL_LENGTH - _HEAD:
            words = name[_HEAD + 1 - LABEL_LENGTH :]
        labels.append(f"{name[:_HEAD]}…{words}")
    return labels


def labels_of(demangled_names: Sequence[str]) -> list[str]:
    """A short label for each name, unique among them: where two would be alike, a hash of the name tells them apart."""
    short = [label or "(unnamed)" for label in _shortened([_hinted(clean_text(name)) for name in demangled_names])]
    counts = Counter(short)
    labels = [
        label if counts[label] == 1 else f"{label}~{hashlib.sha256(name.encode()).hexdigest()[:4]}"
        for label, name in zip(short, demangled_names, strict=True)
    ]
    if len(set(labels)) < len(labels):  # four digits of hash met: number them
        return [f"{label}#{number}" for number, label in enumerate(labels)]
    return labels
