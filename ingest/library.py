"""The library: captures and profile ids in, opened profiles out, over one shared cache."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.wire import clean_text
from .build import build_profile
from .cache import Cache, default_cache
from .detect import check_capture, open_reader, reading, schema_warnings, versions
from .interrupt import Interrupt
from .manifest import Manifest
from .profile import Profile
from .raw import missing_columns
from .roots import Roots
from .source import Source

Progress = Callable[[float, str], None]
"""Called with the share done, 0 to 1, and what is being done."""

_PROFILE_ID = re.compile(r"p-[0-9a-f]{20}")
_OPEN_PROFILES = 8
_SETTLED_S = 2.0
"""A file younger than this may change again within one tick of its clock, so its digest is not remembered."""


class Library:
    """Opens captures, ingesting each once. One per process; safe to use from several threads.

    Args:
        cache: cache directory; None for `NSYS_EVIDENCE_CACHE`, else the user's cache directory.
        roots: directories that captures may be opened from; None for anywhere.
    """

    def __init__(self, cache: Path | None = None, roots: Sequence[Path] | None = None) -> None:
        self.cache = Cache(cache or default_cache())
        self.roots = Roots(roots)
        self._opened: OrderedDict[Source, Profile] = OrderedDict()
        self._admitted: set[Source] = set()
        self._lock = threading.Lock()

    def open(self, reference: str, interrupt: Interrupt | None = None, progress: Progress | None = None) -> Profile:
        """The profile of a capture path or a profile id (`p-…`), ingested if it never was.

        Raises:
            EvidenceError: with the code that says why it cannot be opened.
        """
        if _PROFILE_ID.fullmatch(reference):
            return self._by_id(reference)
        path = self.roots.resolve(reference)
        interrupt = interrupt or Interrupt()
        before = check_capture(path)
        digest = self._digest(path, before, interrupt)
        found = self._cached(digest)
        if found is None:
            found = self._ingest(path, before, digest, interrupt, progress)
        self.roots.check_still(path)
        source, manifest = found
        source = replace(source, name=clean_text(path.name))
        with self._lock:
            self._admitted.add(source)
        return self._profile(source, manifest)

    def sources(self) -> list[Source]:
        """The sources in the cache, by name and profile id; with roots, those opened from below one, as named there."""
        if self.roots.anywhere:
            return self.cache.sources()
        return sorted(self._admitted_sources(), key=lambda source: (source.name, source.profile_id, source.form))

    def admits(self, profile_id: str) -> bool:
        """Whether a profile may be spoken of. With roots, only one that this library opened from a path below one."""
        return self.roots.anywhere or any(source.profile_id == profile_id for source in self._admitted_sources())

    def _admitted_sources(self) -> list[Source]:
        with self._lock:
            return list(self._admitted)

    def _by_id(self, profile_id: str) -> Profile:
        manifest = self.cache.manifest(profile_id)
        if self.roots.anywhere:
            source = self.cache.source_of(profile_id)
        else:
            source = next((source for source in self.sources() if source.profile_id == profile_id), None)
        if manifest is None or source is None:
            raise EvidenceError(
                ErrorCode.PROFILE_NOT_FOUND,
                f"no profile {profile_id} is in the cache",
                "give the path of the capture instead; list_profiles shows the ids that are in the cache",
            )
        return self._profile(source, manifest)

    def _digest(self, path: Path, found: os.stat_result, interrupt: Interrupt) -> str:
        """SHA-256 of the content. Known from before when the path has the same file, size and times as then."""
        state: dict[str, object] = {
            "file": [found.st_dev, found.st_ino],
            "size": found.st_size,
            "times": [found.st_mtime_ns, found.st_ctime_ns],
        }
        key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        noted = self.cache.seen(key)
        if noted and {name: noted.get(name) for name in state} == state:
            return str(noted["digest"])
        hasher = hashlib.sha256()
        with reading(path), path.open("rb") as file:
            while block := file.read(1 << 22):
                hasher.update(block)
                interrupt.check()
        digest = hasher.hexdigest()
        if time.time() - max(found.st_mtime, found.st_ctime) > _SETTLED_S:
            self.cache.note_seen(key, {**state, "digest": digest})
        return digest

    def _cached(self, digest: str) -> tuple[Source, Manifest] | None:
        source = self.cache.source(digest)
        manifest = self.cache.manifest(source.profile_id) if source else None
        return (source, manifest) if source and manifest else None

    def _ingest(
        self, path: Path, before: os.stat_result, digest: str, interrupt: Interrupt, progress: Progress | None
    ) -> tuple[Source, Manifest]:
        reader = open_reader(path)
        try:
            with self.cache.writing(digest, interrupt) as staging:
                if found := self._cached(digest):  # another process was first
                    return found

                def step(share: float, words: str) -> None:
                    interrupt.check()
                    if progress is not None:
                        progress(share, words)

                directory = staging / "profile"
                directory.mkdir()
                try:
                    manifest = build_profile(reader, directory, step)
                except EvidenceError:
                    _check_unchanged(path, before)  # which explains what looks like damage
                    raise
                manifest.write(directory)
                nsys_version, schema_version = versions(reader)
                source = Source(
                    name=clean_text(path.name),
                    form=reader.form,
                    size_bytes=before.st_size,
                    nsys_version=nsys_version,
                    schema_version=schema_version,
                    tables=reader.tables(),
                    profile_id=manifest.profile_id,
                    warnings=(*schema_warnings(schema_version), *missing_columns(reader)),
                )
                _check_unchanged(path, before)
                (directory / "source.json").write_text(source.to_json(), encoding="utf-8")
                self.cache.publish(staging, manifest)
                self.cache.put_source(digest, source)
                self.cache.prune(keep=manifest.profile_id)
                step(1.0, "ready")
                return source, manifest
        finally:
            reader.close()

    def _profile(self, source: Source, manifest: Manifest) -> Profile:
        self.cache.touch(manifest.profile_id)
        with self._lock:
            profile = self._opened.get(source)
            if profile is None:
                directory = self.cache.profile_directory(manifest.profile_id)
                profile = self._opened[source] = Profile(source, directory, manifest)
            self._opened.move_to_end(source)
            while len(self._opened) > _OPEN_PROFILES:
                self._opened.popitem(last=False)  # calls that still use it keep it alive
            return profile


def _check_unchanged(path: Path, before: os.stat_result) -> None:
    with reading(path):
        after = path.stat()
    if _identity(before) != _identity(after):
        raise EvidenceError(
            ErrorCode.PROFILE_IN_USE,
            f"{path.name} changed while it was read",
            "wait until the program that writes it has finished, then call again",
        )


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
