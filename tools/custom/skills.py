"""A skill made of a Markdown file: the same kind of thing as a built-in one, for tools, commands and the reference."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import ConfigDict, Field, create_model

from ...contracts.columns import NoTotals, Row, column
from ...contracts.envelope import Status
from ...contracts.errors import ErrorCode, EvidenceError
from ...contracts.units import Flag, Integer, Number, Text
from ...contracts.wire import MAX_TEXT, clean_text
from ..call import Call
from ..measures.graphs import KERNELS_HIDDEN, whole_graphs
from ..registry import SCOPE, Params, Skill, WindowKind, all_skills
from ..result import Result
from .jail import Refusal, Sql, bind, run
from .markdown import GIVEN, Parameter, SkillFile, invalid

GPU_TABLES = frozenset(
    (
        *("kernels", "copies", "sets", "graphs", "busy", "stream_busy", "kernel_overlaps", "streams", "kernel_names"),
        "tensor_samples",
    )
)
"""A skill that reads one of these looks at the GPU window by default, any other at the capture window."""

KIND_OF_TABLE = {
    "kernels": "kernels",
    "kernel_names": "kernels",
    "kernel_overlaps": "kernels",
    "copies": "copies",
    "sets": "sets",
    "calls": "calls",
    "nvtx_ranges": "nvtx",
    "osrt": "osrt",
    "running": "sched",
    "samples": "samples",
    "tensor_samples": "gpu_metrics",
    "nccl_calls": "nccl_calls",
}
"""The kind of event that a table holds: where it was not recorded, a skill that reads it abstains."""

_UNITS = {"integer": Integer, "number": Number, "text": Text, "flag": Flag}
_TYPES: dict[str, Any] = {
    "integer": Annotated[int, Field(ge=-(2**63), le=2**63 - 1)],
    "number": Annotated[float, Field(allow_inf_nan=False)],
    "text": Annotated[str, Field(max_length=MAX_TEXT)],
    "flag": bool,
}
_GIVEN_TYPES = {"start_ns": "integer", "end_ns": "integer", "gpus": "integers"}


class CustomRow(Row):
    """Base of the rows of custom skills."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class CustomParams(Params):
    """Base of the parameters of custom skills."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def sql_of(file: SkillFile) -> Sql:
    """The SQL of a file with the parameters that it may use."""
    return Sql(file.sql, {**_GIVEN_TYPES, **{p.name: p.type for p in file.parameters}})


def make_skills(files: Sequence[SkillFile]) -> list[Skill | EvidenceError]:
    """The skill of each file, or the error that says what is wrong with it on which line."""
    named = [_name_taken(file) for file in files]
    answers = iter(bind([sql_of(file) for file, taken in zip(files, named, strict=True) if taken is None]))
    made: list[Skill | EvidenceError] = []
    for file, taken in zip(files, named, strict=True):
        try:
            made.append(taken or _skill(file, next(answers)))
        except EvidenceError as error:
            made.append(error)
    return made


def _name_taken(file: SkillFile) -> EvidenceError | None:
    if file.name in all_skills():
        return invalid(f"{file.name} is a built-in skill", file.name_line, "give the skill a name of its own")
    return None


def _skill(file: SkillFile, bound: dict[str, Any] | Refusal) -> Skill:
    if isinstance(bound, Refusal):
        raise refused(file, bound)
    used = set(bound["parameters"])
    for parameter in file.parameters:
        if parameter.name not in used:
            raise invalid(
                f"the SQL does not use ${parameter.name}", parameter.line, "use the parameter, or take it out"
            )
    window = _window(file, used, set(bound["tables"]))
    return Skill(
        name=file.name,
        category=file.category,
        title=file.name.replace("_", " ").capitalize(),
        when=file.when if file.when.endswith((".", "?")) else f"{file.when}.",
        run=_runner(file, [kind for _, kind in bound["columns"]], used, set(bound["tables"])),
        params=_params(file.parameters),
        row=_row(file, bound["columns"]),
        totals=NoTotals,
        needs=tuple(dict.fromkeys(KIND_OF_TABLE[name] for name in bound["tables"] if name in KIND_OF_TABLE)),
        window=window,
        scope=SCOPE if "gpus" in used else tuple(name for name in SCOPE if name != "device"),
        reading=file.reading or "A custom skill; its columns are those of its SQL.",
    )


def _window(file: SkillFile, used: set[str], tables: set[str]) -> WindowKind:
    """The window that the SQL looks at: none where it takes none, so that no result names a scope it did not keep."""
    if not used & set(GIVEN):
        return "none"
    if missing := [name for name in ("start_ns", "end_ns") if name not in used]:
        raise invalid(
            f"the SQL uses a part of the scope, but not ${missing[0]}",
            file.sql_line,
            "SQL that looks at a window uses $start_ns and $end_ns, and may use $gpus beside them",
        )
    return "gpu" if tables & GPU_TABLES else "capture"


def _params(parameters: Sequence[Parameter]) -> type[Params]:
    fields: dict[str, Any] = {
        p.name: (_TYPES[p.type], Field(... if p.default is None else p.default, description=p.description))
        for p in parameters
    }
    return create_model("CustomSkillParams", __base__=CustomParams, **fields)


def _row(file: SkillFile, columns: Sequence[Sequence[str]]) -> type[Row]:
    fields: dict[str, Any] = {}
    seen: set[str] = set()
    for name, kind in columns:
        if not (name.isascii() and name.isidentifier() and name[0] != "_" and len(name) <= 60) or hasattr(Row, name):
            raise invalid(
                f"the column {clean_text(name, 80)!r} has no name that can be cited",
                file.sql_line,
                "name it with AS: letters, digits and _, a letter first",
            )
        if name.lower() in seen:
            raise invalid(f"two columns are called {name}", file.sql_line, "give each column a name of its own")
        seen.add(name.lower())
        fields[name] = (_UNITS[kind] | None, column(f"{name}, as the SQL of the skill gives it"))
    return create_model("CustomSkillRow", __base__=CustomRow, **fields)


def refused(file: SkillFile, refusal: Refusal) -> EvidenceError:
    """The error for SQL that was refused, with its line in the file."""
    before = file.sql.encode()[: refusal.position or 0]
    line = file.sql_line + before.count(b"\n")
    return EvidenceError(refusal.code, f"line {line}: {refusal.message}", refusal.hint, line=line)


def _runner(file: SkillFile, kinds: list[str], used: set[str], tables: set[str]) -> Any:
    digest = hashlib.sha256(file.sql.encode()).hexdigest()[:12]

    def custom(call: Call[Any]) -> Result:
        given = _given(call, file.parameters, used)
        directory = call.profile.directory
        answer = run(sql_of(file), given, directory, call.offset, call.max_rows, call.interrupt)
        if isinstance(answer, Refusal):
            raise refused(file, answer)
        if answer["kinds"] != kinds:
            raise invalid("the columns changed their types", file.sql_line, "cast them to one type")
        notes = [f"a custom skill, its figures are its author's: SQL sha256 {digest}"]
        if answer["not_finite"]:
            notes.append("null stands where the SQL gave NaN or Infinity")
        hidden = _hidden(call, tables)
        status = Status.PARTIAL if hidden else Status.OK
        return Result(
            rows=[[_exact(kind, cell) for kind, cell in zip(kinds, row, strict=True)] for row in answer["rows"]],
            total_rows=answer["total_rows"],
            totals={},
            notes=[*notes, *hidden],
            status=status if answer["total_rows"] else Status.EMPTY,
        )

    return custom


def _given(call: Call[Any], parameters: Sequence[Parameter], used: set[str]) -> dict[str, object]:
    given: dict[str, object] = {p.name: getattr(call.params, p.name) for p in parameters}
    for name, text in given.items():
        if isinstance(text, str) and not text.isprintable():
            raise EvidenceError(
                ErrorCode.INVALID_ARGUMENT,
                f"{name} has characters that cannot be printed",
                f"give {name} as plain text",
                argument=name,
            )
    if used & set(GIVEN):
        given |= {
            "start_ns": call.window.start_ns,
            "end_ns": call.window.end_ns,
            "gpus": [device.gpu for device in call.devices],
        }
    return given


def _hidden(call: Call[Any], tables: set[str]) -> list[str]:
    """A note where graphs traced as a whole hide kernels that the skill reads."""
    launches = call.profile.manifest.rows.get("graphs") or 0
    if not launches or "kernels" not in tables or "graphs" in tables:
        return []
    return [whole_graphs(launches, KERNELS_HIDDEN, " of the capture")]


def _exact(kind: str, cell: object) -> object:
    return Fraction(Decimal(str(cell))) if kind == "number" and cell is not None else cell
