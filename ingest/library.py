"""The library: captures and profile ids in, opened profiles out, over one shared cache."""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.wire import clean_text
from .build import Step, build_profile
from .cache import PROFILE_FILES, Cache, default_cache
from .canonical import take_in
from .forms.detect import find_capture
from .forms.export import schema_warnings, versions
from .forms.found import Form, Found, reading
from .forms.open import open_reader
from .health import read_health
from .integrity import add_sums, digest_of
from .interrupt import Interrupt
from .manifest import Manifest
from .nsys.export import export_report
from .nsys.find import Nsys, find_nsys
from .profile import Profile
from .raw import missing_columns
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
        nsys: the nsys that exports reports; None for `NSYS_EVIDENCE_NSYS`, else the one that is found.
    """

    def __init__(
        self, cache: Path | None = None, roots: Sequence[Path] | None = None, nsys: Path | None = None
    ) -> None:
        self._nsys = nsys
        self.cache = Cache(cache or default_cache())
        self._roots = None if roots is None else tuple(root.resolve() for root in roots)
        self._opened: OrderedDict[Source, Profile] = OrderedDict()
        self._admitted: set[str] = set()
        self._lock = threading.Lock()

    def open(self, reference: str, interrupt: Interrupt | None = None, progress: Progress | None = None) -> Profile:
        """The profile of a capture path or a profile id (`p-…`), ingested if it never was.

        Raises:
            EvidenceError: with the code that says why it cannot be opened.
        """
        if _PROFILE_ID.fullmatch(reference):
            return self._by_id(reference, interrupt or Interrupt())
        path = self._allowed(reference)
        interrupt = interrupt or Interrupt()
        found = find_capture(path)
        self._check_files(found)
        digest = self._digest(found, interrupt)
        known = self._cached(digest, interrupt) or self._ingest(found, digest, interrupt, progress)
        source, manifest = known
        self._admitted.add(manifest.profile_id)
        return self._profile(replace(source, name=clean_text(path.name)), manifest)

    def nsys(self, report: Path | None = None) -> Nsys:
        """The nsys that exports reports, or this report; see `find_nsys`."""
        return find_nsys(self._nsys, report)

    def sources(self) -> list[Source]:
        """The sources in the cache, by name and profile id; with roots, those that were opened from below one."""
        return [source for source in self.cache.sources() if self.admits(source.profile_id)]

    def admits(self, profile_id: str) -> bool:
        """Whether a profile may be spoken of. With roots, only one that this library opened from a path below one."""
        return self._roots is None or profile_id in self._admitted

    def _by_id(self, profile_id: str, interrupt: Interrupt) -> Profile:
        manifest, source = self.cache.verified(profile_id, interrupt), self.cache.source_of(profile_id)
        if manifest is None or source is None or not self.admits(profile_id):
            raise EvidenceError(
                ErrorCode.PROFILE_NOT_FOUND,
                f"no whole profile {profile_id} is in the cache",
                "give the path of the capture instead; list_profiles shows the ids that are in the cache",
            )
        return self._profile(source, manifest)

    def _allowed(self, reference: str) -> Path:
        """The resolved path, inside the roots. Resolving comes first, so that neither `..` nor links lead out."""
        try:
            path = Path(reference).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            path = None
        if path is None or "\0" in reference:
            raise EvidenceError(
                ErrorCode.PROFILE_NOT_FOUND,
                "that is no path",
                "give the absolute path of a capture, or a profile id that list_profiles shows",
            )
        if not self._inside(path):
            raise EvidenceError(
                ErrorCode.PATH_NOT_ALLOWED,
                f"{Path(reference).name} is outside the directories that this server may read",
                "give a path below a directory that the server was started with (serve --root DIR)",
            )
        return path

    def _inside(self, path: Path) -> bool:
        return self._roots is None or any(path.is_relative_to(root) for root in self._roots)

    def _check_files(self, found: Found) -> None:
        """The files of a directory may be links: none of them may lead out of the roots either."""
        files = (found.path / name for name in PROFILE_FILES) if found.form is Form.CANONICAL else found.files
        for file in files:
            if not self._inside(file.resolve()):
                raise EvidenceError(
                    ErrorCode.PATH_NOT_ALLOWED,
                    f"{file.name} in {found.path.name} leads outside the directories that this server may read",
                    "give a capture that lies wholly below a directory that the server was started with "
                    "(serve --root DIR)",
                )

    def _digest(self, found: Found, interrupt: Interrupt) -> str:
        """The digest of the content. Known from before when the path has the same files in the same state as then."""
        states = [list(state) for state in found.states]
        key = hashlib.sha256(str(found.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        noted = self.cache.seen(key)
        if noted and noted.get("files") == states:
            return str(noted["digest"])
        with reading(found.path):
            digest = found.digest(interrupt.check)
        if time.time() - found.changed > _SETTLED_S:
            self.cache.note_seen(key, {"files": states, "digest": digest})
        return digest

    def _cached(self, digest: str, interrupt: Interrupt) -> tuple[Source, Manifest] | None:
        source = self.cache.source(digest)
        manifest = self.cache.verified(source.profile_id, interrupt) if source else None
        return (source, manifest) if source and manifest else None

    def _ingest(
        self, found: Found, digest: str, interrupt: Interrupt, progress: Progress | None
    ) -> tuple[Source, Manifest]:
        def step(share: float, words: str) -> None:
            interrupt.check()
            if progress is not None:
                progress(share, words)

        with self.cache.writing(digest, interrupt) as staging:
            if known := self._cached(digest, interrupt):  # another process was first
                return known
            directory = staging / "profile"
            directory.mkdir()
            if found.form is Form.CANONICAL:
                source, manifest = take_in(found.path, directory, interrupt)
                source = replace(source, form=found.form.value)
            elif found.form is Form.REPORT:
                source, manifest = self._from_report(found, staging, directory, interrupt, step)
            else:
                source, manifest = _build(found, found, directory, step)
            found.check_unchanged()
            self.cache.publish(staging, manifest, interrupt)
            self.cache.put_source(digest, source)
            self.cache.prune(keep=manifest.profile_id)
            step(1.0, "ready")
            return source, manifest

    def _from_report(
        self, report: Found, staging: Path, directory: Path, interrupt: Interrupt, step: Step
    ) -> tuple[Source, Manifest]:
        nsys = self.nsys(report.path)
        step(0.0, f"exporting with nsys {nsys.version}")
        into = staging / "export"
        into.mkdir()
        export = find_capture(export_report(report.path, into, nsys, interrupt))
        written = _build(report, export, directory, step)
        shutil.rmtree(into, ignore_errors=True)  # it is as large as the profile, and more
        return written

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


def _build(found: Found, export: Found, directory: Path, step: Step) -> tuple[Source, Manifest]:
    """Read the export of a capture, which may be the capture itself, and write its canonical directory into an empty
    one."""
    reader = open_reader(export)
    try:
        try:
            manifest = build_profile(reader, directory, step)
        except EvidenceError:
            found.check_unchanged()  # which explains what looks like damage
            raise
        manifest.write(directory)
        nsys_version, schema_version = versions(reader)
        source = Source(
            name=clean_text(found.path.name),
            form=found.form.value,
            size_bytes=found.size_bytes,
            nsys_version=nsys_version,
            schema_version=schema_version,
            tables=reader.tables(),
            profile_id=manifest.profile_id,
            warnings=(*schema_warnings(schema_version), *missing_columns(reader)),
            health=read_health(reader, manifest.capture),
        )
        (directory / "source.json").write_text(source.to_json(), encoding="utf-8")
        add_sums(directory, {name: digest_of(directory / name) for name in ("manifest.json", "source.json")})
    finally:
        reader.close()
    return source, manifest
