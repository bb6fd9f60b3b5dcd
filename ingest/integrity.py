"""Whether a canonical directory is as it was written: `SHA256SUMS` lists the digest of every other file in it.

The list has the form that `sha256sum --check` reads, so that a copied profile can be checked without this program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

SUMS = "SHA256SUMS"
_BLOCK = 1 << 22


def digest_of(path: Path, tick: Callable[[], None] = lambda: None) -> str:
    """SHA-256 of a file's content in hexadecimal; `tick` is called between blocks and may raise."""
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            hasher.update(block)
            tick()
    return hasher.hexdigest()


def add_sums(directory: Path, digests: Mapping[str, str]) -> None:
    """Add digests, by file name, to the list of a directory that is being written."""
    path = directory / SUMS
    listed = {**(_listed(path) if path.exists() else {}), **digests}
    path.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(listed.items())), encoding="ascii")


def is_intact(directory: Path, files: Iterable[str], tick: Callable[[], None] = lambda: None) -> bool:
    """Whether these files are all that is listed, and each has the content that the list says."""
    try:
        listed = _listed(directory / SUMS)
        return set(listed) == set(files) and all(
            digest_of(directory / name, tick) == digest for name, digest in listed.items()
        )
    except (OSError, ValueError):
        return False


def _listed(path: Path) -> dict[str, str]:
    # Split at newlines alone: the other ends of lines that `splitlines` knows would be damage that goes unseen.
    lines = path.read_bytes().decode("ascii").removesuffix("\n").split("\n")
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
