"""The workspace of a server or a command: the library of captures and the ledger of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .ledger import FileLedger, evidence_directory

if TYPE_CHECKING:
    from ..ingest.library import Progress
    from ..tools.workspace import Workspace


def open_workspace(roots: Sequence[Path] = (), progress: Progress | None = None, nsys: Path | None = None) -> Workspace:
    """The user's library and ledger.

    Args:
        roots: directories that captures may be opened from; none for anywhere.
        progress: where progress of an ingest is reported.
        nsys: the nsys that exports reports; None to have it looked for.
    """
    from ..ingest.library import Library
    from ..tools.workspace import Workspace

    return Workspace(Library(roots=list(roots) or None, nsys=nsys), FileLedger(evidence_directory()), progress)
