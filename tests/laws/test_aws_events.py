"""AWS event streams: however the bytes are cut, the same messages; damage is told, and never waited for."""

import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidUpstreamResponse, Overloaded, TimedOut, UpstreamError, UpstreamFailed
from providers.dialects.aws.event_stream import EventStreamDecoder, EventStreamUnwrapper, Message, read_message_error
from tests.laws import aws_frames as frames
from tests.laws.chats import bounded

names = st.text(st.characters(codec="ascii", categories=("Ll",)), min_size=1, max_size=8)
said = st.dictionaries(names, st.text(st.characters(exclude_categories=("Cs",)), max_size=8), max_size=3)
payloads = st.binary(max_size=40)
# Of every type but strings, a value each.
others = st.sampled_from(
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


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(raw)) for place in places} | {len(raw)})
    return [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@bounded
@given(st.lists(st.tuples(said, st.lists(others, max_size=3), payloads), max_size=4), st.lists(st.integers(0, 400), max_size=6))
def test_however_it_is_cut_the_messages_are_the_same(told: list[tuple[dict[str, str], list[bytes], bytes]], places: list[int]) -> None:
    """And headers of types that mean nothing to us are stepped over."""
    raw = b"".join(
        frames.message(frames.headers(words) + b"".join(b"\x03odd" + value for value in odd), payload) for words, odd, payload in told
    )
    stream = EventStreamDecoder()
    found = [each for block in cut(raw, places) for each in stream.feed(block)]
    assert found == [Message(words, payload) for words, _, payload in told]


@bounded
@given(st.lists(st.tuples(said, payloads), min_size=1, max_size=3))
def test_botocore_reads_the_same(told: list[tuple[dict[str, str], bytes]]) -> None:
    raw = b"".join(frames.message(frames.headers(words), payload) for words, payload in told)
    theirs = EventStreamBuffer()
    theirs.add_data(raw)  # pyright: ignore[reportUnknownMemberType]
    assert [(each.headers, each.payload) for each in EventStreamDecoder().feed(raw)] == [(each.headers, each.payload) for each in theirs]  # pyright: ignore


@bounded
@given(st.data())
def test_one_changed_byte_is_damage_and_what_came_before_it_is_not_lost(data: st.DataObject) -> None:
    good, raw = frames.event("chunk", b"good"), frames.event("chunk", b"bad")
    at = data.draw(st.integers(0, len(raw) - 1))
    broken = raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :]
    stream = EventStreamDecoder()
    assert [each.payload for each in stream.feed(good + broken)] == [b"good"]
    with pytest.raises(InvalidUpstreamResponse):
        stream.feed(b"")


@bounded
@given(st.binary(max_size=80))
def test_nothing_but_damage_is_told_of_any_bytes(raw: bytes) -> None:
    try:
        EventStreamDecoder().feed(raw)
    except InvalidUpstreamResponse as damage:
        assert "event" in damage.message


@pytest.mark.parametrize("size", [0, 15, 1_000_001, 2**32 - 1])
def test_a_length_that_cannot_be_is_refused_before_its_bytes_come(size: int) -> None:
    head = struct.pack(">II", size, 0)
    with pytest.raises(InvalidUpstreamResponse):
        EventStreamDecoder(1_000_000).feed(head + struct.pack(">I", crc32(head)))


def test_headers_longer_than_their_message_are_damage() -> None:
    head = struct.pack(">II", 20, 5)
    with pytest.raises(InvalidUpstreamResponse):
        EventStreamDecoder().feed(head + struct.pack(">I", crc32(head)))


@pytest.mark.parametrize("headers", [b"\x05ab", b"\x01a\x07\x00\x09abc", b"\x01a\x0a", b"\x01a\x07\x00\x01\xff", b"\x01a"])
def test_headers_that_cannot_be_read_are_damage(headers: bytes) -> None:
    with pytest.raises(InvalidUpstreamResponse):
        EventStreamDecoder().feed(frames.message(headers, b""))


@pytest.mark.parametrize(
    ("raw", "kind", "status", "code"),
    [
        (frames.exception("throttlingException", b'{"message":"Too many."}'), Overloaded, 429, "throttlingException"),
        (frames.exception("ModelStreamError", b'{"Message":"x","ErrorCode":"ModelInvocationTimeExceeded"}'), TimedOut, 504, None),
        (frames.exception("InternalStreamFailure", b'{"Message":"Try again."}'), UpstreamFailed, 502, "InternalStreamFailure"),
        (frames.error("InternalFailure", "It broke."), UpstreamFailed, 502, "InternalFailure"),
        (frames.exception("somethingNew", b"plain words"), UpstreamFailed, 502, "somethingNew"),
    ],
)
def test_exceptions_and_errors_are_told_as_ours(raw: bytes, kind: type[UpstreamError], status: int, code: str | None) -> None:
    (message,) = EventStreamDecoder().feed(raw)
    failure = read_message_error(message)
    assert failure is not None and type(failure) is kind and failure.status == status
    assert code is None or failure.upstream_code == code


@bounded
@given(st.lists(st.integers(0, 400), max_size=6))
def test_all_before_an_exception_is_given_first_and_then_it_is_told(places: list[int]) -> None:
    raw = frames.event("chunk", b"one ") + frames.event("chunk", b"two") + frames.exception("throttlingException", b'{"message":"m"}')
    unwrapper = EventStreamUnwrapper(lambda message: message.payload)
    inner: list[bytes] = []
    with pytest.raises(Overloaded):
        for block in [*cut(raw, places), b""]:
            inner.append(unwrapper.feed(block))
    assert b"".join(inner) == b"one two"
