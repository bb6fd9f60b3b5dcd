"""A result again, by its evidence id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ...contracts.columns import Row, column, columns_of, present_row
from ...contracts.envelope import MAX_BYTES, Truncation
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.evidence import is_evidence_id
from ...contracts.units import Text
from ...contracts.wire import dump_json
from ..call import Call
from ..registry import Params, skill
from ..result import Result
from ..workspace import Workspace


class GetEvidenceParams(Params):
    """Parameters of `get_evidence`."""

    id: str = Field(description="evidence id, ev- and ten characters, as results carry it")


class NameRow(Row):
    """The full text behind a label of the result."""

    label: Text = column("label, as in the rows")
    text: Text = column("full text, cut at 2,000 characters like every text")


@skill(
    title="Get evidence",
    when="To read a result again by its evidence id, with the full names behind its labels.",
    params=GetEvidenceParams,
    row=None,
    window="none",
    profile=False,
)
def get_evidence(call: Call[GetEvidenceParams]) -> Result:
    """The envelope exactly as it was kept, so that cells point at what they pointed at.

    Where its labels stand for longer texts, a table `names` (label, text) is added to its tables, unless the result has
    a table of that name. It is cut to whole rows so that all stays under the byte ceiling of results, with its
    truncation saying how many there are, and left out where not one row fits; there is no next page of it.
    """
    evidence = call.params.id
    if not is_evidence_id(evidence):
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            f"{evidence!r} is no evidence id",
            "give the id alone, ev- and ten characters, as the field evidence of a result carries it",
            argument="id",
        )
    kept = call.workspace.ledger.get(evidence)
    if kept is None or not _may_be_told(kept[0], call.workspace):
        raise EvidenceError(
            ErrorCode.EVIDENCE_NOT_FOUND,
            f"no result is kept under {evidence}",
            "repeat the call that gave it: the same call on the same capture gives the same id again",
        )
    envelope, names = kept
    return Result(rows=[], total_rows=0, totals={}, stored=_with_names(envelope, names))


def _may_be_told(envelope: dict[str, Any], workspace: Workspace) -> bool:
    """Whether a result is of a profile that may be spoken of. One of no profile, with roots, only where it was made."""
    if about := envelope["profile"]:
        return workspace.library.admits(about["id"])
    return workspace.library.roots.anywhere or workspace.ledger.made_here(envelope["evidence"])


def _with_names(envelope: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The envelope and a table of its names, as many as fit."""
    rows = [present_row(NameRow, pair) for pair in sorted(names.items())]
    if not rows or "names" in envelope["tables"]:
        return envelope
    shown = len(rows)
    while shown:
        table = {
            "columns": [c.name for c in columns_of(NameRow)],
            "rows": rows[:shown],
            "totals": None,
            "truncation": None if shown == len(rows) else Truncation(len(rows), shown, None).to_dict(),
        }
        whole = {**envelope, "tables": {**envelope["tables"], "names": table}}
        excess = len(dump_json(whole).encode()) - MAX_BYTES
        if excess <= 0:
            return whole
        while shown and excess > 0:
            shown -= 1
            excess -= len(dump_json(rows[shown]).encode())
    return envelope
