"""Running a skill: arguments in, one envelope out. The server and the command line both come through here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..contracts.columns import NoTotals, columns_of, present_row, present_totals
from ..contracts.envelope import (
    MAX_BYTES,
    Status,
    denominators,
    scope_dict,
    truncation_of,
)
from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.evidence import evidence_id
from ..contracts.scope import trim_window
from ..contracts.window import Window
from ..contracts.wire import clean_text, dump_json
from ..ingest.interrupt import Interrupt, ProfileGoneError
from ..ingest.manifest import Device
from ..ingest.profile import Profile
from .arguments import Arguments, parse_arguments
from .call import Call
from .capture_hints import CAPTURE_HINTS, KIND_NAMES
from .measures.iterations import iteration_window, iterations_to_time
from .registry import Skill
from .result import AbstentionError, Result
from .workspace import Workspace

Envelope = dict[str, Any]
"""A result as it goes over the wire: see DESIGN, "The result", and `contracts.envelope.envelope_schema`."""


def run_skill(
    skill: Skill, given: Mapping[str, object] | None, workspace: Workspace, interrupt: Interrupt | None = None
) -> Envelope:
    """Run a skill and keep its result in the ledger.

    Raises:
        EvidenceError: for arguments, captures and scopes that cannot be; never for "found nothing".
    """
    interrupt = interrupt or Interrupt()
    arguments = parse_arguments(skill, given)
    try:
        return _answer(skill, arguments, workspace, interrupt)
    except ProfileGoneError:  # evicted or cleared by another process: a path is ingested again
        return _answer(skill, arguments, workspace, interrupt)


def _answer(skill: Skill, arguments: Arguments, workspace: Workspace, interrupt: Interrupt) -> Envelope:
    profile = None
    if skill.profile and arguments.profile is not None:
        profile = workspace.library.open(arguments.profile, interrupt, workspace.progress)
    call, notes = _call(skill, arguments, profile, workspace, interrupt), list[str]()
    try:
        call, notes = _scoped(skill, arguments, call)
        if profile is not None:
            _check_recorded(skill, profile, call.scope)
        result = skill.run(call)
    except AbstentionError as abstention:
        return _abstained(skill, arguments, call, notes, abstention)
    if result.stored is not None:
        return result.stored
    result.notes = [*notes, *result.notes]
    envelope = _envelope(skill, call, result)
    _fit(envelope, call, MAX_BYTES if arguments.rows_asked else skill.max_bytes)
    return _sealed(skill, arguments, call, envelope, result.names)


def _call(
    skill: Skill, arguments: Arguments, profile: Profile | None, workspace: Workspace, interrupt: Interrupt
) -> Call[Any]:
    """The call that a skill is given, in its default window."""
    scope: Window | None = None
    devices: tuple[Device, ...] = ()
    if profile is not None:
        devices = _select_devices(profile, arguments.device)
        if skill.window != "none":
            scope = profile.gpu_window if skill.window == "gpu" and profile.gpu_window else profile.capture_window
    return Call(
        params=arguments.params,
        workspace=workspace,
        opened=profile,
        scope=scope,
        devices=devices,
        max_rows=arguments.max_rows,
        offset=arguments.offset,
        device_asked=arguments.device is not None,
        scope_asked=arguments.scope,
        interrupt=interrupt,
    )


def _scoped(skill: Skill, arguments: Arguments, call: Call[Any]) -> tuple[Call[Any], list[str]]:
    """The call in the window that was asked for, and notes on how that came about.

    Raises:
        AbstentionError: for a skill that is about iterations, when there are none.
        EvidenceError: the window cannot be.
    """
    if call.opened is None or (capture := call.opened.capture_window) is None:
        return call, []
    if arguments.trim is not None:
        window, notes = trim_window(arguments.trim, capture, call.opened.gpu_window)
    elif arguments.iteration is not None:
        if "iteration" in skill.params.model_fields:
            iterations_to_time(call, arguments.marker)
        window, notes = iteration_window(call, arguments.iteration, arguments.marker)
    else:
        return call, []
    return replace(call, scope=window), notes


def _select_devices(profile: Profile, device: int | None) -> tuple[Device, ...]:
    if device is None:
        return profile.devices
    chosen = tuple(d for d in profile.devices if device in d.ids)
    if not chosen:
        chosen = tuple(d for d in profile.manifest.idle_devices if device in d.ids)
    if not chosen:
        present = sorted({number for d in profile.devices for number in d.ids})
        listed = ", ".join(map(str, present))
        raise EvidenceError(
            ErrorCode.DEVICE_NOT_FOUND,
            f"no GPU work of device {device} is in this capture",
            f"devices with GPU work: {listed}; leave device out for all of them"
            if present
            else "this capture has no GPU work; leave device out, and see profile_info for what was recorded",
            devices=present,
        )
    return chosen


def _check_recorded(skill: Skill, profile: Profile, scope: Window | None) -> None:
    """Raises AbstentionError when what the skill needs was not recorded."""
    missing = [kind for kind in skill.needs if not profile.recorded(kind)]
    if not missing and skill.window != "none" and scope is None:
        missing = ["events"]
    if not missing:
        return
    what = " and ".join(KIND_NAMES[kind] for kind in missing)
    reason = f"{what} not recorded in this capture"
    if "nvtx" in missing and (spans := profile.manifest.rows["nvtx_spans"]):
        reason += f"; its {spans} NVTX ranges are start/end ranges, which do not nest"
    raise AbstentionError(reason, missing, CAPTURE_HINTS[missing[0]])


def _frame(skill: Skill, call: Call[Any], status: Status, notes: list[str]) -> Envelope:
    profile = call.opened
    return {
        "evidence": "",
        "status": status.value,
        "skill": skill.name,
        "profile": profile and {"id": profile.id, "name": clean_text(profile.name)},
        "scope": scope_dict(call.scope, sorted({d.device for d in call.devices})) if call.scope else None,
        "columns": [c.name for c in columns_of(skill.row or NoTotals)],
        "rows": [],
        "of": denominators(skill.row or NoTotals, skill.totals, skill.tables),
        "totals": None,
        "truncation": None,
        "tables": {},
        "notes": [clean_text(note) for note in notes],
        "next": [],
    }


def _abstained(
    skill: Skill, arguments: Arguments, call: Call[Any], notes: list[str], abstention: AbstentionError
) -> Envelope:
    envelope = _frame(skill, call, Status.ABSTAINED, notes)
    envelope["next"] = ["profile_info"] if skill.profile else []
    envelope["reason"] = clean_text(abstention.reason)
    envelope["missing"] = abstention.missing
    envelope["capture_hint"] = abstention.capture_hint
    return _sealed(skill, arguments, call, envelope, {})


def _envelope(skill: Skill, call: Call[Any], result: Result) -> Envelope:
    envelope = _frame(skill, call, result.status, result.notes)
    envelope["rows"] = [present_row(skill.row or NoTotals, row) for row in result.rows]
    envelope["totals"] = present_totals(skill.totals, result.totals)
    envelope["truncation"] = truncation_of(result.total_rows, call.offset, len(result.rows))
    for name, model in skill.tables.items():
        if (table := result.tables.get(name)) is None:
            continue
        envelope["tables"][name] = {
            "columns": [c.name for c in columns_of(model)],
            "rows": [present_row(model, row) for row in table.rows],
            "totals": table.totals,
            "truncation": _without_next(truncation_of(table.total_rows, 0, len(table.rows))),
        }
    envelope["next"] = list(skill.next if result.next is None else result.next)
    return envelope


def _fit(envelope: Envelope, call: Call[Any], ceiling: int) -> None:
    """Drop whole rows from the end of the largest table until the result fits the ceiling, and say so.

    The capture's name does not count, since no result may depend on it. One main row stays, so that paging gets on.
    """
    nameless = {**envelope, "profile": envelope["profile"] and envelope["profile"]["id"]}
    excess = len(dump_json(nameless).encode()) - ceiling
    if excess <= 0:
        return
    note = f"cut to {ceiling} bytes: fewer rows than asked for; page on with offset, or narrow the question"
    envelope["notes"].append(note)
    excess += len(note) + 120  # the note itself and the truncation objects
    tables = [envelope, *envelope["tables"].values()]
    sizes = [[len(dump_json(row).encode()) + 1 for row in table["rows"]] for table in tables]
    cut = [0] * len(tables)
    least = [1, *(0 for _ in envelope["tables"])]
    while excess > 0:
        droppable = [index for index, rows in enumerate(sizes) if len(rows) > least[index]]
        if not droppable:
            break
        largest = max(droppable, key=lambda index: sum(sizes[index]))
        excess -= sizes[largest].pop()
        cut[largest] += 1
    for index, (table, kept, dropped) in enumerate(zip(tables, sizes, cut, strict=True)):
        if dropped:
            before = table["truncation"]
            offset = call.offset if index == 0 else 0
            total = before["total_rows"] if before else len(table["rows"])
            table["rows"] = table["rows"][: len(kept)]
            truncation = truncation_of(total, offset, len(kept))
            table["truncation"] = truncation if index == 0 else _without_next(truncation)


def _without_next(truncation: dict[str, int | None] | None) -> dict[str, int | None] | None:
    """The truncation of a further table: `offset` pages the main rows only, so there is no next page of it."""
    return truncation and {**truncation, "next_offset": None}


def _sealed(
    skill: Skill, arguments: Arguments, call: Call[Any], envelope: Envelope, names: Mapping[str, str]
) -> Envelope:
    profile_id = call.opened.id if call.opened else None
    envelope["evidence"] = evidence_id(profile_id, skill.name, arguments.canonical(profile_id), envelope)
    call.workspace.ledger.put(envelope, names)
    return envelope
