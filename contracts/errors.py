"""The closed list of errors. Every error carries a hint that names the next call or command."""

from __future__ import annotations

from enum import StrEnum

from .wire import clean_text, clean_value, dump_json


class ErrorCode(StrEnum):
    """Every code that a tool or a command can answer with; nothing else is ever raised across a border."""

    PROFILE_NOT_FOUND = "PROFILE_NOT_FOUND"
    PROFILE_EMPTY = "PROFILE_EMPTY"
    NOT_A_CAPTURE = "NOT_A_CAPTURE"
    NOT_A_CAPTURE_DIRECTORY = "NOT_A_CAPTURE_DIRECTORY"
    NOT_AN_NSYS_EXPORT = "NOT_AN_NSYS_EXPORT"
    PROFILE_CORRUPT = "PROFILE_CORRUPT"
    PROFILE_IN_USE = "PROFILE_IN_USE"
    UNSUPPORTED_FORMAT = "UNSUPPORTED_FORMAT"
    UNSUPPORTED_SCHEMA = "UNSUPPORTED_SCHEMA"
    NSYS_NOT_FOUND = "NSYS_NOT_FOUND"
    NSYS_TOO_OLD = "NSYS_TOO_OLD"
    NSYS_FAILED = "NSYS_FAILED"
    PATH_NOT_ALLOWED = "PATH_NOT_ALLOWED"
    DEVICE_NOT_FOUND = "DEVICE_NOT_FOUND"
    TRIM_OUT_OF_RANGE = "TRIM_OUT_OF_RANGE"
    TRIM_AND_ITERATION = "TRIM_AND_ITERATION"
    ITERATION_OUT_OF_RANGE = "ITERATION_OUT_OF_RANGE"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNKNOWN_ARGUMENT = "UNKNOWN_ARGUMENT"
    EVIDENCE_NOT_FOUND = "EVIDENCE_NOT_FOUND"
    SKILL_INVALID = "SKILL_INVALID"
    CACHE_UNWRITABLE = "CACHE_UNWRITABLE"
    DISK_FULL = "DISK_FULL"
    BUSY = "BUSY"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    UNAUTHORIZED = "UNAUTHORIZED"
    INTERNAL = "INTERNAL"


class EvidenceError(Exception):
    """An error as a value: a code of the closed list, what happened, and what to do next.

    Args:
        code: one of `ErrorCode`.
        message: what happened, in one sentence. Text from a capture or a path is cleaned.
        hint: the next call or command, in one sentence.
        facts: further JSON values that help, such as the devices that exist.
    """

    def __init__(self, code: ErrorCode, message: str, hint: str, **facts: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = clean_text(message, limit=600)
        self.hint = clean_text(hint, limit=600)
        self.facts = {name: clean_value(value) for name, value in facts.items()}

    def to_dict(self) -> dict[str, object]:
        """The error as one JSON object: code, message, hint and the facts."""
        return {"code": self.code.value, "message": self.message, "hint": self.hint, **self.facts}

    def to_json(self) -> str:
        """The text block of a tool error."""
        return dump_json(self.to_dict())
