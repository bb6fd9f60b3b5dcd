"""The ledger: every result under its evidence id, on disk for all processes of a user, else in memory."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contracts.evidence import is_evidence_id
from ..contracts.wire import dump_json
from . import DISTRIBUTION

STATE_VARIABLE = "NSYS_EVIDENCE_STATE"
"""Environment variable with the directory of what is kept between runs."""

MAX_FILES = 10_000
"""Results kept on disk; the ones longest unused go first."""

MAX_IN_MEMORY = 256
"""Results kept in memory by one process."""

PRUNE_EVERY = 256
"""Results put between two looks at how many files there are."""

logger = logging.getLogger(__name__)

Entry = tuple[dict[str, Any], dict[str, str]]
"""An envelope and the full texts of the labels in it."""


def evidence_directory() -> Path:
    """Where the ledger stands: below `NSYS_EVIDENCE_STATE`, else below the user's state directory."""
    if state := os.environ.get(STATE_VARIABLE):
        return Path(state) / "evidence"
    import platformdirs

    return Path(platformdirs.user_state_dir(DISTRIBUTION, appauthor=False)) / "evidence"


class FileLedger:
    """A ledger with one file a result, `<evidence>.json`, safe for many threads and processes.

    The first result put under an id stays: putting it again changes no byte of it. A directory that cannot be written
    to is no error: results are then kept in memory, for as long as the process lives.

    Args:
        directory: where the files are; made at the first result.
        max_files: files kept.
        max_in_memory: results kept in memory.
    """

    def __init__(self, directory: Path, max_files: int = MAX_FILES, max_in_memory: int = MAX_IN_MEMORY) -> None:
        self._directory = directory
        self._max_files = max_files
        self._max_in_memory = max_in_memory
        self._memory: OrderedDict[str, str] = OrderedDict()
        self._made: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._puts = 0
        self._warned = False

    def put(self, envelope: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Keep a result and the full texts of its labels, unless it is kept already."""
        evidence = str(envelope["evidence"])
        text = self._recall(evidence) or self._read(evidence)
        if text is None:
            text = dump_json({"envelope": envelope, "names": dict(names)})
        self._remember(evidence, text)
        with self._lock:
            self._made[evidence] = None
            while len(self._made) > self._max_files:
                self._made.popitem(last=False)
        self._write(evidence, text)

    def get(self, evidence: str) -> Entry | None:
        """The result and the full texts of its labels; None when it is not kept. Callers may change what they get."""
        if not is_evidence_id(evidence):
            return None
        text = self._recall(evidence) or self._read(evidence)
        if text is None:
            return None
        self._remember(evidence, text)
        entry = json.loads(text)
        return entry["envelope"], entry["names"]

    def made_here(self, evidence: str) -> bool:
        """Whether this process put the result, one of its last `max_files`."""
        with self._lock:
            return evidence in self._made

    def _path(self, evidence: str) -> Path:
        return self._directory / f"{evidence}.json"

    def _recall(self, evidence: str) -> str | None:
        with self._lock:
            return self._memory.get(evidence)

    def _remember(self, evidence: str, text: str) -> None:
        with self._lock:
            self._memory[evidence] = text
            self._memory.move_to_end(evidence)
            while len(self._memory) > self._max_in_memory:
                self._memory.popitem(last=False)

    def _read(self, evidence: str) -> str | None:
        """The text of a file, if it is a whole one of this evidence."""
        try:
            text = self._path(evidence).read_text(encoding="utf-8")
            entry = json.loads(text)
            whole = entry["envelope"]["evidence"] == evidence and isinstance(entry["names"], dict)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return text if whole else None

    def _write(self, evidence: str, text: str) -> None:
        try:
            path = self._path(evidence)
            if path.exists() and self._read(evidence) is not None:
                os.utime(path)
            else:
                self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                _publish(path, text)
            self._prune_now_and_then()
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning("evidence is kept in memory only: its directory cannot be used (errno %s)", error.errno)

    def _prune_now_and_then(self) -> None:
        with self._lock:
            due = self._puts % PRUNE_EVERY == 0  # the first put of a process among them: a command puts but one
            self._puts += 1
        if due:
            prune(self._directory, self._max_files)


def _publish(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def prune(directory: Path, keep: int) -> int:
    """Delete the files used longest ago until `keep` are left, half-written ones among them. Returns how many went."""
    with os.scandir(directory) as entries:
        paths = [entry.path for entry in entries if entry.name.endswith((".json", ".tmp"))]
    if len(paths) <= keep:
        return 0
    ages = []
    for path in paths:
        with contextlib.suppress(OSError):  # another process may be pruning, too
            ages.append((os.stat(path).st_mtime_ns, path))
    removed = 0
    for _, path in sorted(ages)[: max(0, len(ages) - keep)]:
        with contextlib.suppress(OSError):
            os.unlink(path)
            removed += 1
    return removed
