"""What goes over the wire is plain JSON, safe integers, and names that cannot hide anything."""

import json
import math
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_evidence.contracts.wire import MAX_TEXT, canonical_json, clean_text, dump_json, safe_integer

quick = settings(max_examples=60, deadline=None)
BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = "\u200e\u200f\u061c"  # left-to-right, right-to-left and Arabic letter mark
ZERO_WIDTH = "\u00ad\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff"

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def test_control_bidirectional_and_zero_width_characters_and_surrogates_are_removed() -> None:
    unsafe = [
        chr(point)
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(chr(point)) in BIDIRECTIONAL
        or 0xE0000 <= point < 0xE0080  # tags, which nobody sees
    ]
    assert len(unsafe) > 2000
    for character in [*unsafe, *MARKS, *ZERO_WIDTH]:
        assert clean_text(f"a{character}b") == "ab", hex(ord(character))


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::<unnamed>::multi_tensor_apply_kernel<(int)4>(T1, T2...)",
        "шаг 3 · 前向 · étape ½ · 🙂",
        "a b c",
        "",
    ],
)
def test_a_name_that_a_reader_sees_stays_as_it_is(name: str) -> None:
    assert clean_text(name) == name


def test_length_is_capped_with_an_ellipsis() -> None:
    assert clean_text("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert clean_text("x" * (MAX_TEXT + 1)) == "x" * (MAX_TEXT - 1) + "…"
    assert clean_text("abcdef", limit=4) == "abc…"
    assert clean_text("a\u202eb\x00c", limit=3) == "abc"


@quick
@given(text=st.text(st.characters(), max_size=60), limit=st.integers(1, 40))
def test_clean_text_is_short_clean_already_and_can_be_encoded(text: str, limit: int) -> None:
    clean = clean_text(text, limit)
    assert len(clean) <= limit
    assert clean_text(clean, limit) == clean
    assert clean.encode("utf-8").decode() == clean
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in clean)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dump", [dump_json, canonical_json])
def test_json_refuses_what_is_no_number(dump: object, number: float) -> None:
    assert callable(dump)
    for value in (number, [number], {"a": {"b": number}}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            dump(value)


@quick
@given(value=json_values)
def test_json_is_compact_and_reads_back_as_the_same_value(value: object) -> None:
    assert json.loads(dump_json(value)) == value
    assert json.loads(canonical_json(value)) == value
    assert "\n" not in dump_json(value)


def test_shown_json_keeps_the_order_and_text_and_canonical_json_sorts_and_escapes() -> None:
    assert dump_json({"b": "µ", "a": [1, None]}) == '{"b":"µ","a":[1,null]}'
    assert canonical_json({"b": "µ", "a": [1, None]}) == '{"a":[1,null],"b":"\\u00b5"}'


@quick
@given(value=st.integers())
def test_an_integer_travels_without_loss_in_a_client_that_has_only_doubles(value: int) -> None:
    sent = safe_integer(value)
    assert int(sent) == value
    assert isinstance(sent, str) == (abs(value) > 2**53)
    assert isinstance(sent, str) or int(float(sent)) == value
