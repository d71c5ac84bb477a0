"""Laws of the wire: frames come out as they went in, however cut; half surrogate pairs and broken UTF-8 never stop an answer."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import Body, SSEDecoder, find_lone_surrogate, merge_object, repair_unicode, sse_frame, to_single_line
from tests.support.chat_strategies import bounded, byte_splits

datas = st.binary(min_size=1, max_size=20).map(lambda data: data.replace(b"\n", b"n").replace(b"\r", b"r").strip(b" ") or b"x")


def read_frames(blocks: list[bytes]) -> list[bytes]:
    frames = SSEDecoder()
    return [data for block in blocks for data in frames.feed(block)] + frames.finish()


@bounded
@given(st.lists(datas, max_size=5), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans(), st.data())
def test_sse_data_is_read_for_every_newline_style_and_split(events: list[bytes], newline: bytes, ended: bool, data: st.DataObject) -> None:
    noise = [b": comment", b"event: e", b"id: 7", b"retry: 3", b"data", b"datax: y", b""]
    wire = b"".join(
        data.draw(st.sampled_from(noise)) + newline + data.draw(st.sampled_from([b"data: ", b"data:"])) + each + newline * 2
        for each in events
    )
    wire = wire if ended else wire.removesuffix(newline * 2)
    assert read_frames(data.draw(byte_splits(wire))) == events


@bounded
@given(st.lists(datas, min_size=1, max_size=5))
def test_written_sse_frames_are_read_back(events: list[bytes]) -> None:
    assert read_frames([b"".join(sse_frame(each) for each in events)]) == events


@pytest.mark.parametrize("wire", [b"data:\n\n", b"data: \n\n", b"\n\n\n\n", b": ping\n\n", b"event: x\ndata:\ndata: \n\n", b"id: 1\n\n"])
def test_sse_event_without_data_is_skipped(wire: bytes) -> None:
    assert read_frames([wire]) == []


def test_multi_line_sse_data_is_joined_into_one_line() -> None:
    (data,) = read_frames([b'data: {"a":\r\ndata: [1,\r\ndata:2]\r\ndata: }\r\n\r\n'])
    assert json.loads(data) == {"a": [1, 2]}
    assert b"\n" not in data


def test_byte_order_mark_is_stripped_from_the_first_event() -> None:
    assert read_frames([b"\xef\xbb\xbfdata: 1\n\ndata: 2\n\n"]) == [b"1", b"2"]


def test_endless_sse_event_is_refused_at_the_size_limit() -> None:
    frames = SSEDecoder(limit_bytes=100)
    frames.feed(b"data: " + b"x" * 90)
    with pytest.raises(InvalidUpstreamResponse):
        frames.feed(b"x" * 20)


@bounded
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.sampled_from([1, "\t", "\r\n"]))
def test_json_put_on_one_line_keeps_its_value(value: dict[str, str], indent: int | str) -> None:
    raw = json.dumps(value, indent=indent).replace("\n", "\r\n").encode()
    assert json.loads(to_single_line(raw)) == value
    assert not {b"\r", b"\n"} & {to_single_line(raw)[at : at + 1] for at in range(len(raw))}


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
    body["ours"] = "x"
    assert json.loads(body.write()) == {**value, "ours": "x"}


def test_merged_field_overrides_the_caller_value() -> None:
    assert merge_object(None, {"a": 1}) == merge_object(msgspec.Raw(b"null"), {"a": 1}) == {"a": 1}
    both = msgspec.json.encode(merge_object(msgspec.Raw(b'{"a":0,"b":1.50}'), {"a": 1}))
    assert both == b'{"a":1,"b":1.50}'
