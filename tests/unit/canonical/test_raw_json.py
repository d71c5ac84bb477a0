"""Raw JSON bodies: half surrogate pairs and invalid UTF-8 never fail a response; untouched fields keep their bytes."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import Body, find_lone_surrogate, merge_object, repair_unicode
from tests.support.strategies.chat_strategies import bounded

units = st.sampled_from(["\\ud83d", "\\ude00", "\\uD83D\\uDE00", "\\\\", "\\\\ud83d", "\\n", "a", "é", "\\u0041", "\\udbff", "\\uDC00"])


@bounded
@given(st.lists(units, max_size=8).map("".join))
def test_lone_surrogates_are_replaced_and_other_text_is_kept(inner: str) -> None:
    raw = f'{{"a":"{inner}"}}'.encode()
    decoded = json.loads(raw)["a"]
    repaired = decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert msgspec.json.decode(repair_unicode(raw))["a"] == repaired
    assert (find_lone_surrogate(raw) is None) == (repaired == decoded)


@bounded
@given(st.binary(max_size=20))
def test_invalid_utf8_is_replaced(inner: bytes) -> None:
    raw = b'{"a":"' + bytes(byte for byte in inner if byte >= 0x20 and byte not in b'"\\') + b'"}'
    assert msgspec.json.decode(repair_unicode(raw)) == {"a": raw[6:-2].decode("utf-8", "replace")}


@pytest.mark.parametrize("raw", [b'{"\xff":1}', b'{"\\ud83d":1}'])
def test_response_with_a_broken_key_is_read(raw: bytes) -> None:
    assert list(Body.read_response(raw)) == ["\ufffd"]


@bounded
@given(st.binary(max_size=40))
def test_response_that_is_not_a_json_object_is_invalid(raw: bytes) -> None:
    with contextlib.suppress(ValueError):  # no JSON at all
        assume(not isinstance(json.loads(raw.decode("utf-8", "replace")), dict))
    with pytest.raises(InvalidUpstreamResponse):
        Body.read_response(raw)


@bounded
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=5
    )
)
def test_body_keeps_the_fields_that_are_not_replaced(value: dict[str, object]) -> None:
    raw = json.dumps(value, indent=1).encode()
    body = Body.read(raw)
    assert json.loads(body.write()) == value
    for key, each in value.items():
        assert body.value(key) == each
        assert body.has_value(key) == (each is not None)
    body["added"] = "x"
    assert json.loads(body.write()) == {**value, "added": "x"}


def test_merged_field_overrides_the_caller_value() -> None:
    assert merge_object(None, {"a": 1}) == merge_object(msgspec.Raw(b"null"), {"a": 1}) == {"a": 1}
    both = msgspec.json.encode(merge_object(msgspec.Raw(b'{"a":0,"b":1.50}'), {"a": 1}))
    assert both == b'{"a":1,"b":1.50}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@bounded
@given(st.dictionaries(st.text(max_size=3), json_values | json_values.map(msgspec.json.encode).map(msgspec.Raw), max_size=4))
def test_body_written_in_steps_is_the_body_written_at_once(fields: dict[str, object]):
    assert Body(fields).write_in_steps() == Body(fields).write()
