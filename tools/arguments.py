"""Arguments of a tool: their JSON schema, and the check that turns them into typed values."""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError as PydanticError

from ..contracts.envelope import MAX_ROWS
from ..contracts.errors import ErrorCode, EvidenceError
from ..contracts.scope import seconds_to_ns
from .registry import Params, Skill

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

_LARGEST = 2**31 - 1
"""No table and no capture has more rows or iterations than this."""

_SCOPE_PROPERTIES: dict[str, dict[str, Any]] = {
    "device": {"type": "integer", "minimum": 0},
    "trim": {
        "type": "array",
        "items": {"anyOf": [{"type": "number"}, {"type": "string", "maxLength": 40}]},
        "minItems": 2,
        "maxItems": 2,
        "description": "[start_s, end_s]",
    },
    "iteration": {"type": "integer", "minimum": 0, "maximum": _LARGEST},
    "marker": {"type": "string", "minLength": 1},
}
_PAGE_PROPERTIES: dict[str, dict[str, Any]] = {
    "max_rows": {"type": "integer", "minimum": 1},
    "offset": {"type": "integer", "minimum": 0, "maximum": _LARGEST},
}
_PROFILE_PROPERTY = {"type": "string", "minLength": 1, "description": "capture path or profile id"}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments of a call.

    Attributes:
        profile: path or profile id; None for skills without a profile.
        device: device id; None for every device.
        trim: start and end in seconds; None for the default window.
        iteration: zero-based iteration; None for none.
        marker: NVTX range name that bounds iterations; None to find one.
        max_rows: rows to show, at most the server's ceiling.
        rows_asked: whether the caller gave `max_rows`.
        offset: rows to pass over.
        params: the skill's own parameters.
    """

    profile: str | None
    device: int | None
    trim: tuple[float | str, float | str] | None
    iteration: int | None
    marker: str | None
    max_rows: int
    rows_asked: bool
    offset: int
    params: Params

    @property
    def scope(self) -> dict[str, object]:
        """The scope parameters that were given, as another skill takes them."""
        scope = {
            "device": self.device,
            "trim": self.trim and list(self.trim),
            "iteration": self.iteration,
            "marker": self.marker,
        }
        return {key: value for key, value in scope.items() if value is not None}

    def canonical(self, profile_id: str | None) -> dict[str, object]:
        """The arguments as the evidence id sees them: defaults filled in, the profile by its id."""
        scope = {
            "profile": profile_id,
            "device": self.device,
            "trim": self.trim and [seconds_to_ns(value) for value in self.trim],
            "iteration": self.iteration,
            "marker": self.marker,
            "max_rows": self.max_rows,
            "offset": self.offset,
        }
        given = {key: value for key, value in scope.items() if value is not None}
        return {**self.params.model_dump(mode="json", exclude_none=True), **given}


def _own_properties(params: type[Params]) -> tuple[dict[str, Any], list[str]]:
    """Schemas of a skill's own parameters: flat types, no titles, no null alternative (null means omitted)."""
    schema = params.model_json_schema()
    properties = {}
    for name, body in schema.get("properties", {}).items():
        body = {key: value for key, value in body.items() if key != "title"}
        options = [option for option in body.pop("anyOf", []) if option != {"type": "null"}]
        if len(options) == 1:
            body |= options[0]
        elif options:
            body["anyOf"] = options
        if body.get("default", ...) is None:
            del body["default"]
        properties[name] = body
    return properties, schema.get("required", [])


def input_schema(skill: Skill) -> dict[str, Any]:
    """The input schema of a skill's tool: a plain object, no `$ref`, no union at the root, every property typed."""
    own, required = _own_properties(skill.params)
    properties: dict[str, Any] = {}
    if skill.profile:
        properties["profile"] = _PROFILE_PROPERTY
        required = required if skill.without_profile else ["profile", *required]
    properties |= own
    if skill.window != "none":
        properties |= _SCOPE_PROPERTIES
        if not skill.devices:
            del properties["device"]
    if skill.row is not None:
        properties |= {**_PAGE_PROPERTIES, "max_rows": {**_PAGE_PROPERTIES["max_rows"], "default": skill.max_rows}}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@cache
