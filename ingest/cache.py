"""The cache of canonical profiles: shared by all processes of a user, addressed by content, published by one rename.

```
CACHE/v1/profiles/p-…/      the tables and manifest.json of a profile, complete or not there
CACHE/v1/sources/DIGEST.json  what a source of this SHA-256 became
CACHE/v1/seen/….json        which digest a path had when it was last read
CACHE/v1/locks/DIGEST.lock  held by the one process that ingests this source
CACHE/v1/staging/           profiles being written; nothing in here is ever read
```
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from ..contracts.errors import ErrorCode, EvidenceError
from .integrity import SUMS, is_intact
from .interrupt import Interrupt
from .manifest import Manifest, read_manifest
from .source import Source, read_source
from .tables import FORMAT_VERSION, TABLES

SIZE_CAP = 20 * 2**30
"""`prune` keeps at most this many bytes of profiles, the most recently used ones."""

_SHARERS = 8
"""How many processes may fill the room that is left at the same time."""

PROFILE_FILES = (*(f"{table}.parquet" for table in TABLES), "manifest.json", "source.json")
"""The files of a profile, beside the list of their digests."""

_TAKEN_IN = "taken-in"
"""The file that marks a profile that came as a canonical directory."""

State = tuple[tuple[int, int, int, int], ...]
"""The number, size and times of change of each file of a profile."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says when there is no room."""


def default_cache() -> Path:
    """`NSYS_EVIDENCE_CACHE`, else the user's cache directory; where a home is read-only, one of the user's in the
    directory for temporary files."""
    if chosen := os.environ.get("NSYS_EVIDENCE_CACHE"):
        return Path(chosen).expanduser()
    usual = platformdirs.user_cache_path("nsys-evidence")
    if _is_writable(usual):
        return usual
    temporary = Path(tempfile.gettempdir()) / f"nsys-evidence-{os.geteuid()}"
    with suppress(OSError):
        temporary.mkdir(mode=0o700)
    with suppress(OSError):
        found = temporary.lstat()
        # What another user has put there under this name is not trusted.
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return temporary
    return usual


def _is_writable(directory: Path) -> bool:
    """Whether this user may write to a directory, or make it."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    return os.access(existing, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A profile in the cache: its id, its size on disk, and when it was last opened, in seconds since the epoch."""

    profile_id: str
    size_bytes: int
    last_used: float


