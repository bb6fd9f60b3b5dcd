"""What skills reach beyond their own profile: the library of captures and the ledger of evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # the registry is read before the first call: it must not load DuckDB, Arrow and numpy
    from ..ingest.library import Library, Progress


class Ledger(Protocol):
    """Keeps results under their evidence id; implemented by the server."""

    def put(self, envelope: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Keep a result, and the full texts of the labels in it."""

    def get(self, evidence: str) -> tuple[dict[str, Any], dict[str, str]] | None:
        """The result and the full texts of its labels; None when it is not kept."""

    def made_here(self, evidence: str) -> bool:
        """Whether this ledger was given the result, and not one of another process."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The library, the ledger, and where progress of an ingest is reported."""

    library: Library
    ledger: Ledger
    progress: Progress | None = None
