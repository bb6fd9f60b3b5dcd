"""Errors are values: a code of the closed list, what happened, what to do next, in one JSON object."""

import json

import pytest

from nsys_evidence.contracts.errors import ErrorCode, EvidenceError

CODES = """
PROFILE_NOT_FOUND PROFILE_EMPTY NOT_A_CAPTURE NOT_A_CAPTURE_DIRECTORY NOT_AN_NSYS_EXPORT PROFILE_CORRUPT PROFILE_IN_USE
UNSUPPORTED_FORMAT UNSUPPORTED_SCHEMA NSYS_NOT_FOUND NSYS_TOO_OLD NSYS_FAILED PATH_NOT_ALLOWED DEVICE_NOT_FOUND
TRIM_OUT_OF_RANGE TRIM_AND_ITERATION ITERATION_OUT_OF_RANGE INVALID_ARGUMENT UNKNOWN_ARGUMENT EVIDENCE_NOT_FOUND
SKILL_INVALID CACHE_UNWRITABLE DISK_FULL BUSY TIMEOUT CANCELLED UNAUTHORIZED INTERNAL
"""
"""The list that clients may rely on: adding to it is a change of the public surface, taking from it a break."""


def test_the_list_of_codes_is_closed() -> None:
    assert [code.value for code in ErrorCode] == CODES.split()
    assert all(code.name == code.value for code in ErrorCode)


def test_an_error_is_one_json_object_with_code_message_hint_and_facts() -> None:
    error = EvidenceError(ErrorCode.DEVICE_NOT_FOUND, "no device 3", "devices are 0, 1", devices=[0, 1])
    assert error.to_json() == (
        '{"code":"DEVICE_NOT_FOUND","message":"no device 3","hint":"devices are 0, 1","devices":[0,1]}'
    )
    assert json.loads(error.to_json()) == error.to_dict()
    assert str(error) == "no device 3"


def test_text_of_an_error_is_cleaned_and_capped() -> None:
    error = EvidenceError(ErrorCode.NOT_A_CAPTURE, "\x1b[2J\u202e" + "m" * 900, "h\ud800int\r\n" + "h" * 900)
    assert error.message.startswith("[2Jmmm")
    assert error.hint.startswith("hinthhh")
    assert (len(error.message), len(error.hint)) == (600, 600)
    error.to_json().encode("utf-8")


def test_facts_of_an_error_are_cleaned_and_capped_too() -> None:
    facts = {"valid": ["a\x1b[31m", {"b\u202e": "c" * 900}], "count": 3, "argument": None}
    error = EvidenceError(ErrorCode.UNKNOWN_ARGUMENT, "m", "h", **facts)
    assert error.to_dict() == {
        "code": "UNKNOWN_ARGUMENT",
        "message": "m",
        "hint": "h",
        "valid": ["a[31m", {"b": "c" * 199 + "…"}],
        "count": 3,
        "argument": None,
    }


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_can_be_raised_and_caught_as_one_type(code: ErrorCode) -> None:
    with pytest.raises(EvidenceError) as caught:
        raise EvidenceError(code, "m", "h")
    assert caught.value.to_dict() == {"code": code.value, "message": "m", "hint": "h"}