class Cache:
    """The cache below a directory; nothing is created before something is written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()  # the working directory may change under a server
        self._root = self.directory / f"v{FORMAT_VERSION}"
        self._verified: dict[str, State] = {}
        self._room: int | None = None

    def manifest(self, profile_id: str) -> Manifest | None:
        """The manifest of a profile that is here and whole, None otherwise."""
        directory = self.profile_directory(profile_id)
        try:
            manifest = read_manifest(directory)
            whole = all((directory / f"{table}.parquet").stat().st_size == manifest.files[table] for table in TABLES)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return manifest if whole and manifest.profile_id == profile_id else None

    def verified(self, profile_id: str, interrupt: Interrupt) -> Manifest | None:
        """The manifest of a profile that is here with the content it was written with, None otherwise.

        The content is read once in a process, and again when a file's state is another one.
        """
        manifest, directory = self.manifest(profile_id), self.profile_directory(profile_id)
        state = _state(directory)
        if manifest is None or state is None:
            return None
        if self._verified.get(profile_id) != state:
            if not is_intact(directory, PROFILE_FILES, interrupt.check):
                return None
            self._verified[profile_id] = state
        return manifest

    def profile_directory(self, profile_id: str) -> Path:
        """Where a profile is, or would be."""
        return self._root / "profiles" / profile_id

    def is_writable(self) -> bool:
        """Whether profiles can be added."""
        return _is_writable(self.directory)

    def free_bytes(self) -> int:
        """Room on the disk of the cache."""
        return shutil.disk_usage(next(p for p in (self.directory, *self.directory.parents) if p.exists())).free

    def touch(self, profile_id: str) -> None:
        """Mark a profile as used now; a cache that cannot be written stays as it is."""
        with suppress(OSError):
            os.utime(self.profile_directory(profile_id))

    def source(self, digest: str) -> Source | None:
        """What is known of a source by the digest of its content."""
        try:
            return read_source(self._root / "sources" / f"{digest}.json")
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def source_of(self, profile_id: str) -> Source | None:
        """The source that a profile was made of first."""
        try:
            return read_source(self.profile_directory(profile_id) / "source.json")
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def sources(self) -> list[Source]:
        """All sources whose profile is here, by name and profile id."""
        records = (self.source(path.stem) for path in (self._root / "sources").glob("*.json"))
        whole = [record for record in records if record and self.manifest(record.profile_id)]
        return sorted(whole, key=lambda record: (record.name, record.profile_id))

    def seen(self, key: str) -> dict[str, object] | None:
        """What was noted of a path."""
        with suppress(OSError, ValueError):
            noted = json.loads((self._root / "seen" / f"{key}.json").read_text(encoding="utf-8"))
            return noted if isinstance(noted, dict) else None
        return None

    def note_seen(self, key: str, facts: dict[str, object]) -> None:
        """Note a path's state; a cache that cannot be written goes without."""
        with suppress(OSError):
            self._put(self._root / "seen" / f"{key}.json", json.dumps(facts))

    def put_source(self, digest: str, source: Source) -> None:
        """Record what a source became."""
        self._put(self._root / "sources" / f"{digest}.json", source.to_json())

    @contextmanager
    def writing(self, digest: str, interrupt: Interrupt) -> Iterator[Path]:
        """Hold the lock of a source and give an empty staging directory, which is gone afterwards.

        Raises:
            EvidenceError: CACHE_UNWRITABLE or DISK_FULL, for what goes wrong in the block too.
        """
        try:
            self._make_folders()
            lock = FileLock(self._root / "locks" / f"{digest}.lock", thread_local=False)
            self._acquire(lock, interrupt)
            try:
                self._make_folders()  # `clear` may have removed some while this waited
                for left in (self._root / "staging").glob(f"{digest}-*"):  # of an ingest that was killed
                    shutil.rmtree(left, ignore_errors=True)
                staging = Path(tempfile.mkdtemp(prefix=f"{digest}-", dir=self._root / "staging"))
                try:
                    yield staging
                finally:
                    shutil.rmtree(staging, ignore_errors=True)
            finally:
                lock.release()
        except OSError as error:
            raise self._coded(error) from None

    def _make_folders(self) -> None:
        for folder in ("profiles", "sources", "seen", "locks", "staging"):
            (self._root / folder).mkdir(parents=True, exist_ok=True)

    @staticmethod
    def _acquire(lock: FileLock, interrupt: Interrupt) -> None:
        while True:
            interrupt.check()
            try:
                lock.acquire(timeout=0.2)
            except Timeout:
                continue
            return

    def publish(self, staging: Path, manifest: Manifest, interrupt: Interrupt, taken_in: bool = False) -> None:
        """Make a staged profile visible by one rename; a whole one that is there already stays.

        Sources with other bytes may become the same profile at the same time, so the profile has a lock of its own.

        Args:
            taken_in: whether it was copied from a canonical directory, which may say of itself what it likes: the first
                profile that is made of a capture itself takes its place.
        """
        target = self.profile_directory(manifest.profile_id)
        lock = FileLock(self._root / "locks" / f"{manifest.profile_id}.lock", thread_local=False)
        self._acquire(lock, interrupt)
        try:
            present = self.verified(manifest.profile_id, interrupt) is not None
            if present and (taken_in or not (target / _TAKEN_IN).exists()):
                return
            with suppress(FileNotFoundError):
                target.rename(staging / "replaced")
            target.parent.mkdir(exist_ok=True)  # `clear` may have removed it
            profile = staging / "profile"
            if taken_in:
                (profile / _TAKEN_IN).touch()
            profile.rename(target)
            if state := _state(target):
                self._verified[manifest.profile_id] = state
        finally:
            lock.release()

    def entries(self) -> list[CacheEntry]:
        """Profiles in the cache, the least recently used first."""
        found = []
        for directory in (self._root / "profiles").glob("p-*"):
            with suppress(OSError):
                size = sum(file.stat().st_size for file in directory.iterdir())
                found.append(CacheEntry(directory.name, size, directory.stat().st_mtime))
        return sorted(found, key=lambda entry: (entry.last_used, entry.profile_id))

    def prune(self, cap: int = SIZE_CAP, keep: str | None = None) -> list[CacheEntry]:
        """Remove the least recently used profiles until the rest fit the cap, and return what was removed.

        The profile `keep` stays whatever its size. What killed ingests left behind goes too.
        """
        self._sweep()
        entries, removed = self.entries(), []
        excess = sum(entry.size_bytes for entry in entries) - cap
        for entry in entries:
            if excess <= 0:
                break
            if entry.profile_id == keep:
                continue
            self._discard(self.profile_directory(entry.profile_id))
            removed.append(entry)
            excess -= entry.size_bytes
        self._room = max(0, -excess) // _SHARERS if cap == SIZE_CAP else None
        return removed

    def make_room(self, manifest: Manifest) -> None:
        """Prune to the cap after a profile was published, which stays.

        All profiles are listed only where this process may have filled its part of the room that was left when they
        were listed last: that takes time in a cache of many.
        """
        size = sum(manifest.files.values())
        if self._room is None or size > self._room:
            self.prune(keep=manifest.profile_id)
        else:
            self._room -= size
            self._sweep()

    def _discard(self, directory: Path) -> None:
        """Remove a directory that others may be opening: by one rename, then file by file where nobody looks."""
        doomed = self._root / "staging" / f"discarded-{uuid.uuid4().hex}"
        with suppress(OSError):
            directory.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove staging directories whose ingest no longer runs."""
        for left in (self._root / "staging").glob("*-*"):
            lock = FileLock(self._root / "locks" / f"{left.name.partition('-')[0]}.lock", thread_local=False)
            with suppress(Timeout, OSError), lock.acquire(timeout=0):
                shutil.rmtree(left, ignore_errors=True)

    def clear(self) -> None:
        """Remove everything that this program wrote here, of every format version.

        An ingest that runs goes on: its staging directory and its lock stay.

        Raises:
            EvidenceError: CACHE_UNWRITABLE when profiles stay that cannot be removed.
        """
        for root in self.directory.glob("v[0-9]*"):
            if root != self._root:
                shutil.rmtree(root, ignore_errors=True)
        for entry in self.entries():
            self._discard(self.profile_directory(entry.profile_id))
        for folder in ("sources", "seen"):
            shutil.rmtree(self._root / folder, ignore_errors=True)
        self._sweep()
        with suppress(OSError):
            (self._root / "profiles").rmdir()
        if self.entries():
            raise self._coded(PermissionError(errno.EACCES, ""))

    def _put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{uuid.uuid4().hex}")
        try:
            temporary.write_text(text, encoding="utf-8")  # with the user's umask, as the tables
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _coded(self, error: OSError) -> EvidenceError:
        if error.errno in DISK_FULL:
            return EvidenceError(
                ErrorCode.DISK_FULL,
                "the disk of the cache is full; nothing was kept of this ingest",
                "free space with: nsys-evidence cache prune, or set NSYS_EVIDENCE_CACHE to a directory with room",
            )
        return EvidenceError(
            ErrorCode.CACHE_UNWRITABLE,
            f"the cache cannot be written: {os.strerror(error.errno) if error.errno else 'input/output error'}",
            "set NSYS_EVIDENCE_CACHE to a directory that this user may write",
        )


def _state(directory: Path) -> State | None:
    """Of each file of a profile what changes when it is written to or replaced; None where one is missing."""
    try:
        found = [(directory / name).stat() for name in (*PROFILE_FILES, SUMS)]
    except OSError:
        return None
    return tuple((file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in found)
