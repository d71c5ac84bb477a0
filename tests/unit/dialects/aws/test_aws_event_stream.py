"""AWS event streams: messages decode alike however the bytes are split; damage is reported at once, never waited for."""

import struct
from collections.abc import Iterable
from typing import Any, cast
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidUpstreamResponse, Overloaded, TimedOut, UpstreamError, UpstreamFailed
from providers.dialects.aws.event_stream import EventStreamDecoder, EventStreamUnwrapper, Message, read_message_error
from tests.support.strategies import aws_event_frames as frames
from tests.support.strategies.chat_strategies import bounded

names = st.text(st.characters(codec="ascii", categories=("Ll",)), min_size=1, max_size=8)
header_maps = st.dictionaries(names, st.text(st.characters(exclude_categories=("Cs",)), max_size=8), max_size=3)
payloads = st.binary(max_size=40)
# One value of every header type except strings.
non_string_values = st.sampled_from(
    [
        b"\x00",
        b"\x01",
        b"\x02\x7f",
        b"\x03\x00\x07",
        b"\x04" + bytes(4),
        b"\x05" + bytes(8),
        b"\x06\x00\x03abc",
        b"\x08" + bytes(8),
        b"\x09" + bytes(16),
    ]
)


def split_at(raw: bytes, positions: list[int]) -> list[bytes]:
    ends = sorted({min(position, len(raw)) for position in positions} | {len(raw)})
    return [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@bounded
@given(
    st.lists(st.tuples(header_maps, st.lists(non_string_values, max_size=3), payloads), max_size=4),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_messages_decode_alike_however_the_bytes_are_split(
    messages: list[tuple[dict[str, str], list[bytes], bytes]], positions: list[int]
) -> None:
    """Headers of types that the gateway does not use are skipped."""
    raw = b"".join(
        frames.message(frames.headers(header_map) + b"".join(b"\x03odd" + value for value in other_values), payload)
        for header_map, other_values, payload in messages
    )
    stream = EventStreamDecoder()
    found = [each for block in split_at(raw, positions) for each in stream.feed(block)]
    assert found == [Message(header_map, payload) for header_map, _, payload in messages]


@bounded
@given(st.lists(st.tuples(header_maps, payloads), min_size=1, max_size=3))
def test_decoder_agrees_with_botocore(messages: list[tuple[dict[str, str], bytes]]) -> None:
    raw = b"".join(frames.message(frames.headers(header_map), payload) for header_map, payload in messages)
    botocore_messages = EventStreamBuffer()
    botocore_messages.add_data(raw)  # pyright: ignore[reportUnknownMemberType]
    expected = [(each.headers, each.payload) for each in cast("Iterable[Any]", botocore_messages)]
    assert [(each.headers, each.payload) for each in EventStreamDecoder().feed(raw)] == expected


@bounded
@given(st.data())
def test_one_corrupt_byte_is_refused_after_earlier_messages_are_delivered(data: st.DataObject) -> None:
    good, raw = frames.event("chunk", b"good"), frames.event("chunk", b"bad")
    at = data.draw(st.integers(0, len(raw) - 1))
    broken = raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :]
    stream = EventStreamDecoder()
    assert [each.payload for each in stream.feed(good + broken)] == [b"good"]
    with pytest.raises(InvalidUpstreamResponse):
        stream.feed(b"")


@bounded
@given(st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_invalid_upstream_response(raw: bytes) -> None:
    try:
        EventStreamDecoder().feed(raw)
    except InvalidUpstreamResponse as error:
        assert "event" in error.message


@pytest.mark.parametrize("size", [0, 15, 1_000_001, 2**32 - 1])
def test_impossible_message_length_is_refused_before_its_bytes_arrive(size: int) -> None:
    head = struct.pack(">II", size, 0)
    with pytest.raises(InvalidUpstreamResponse):
        EventStreamDecoder(1_000_000).feed(head + struct.pack(">I", crc32(head)))


def test_headers_longer_than_their_message_are_refused() -> None:
    head = struct.pack(">II", 20, 5)
    with pytest.raises(InvalidUpstreamResponse):
        EventStreamDecoder().feed(head + struct.pack(">I", crc32(head)))


@pytest.mark.parametrize("headers", [b"\x05ab", b"\x01a\x07\x00\x09abc", b"\x01a\x0a", b"\x01a\x07\x00\x01\xff", b"\x01a"])
def test_unreadable_headers_are_refused(headers: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        EventStreamDecoder().feed(frames.message(headers, b""))


@pytest.mark.parametrize(
    ("raw", "kind", "status", "code"),
    [
        (frames.exception("throttlingException", b'{"message":"Too many."}'), Overloaded, 429, "throttlingException"),
        (frames.exception("ModelStreamError", b'{"Message":"x","ErrorCode":"ModelInvocationTimeExceeded"}'), TimedOut, 504, None),
        (frames.exception("InternalStreamFailure", b'{"Message":"Try again."}'), UpstreamFailed, 500, "InternalStreamFailure"),
        (frames.error("InternalFailure", "It broke."), UpstreamFailed, 500, "InternalFailure"),
        (frames.exception("somethingNew", b"plain words"), UpstreamFailed, 502, "somethingNew"),
    ],
)
def test_exception_and_error_messages_map_to_gateway_errors(raw: bytes, kind: type[UpstreamError], status: int, code: str | None) -> None:
    (message,) = EventStreamDecoder().feed(raw)
    failure = read_message_error(message)
    assert failure is not None and type(failure) is kind and failure.status == status
    assert code is None or failure.upstream_code == code


@bounded
@given(st.lists(st.integers(0, 400), max_size=6))
def test_payload_before_an_exception_is_delivered_before_it_is_raised(positions: list[int]) -> None:
    raw = frames.event("chunk", b"one ") + frames.event("chunk", b"two") + frames.exception("throttlingException", b'{"message":"m"}')
    unwrapper = EventStreamUnwrapper(lambda message: message.payload)
    inner: list[bytes] = []
    with pytest.raises(Overloaded):
        for block in [*split_at(raw, positions), b""]:
            inner.append(unwrapper.feed(block))
    assert b"".join(inner) == b"one two"
