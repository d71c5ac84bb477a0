"""Server-sent events: frames are read back as they were written, however the stream is split."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.sse import SSEDecoder, sse_frame, to_single_line
from tests.support.strategies.chat_strategies import bounded, byte_splits

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
