"""AWS event streams: whole messages out of blocks split anywhere, and what of another stream they carry."""

import struct
from collections.abc import Callable, Mapping
from zlib import crc32

from msgspec import Struct

from providers.aws_errors import read_exception
from providers.errors import Garbled, UpstreamError

_PRELUDE = struct.Struct(">III")  # of the whole message, of its headers, checksum of these two
_LEAST_BYTES = 16
# By type of value: how long it is, or None where that stands before it in two bytes.
_SIZES: Mapping[int, int | None] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: None, 7: None, 8: 8, 9: 16}
_STRING = 7


class Message(Struct, frozen=True):
    """`headers`: those whose values are strings, which all that mean something to us are."""

    headers: Mapping[str, str]
    payload: bytes


class EventStream:
    """Every message is checked, and its length bounded before it is waited for: an engine must not be able to fill our memory.

    Damage is told, as Garbled, by the call of feed() that has no whole message before it to give.
    Source: https://smithy.io/2.0/aws/amazon-eventstream.html, read 2026-11.
    """

    __slots__ = ("_damage", "_limit", "_rest")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._rest = bytearray()
        self._limit = limit_bytes
        self._damage: Garbled | None = None

    def feed(self, block: bytes) -> list[Message]:
        messages: list[Message] = []
        if self._damage is None:
            self._rest += block
            try:
                self._take(messages)
            except Garbled as damage:
                self._damage = damage
                self._rest.clear()
        if self._damage is not None and not messages:
            raise self._damage
        return messages

    def _take(self, messages: list[Message]) -> None:
        start = 0
        try:
            while len(self._rest) - start >= _PRELUDE.size:
                size, headers_size, checksum = _PRELUDE.unpack_from(self._rest, start)
                if crc32(self._rest[start : start + 8]) != checksum:
                    raise Garbled("The engine's event stream is damaged: the checksum of a message's lengths is wrong.")
                if size > self._limit:
                    raise Garbled(f"The engine sent an event of more than {self._limit} bytes.")
                if size < _LEAST_BYTES + headers_size:
                    raise Garbled("The engine's event stream is damaged: a message is shorter than what it says to hold.")
                if len(self._rest) - start < size:
                    return
                messages.append(_read_message(bytes(self._rest[start : start + size]), headers_size))
                start += size
        finally:
            del self._rest[:start]


def _read_message(raw: bytes, headers_size: int) -> Message:
    if crc32(raw[:-4]) != int.from_bytes(raw[-4:], "big"):
        raise Garbled("The engine's event stream is damaged: the checksum of a message is wrong.")
    at = _PRELUDE.size + headers_size
    return Message(_read_headers(raw[_PRELUDE.size : at]), raw[at:-4])


def _read_headers(raw: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(raw):
            name_at, kind_at = at + 1, at + 1 + raw[at]
            at = kind_at + 1
            kind = raw[kind_at]
            size = _SIZES[kind]
            if size is None:
                size = int.from_bytes(raw[at : at + 2], "big")
                at += 2
            if at + size > len(raw):
                raise IndexError
            if kind == _STRING:
                headers[raw[name_at:kind_at].decode()] = raw[at : at + size].decode()
            at += size
    except (IndexError, KeyError, UnicodeDecodeError):
        raise Garbled("The engine's event stream is damaged: the headers of a message cannot be read.") from None
    return headers


class Unwrapper:
    """providers.wire.Unwrapping for a host that sends another stream in messages: `write` gives what of it a message carries.

    An exception in the stream, and damage, are told once all before them was given: by the next call, feed(b"") at the latest.
    """

    __slots__ = ("_failure", "_stream", "_write")

    def __init__(self, write: Callable[[Message], bytes]) -> None:
        self._stream = EventStream()
        self._write = write
        self._failure: UpstreamError | None = None

    def feed(self, block: bytes) -> bytes:
        inner: list[bytes] = []
        if self._failure is None:
            for message in self._stream.feed(block):
                self._failure = read_failure(message)
                if self._failure is not None:
                    break
                inner.append(self._write(message))
        if self._failure is not None and not any(inner):
            raise self._failure
        return b"".join(inner)


def read_failure(message: Message) -> UpstreamError | None:
    """The error that a message tells; None for an event."""
    match message.headers.get(":message-type", "event"):
        case "event":
            return None
        case "error":
            return read_exception(message.headers.get(":error-code", ""), message.headers.get(":error-message", "").encode())
        case _:
            return read_exception(message.headers.get(":exception-type", ""), message.payload)
