"""What the tests of the cache share: small captures, and what a cache directory holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nsys_evidence.ingest.cache import Cache
from nsys_evidence.ingest.library import Library
from nsys_evidence.ingest.profile import Profile
from nsys_evidence.ingest.synthetic import Capture, Kernel, Range, demo_capture
from nsys_evidence.ingest.tables import FORMAT_VERSION

DEMO = demo_capture()[0]
SMALL = Capture(kernels=[Kernel(100, 200, 0, 1, 7, 1, 42, "k()")], ranges=[Range(1, 2, 42, 42, "r")])
OTHER = replace(SMALL, kernels=[Kernel(100, 201, 0, 1, 7, 1, 42, "k()")])


def opened(library: Library, path: Path | str) -> tuple[Profile, int]:
    """The profile, and how many steps of an ingest it took: none where it was there."""
    steps: dict[str, float] = {}  # by what is being done: how often a step is reported is a matter of time
    profile = library.open(str(path), progress=lambda share, words: steps.update({words: share}))
    return profile, len(steps)


def files(directory: Path) -> list[str]:
    """Every file and empty folder below a cache directory but its locks, by path."""
    found = (path for path in directory.rglob("*") if path.is_file() or not any(path.iterdir()))
    return sorted(str(path.relative_to(directory)) for path in found if path.parent.name != "locks")


def kernels(profile: Profile) -> list[tuple[int, int]]:
    cursor = profile.cursor()
    try:
        return cursor.execute('SELECT start, "end" FROM kernels ORDER BY 1, 2').fetchall()
    finally:
        cursor.close()


def whole(directory: Path) -> bool:
    """Whether there is nothing but whole profiles: none half written, nothing in staging."""
    root = directory / f"v{FORMAT_VERSION}"
    profiles = list((root / "profiles").glob("*"))
    return all(Cache(directory).manifest(p.name) for p in profiles) and not list((root / "staging").glob("*"))
