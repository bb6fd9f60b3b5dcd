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
from .cache import Cache, default_cache
from .canonical import take_in
from .forms.detect import find_capture
from .forms.directory import MEMBERS
from .forms.export import schema_warnings, versions
from .forms.found import Form, Found, changed, reading
from .forms.open import open_reader
from .forms.sqlite import side_files
from .health import read_health
from .integrity import add_sums, digest_of
from .interrupt import Interrupt
from .manifest import PROFILE_ID, Manifest
from .nsys.export import export_failed, export_report
from .nsys.find import Nsys, find_nsys
from .profile import Profile
from .raw import missing_columns
from .roots import Roots
from .source import Source

Progress = Callable[[float, str], None]
"""Called with the share done, 0 to 1, and what is being done."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_OPEN_PROFILES = 8
_BADLY_WRITTEN = (
    ErrorCode.PROFILE_CORRUPT,
    ErrorCode.PROFILE_EMPTY,
    ErrorCode.PROFILE_IN_USE,
    ErrorCode.NOT_A_CAPTURE,
    ErrorCode.NOT_A_CAPTURE_DIRECTORY,
    ErrorCode.NOT_AN_NSYS_EXPORT,
    ErrorCode.PROFILE_NOT_FOUND,
)
"""Errors of an export that nsys has just written."""

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
        self.roots = Roots(roots)
        self._opened: OrderedDict[Source, Profile] = OrderedDict()
        self._admitted: set[Source] = set()
        self._lock = threading.Lock()

    def open(self, reference: str, interrupt: Interrupt | None = None, progress: Progress | None = None) -> Profile:
        """The profile of a capture path or a profile id (`p-…`), ingested if it never was.

        Raises:
            EvidenceError: with the code that says why it cannot be opened.
        """
        if PROFILE_ID.fullmatch(reference):
            return self._by_id(reference, interrupt or Interrupt())
        path = self.roots.resolve(reference)
        interrupt = interrupt or Interrupt()
        self._check_links(path)
        found = find_capture(path)
        digest = self._digest(found, interrupt)
        source, manifest = self._cached(digest, interrupt) or self._ingest(found, digest, interrupt, progress)
        self.roots.check_still(path)
        source = replace(source, name=clean_text(path.name))
        with self._lock:
            self._admitted.add(source)
        return self._profile(source, manifest)

    def nsys(self, report: Path | None = None, interrupt: Interrupt | None = None) -> Nsys:
        """The nsys that exports reports, or this report; see `find_nsys`."""
        return find_nsys(self._nsys, report, interrupt or Interrupt())

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

    def _by_id(self, profile_id: str, interrupt: Interrupt) -> Profile:
        if self.roots.anywhere:
            source = self.cache.source_of(profile_id)
        else:
            source = next((source for source in self.sources() if source.profile_id == profile_id), None)
        manifest = self.cache.verified(profile_id, interrupt) if source else None
        if manifest is None or source is None:
            raise EvidenceError(
                ErrorCode.PROFILE_NOT_FOUND,
                f"no whole profile {profile_id} is in the cache",
                "give the path of the capture instead; list_profiles shows the ids that are in the cache",
            )
        return self._profile(source, manifest)

    def _check_links(self, path: Path) -> None:
        """Refuse a capture with a link out of the roots in it, before anything is looked at through the link."""
        if self.roots.anywhere:
            return
        with reading(path):
            if path.is_dir():
                members = [file for file in path.iterdir() if file.suffix == ".parquet" or file.name in MEMBERS]
            else:
                members = side_files(path)
        for member in members:
            if not self.roots.hold(member):
                raise EvidenceError(
                    ErrorCode.PATH_NOT_ALLOWED,
                    f"{member.name} of {path.name} leads outside the directories that this server may read",
                    "give a capture that lies wholly below a directory that this server was given (serve --root DIR)",
                )

    def _digest(self, found: Found, interrupt: Interrupt) -> str:
        """The digest of the content. Known from before when the path has the same files in the same state as then."""
        states = [list(state) for state in found.states]
        key = hashlib.sha256(str(found.path).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        noted = self.cache.seen(key)
        if noted and noted.get("files") == states and _DIGEST.fullmatch(str(noted.get("digest"))):
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
            if find_capture(found.path) != found:
                raise changed(found.path)
            self.cache.publish(staging, manifest, interrupt, taken_in=found.form is Form.CANONICAL)
            self.cache.put_source(digest, source)
            self.cache.make_room(manifest)
            step(1.0, "ready")
            return source, manifest

    def _from_report(
        self, report: Found, staging: Path, directory: Path, interrupt: Interrupt, step: Step
    ) -> tuple[Source, Manifest]:
        into = staging / "export"
        into.mkdir()
        with reading(report.path):
            nsys = self.nsys(report.path, interrupt)
            step(0.0, f"exporting with nsys {nsys.version}")
            exported = export_report(report.path, into, nsys, interrupt)
        try:
            written = _build(report, find_capture(exported), directory, step)
        except EvidenceError as error:
            if error.code in _BADLY_WRITTEN:  # what is wrong is nsys's file, which nobody has
                what = f"nsys {nsys.version} ended well, but of what it wrote {error.message}"
                raise export_failed(report.path, what) from None
            raise
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
        except EvidenceError as error:
            if find_capture(found.path) != found:  # which explains what looks like damage
                raise changed(found.path) from error
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
