"""AWS event streams: messages out of blocks split anywhere, and into bytes, and another stream that they carry."""

import struct
from collections.abc import Callable, Mapping
from zlib import crc32

from msgspec import Struct

from providers.canonical.errors import InvalidUpstreamResponse, UpstreamError
from providers.dialects.aws.errors import read_exception

_PRELUDE = struct.Struct(">III")  # length of the message, length of its headers, checksum of both
_MIN_MESSAGE_BYTES = 16
# The size of a header's value by its type; None: the value begins with its size in two bytes.
_VALUE_SIZES: Mapping[int, int | None] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: None, 7: None, 8: 8, 9: 16}
_STRING = 7


class Message(Struct, frozen=True):
    """A message. `headers`: only those with string values; all that are read here have one."""

    headers: Mapping[str, str]
    payload: bytes


class EventStreamDecoder:
    """Decodes a stream into messages and verifies their checksums. One per stream.

    A message of more than `limit_bytes` is an error: an engine must not be able to fill our memory. feed() raises InvalidUpstreamResponse
    for a damaged stream once all earlier messages were returned.
    Source: https://smithy.io/2.0/aws/amazon-eventstream.html, read 2026-11.
    """

    __slots__ = ("_buffer", "_error", "_limit")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._buffer = bytearray()
        self._limit = limit_bytes
        self._error: InvalidUpstreamResponse | None = None

    def feed(self, block: bytes) -> list[Message]:
        messages: list[Message] = []
        if self._error is None:
            self._buffer += block
            try:
                self._decode_buffered(messages)
            except InvalidUpstreamResponse as error:
                self._error = error
                self._buffer.clear()
        if self._error is not None and not messages:
            raise self._error
        return messages

    def _decode_buffered(self, messages: list[Message]) -> None:
        start = 0
        try:
            while len(self._buffer) - start >= _PRELUDE.size:
                size, headers_size, checksum = _PRELUDE.unpack_from(self._buffer, start)
                if crc32(self._buffer[start : start + 8]) != checksum:
                    raise InvalidUpstreamResponse("The engine's event stream is damaged: the checksum of a message's lengths is wrong.")
                if size > self._limit:
                    raise InvalidUpstreamResponse(f"The engine sent an event of more than {self._limit} bytes.")
                if size < _MIN_MESSAGE_BYTES + headers_size:
                    raise InvalidUpstreamResponse("The engine's event stream is damaged: a message is shorter than its headers.")
                if len(self._buffer) - start < size:
                    return
                messages.append(_read_message(bytes(self._buffer[start : start + size]), headers_size))
                start += size
        finally:
            del self._buffer[:start]


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Returns a message whose headers are strings, each of less than 32 KiB."""
    encoded = b"".join(_encode_header(name.encode(), value.encode()) for name, value in headers.items())
    lengths = struct.pack(">II", _PRELUDE.size + len(encoded) + len(payload) + 4, len(encoded))
    message = b"".join((lengths, crc32(lengths).to_bytes(4, "big"), encoded, payload))
    return message + crc32(message).to_bytes(4, "big")


def _encode_header(name: bytes, value: bytes) -> bytes:
    return b"%c%b%c%b%b" % (len(name), name, _STRING, len(value).to_bytes(2, "big"), value)


def _read_message(raw: bytes, headers_size: int) -> Message:
    if crc32(raw[:-4]) != int.from_bytes(raw[-4:], "big"):
        raise InvalidUpstreamResponse("The engine's event stream is damaged: the checksum of a message is wrong.")
    headers_end = _PRELUDE.size + headers_size
    return Message(_read_headers(raw[_PRELUDE.size : headers_end]), raw[headers_end:-4])


def _read_headers(raw: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    offset = 0
    try:
        while offset < len(raw):
            name_at, kind_at = offset + 1, offset + 1 + raw[offset]
            offset = kind_at + 1
            kind = raw[kind_at]
            size = _VALUE_SIZES[kind]
            if size is None:
                size = int.from_bytes(raw[offset : offset + 2], "big")
                offset += 2
            if offset + size > len(raw):
                raise IndexError
            if kind == _STRING:
                headers[raw[name_at:kind_at].decode()] = raw[offset : offset + size].decode()
            offset += size
    except (IndexError, KeyError, UnicodeDecodeError):
        raise InvalidUpstreamResponse("The engine's event stream is damaged: the headers of a message cannot be read.") from None
    return headers


class EventStreamUnwrapper:
    """A StreamUnwrapper for a host that sends another stream in messages. `read_payload` gives the bytes of it that a message carries.

    feed() raises an exception or a damage of the stream once all earlier bytes were returned, at the latest on feed(b"").
    """

    __slots__ = ("_failure", "_read_payload", "_stream")

    def __init__(self, read_payload: Callable[[Message], bytes]) -> None:
        self._stream = EventStreamDecoder()
        self._read_payload = read_payload
        self._failure: UpstreamError | None = None

    def feed(self, block: bytes) -> bytes:
        inner: list[bytes] = []
        if self._failure is None:
            for message in self._stream.feed(block):
                self._failure = read_message_error(message)
                if self._failure is not None:
                    break
                inner.append(self._read_payload(message))
        if self._failure is not None and not any(inner):
            raise self._failure
        return b"".join(inner)


def read_message_error(message: Message) -> UpstreamError | None:
    """The error of a message; None for an event."""
    match message.headers.get(":message-type", "event"):
        case "event":
            return None
        case "error":
            return read_exception(message.headers.get(":error-code", ""), message.headers.get(":error-message", "").encode())
        case _:
            return read_exception(message.headers.get(":exception-type", ""), message.payload)