def _validator(skill_name: str, schema_text: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # here, since only calls need it: schemas are listed without

    return Draft202012Validator(json.loads(schema_text))


def _invalid(skill: Skill, message: str, name: str | None, schema: Mapping[str, Any]) -> EvidenceError:
    if name in schema["properties"]:
        hint = f"{name} takes {json.dumps(schema['properties'][name])}"
        if name not in schema["required"]:
            hint += "; leave it out for its default"
    else:
        hint = f"{skill.name} needs {', '.join(schema['required']) or 'no argument'}"
    return EvidenceError(ErrorCode.INVALID_ARGUMENT, message, hint, argument=name)


def _unknown(skill: Skill, names: list[str], valid: list[str]) -> EvidenceError:
    near = {name: difflib.get_close_matches(name, valid, 1) for name in names}
    guesses = "; ".join(f"for {name} use {match[0]}" for name, match in near.items() if match)
    hint = (guesses + "; " if guesses else "") + f"{skill.name} takes {', '.join(valid) or 'no arguments'}"
    message = f"{skill.name} has no argument {', '.join(repr(name) for name in names)}"
    return EvidenceError(ErrorCode.UNKNOWN_ARGUMENT, message, hint, valid=valid)


def _message(error: ValidationError) -> str:
    where = "/".join(str(part) for part in error.absolute_path)
    text = error.message if len(error.message) < 200 else error.message[:200] + "…"
    return f"{where}: {text}" if where else text


def parse_arguments(skill: Skill, given: Mapping[str, object] | None) -> Arguments:
    """Check the arguments of a call against the tool's schema.

    Null means omitted. A list or number that arrives as JSON text where the schema wants a list is read as such, since
    some clients send it so.

    Raises:
        EvidenceError: UNKNOWN_ARGUMENT, INVALID_ARGUMENT or TRIM_AND_ITERATION.
    """
    schema = input_schema(skill)
    values = {name: value for name, value in (given or {}).items() if value is not None}
    if unknown := sorted(set(values) - set(schema["properties"])):
        raise _unknown(skill, unknown, list(schema["properties"]))
    for name, value in values.items():
        if isinstance(value, str) and schema["properties"][name].get("type") == "array":
            with contextlib.suppress(ValueError, RecursionError):
                values[name] = json.loads(value)
    for error in _validator(skill.name, json.dumps(schema)).iter_errors(values):
        argument = str(error.absolute_path[0]) if error.absolute_path else None
        raise _invalid(skill, _message(error), argument, schema)
    if "trim" in values and "iteration" in values:
        raise EvidenceError(
            ErrorCode.TRIM_AND_ITERATION,
            "trim and iteration both choose a window",
            "give one of them: trim=[start_s, end_s], or iteration=N",
        )
    if "marker" in values and "iteration" not in values:
        raise EvidenceError(
            ErrorCode.INVALID_ARGUMENT,
            "marker names the range that bounds iterations, but no iteration is asked for",
            "give iteration=N with it, or leave marker out",
            argument="marker",
        )
    own = {name: value for name, value in values.items() if name in skill.params.model_fields}
    try:
        params = skill.params.model_validate(own)
    except PydanticError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        argument = str(first["loc"][0]) if first["loc"] else None
        raise _invalid(skill, f"{argument}: {first['msg']}", argument, schema) from None

    def integer(name: str) -> int | None:
        value = values.get(name)
        return None if value is None else int(value)  # type: ignore[call-overload]

    asked = integer("max_rows")
    trim = values.get("trim")
    return Arguments(
        profile=values.get("profile"),  # type: ignore[arg-type]
        device=integer("device"),
        trim=(trim[0], trim[1]) if isinstance(trim, list) else None,
        iteration=integer("iteration"),
        marker=values.get("marker"),  # type: ignore[arg-type]
        max_rows=min(asked or skill.max_rows, MAX_ROWS),
        rows_asked=asked is not None,
        offset=integer("offset") or 0,
        params=params,
    )
