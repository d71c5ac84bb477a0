"""Messages of AWS event streams, encoded independently of the code under test."""

import struct
from collections.abc import Mapping
from zlib import crc32


def string(name: str, value: str) -> bytes:
    encoded = value.encode()
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(encoded)) + encoded


def message(headers: bytes, payload: bytes) -> bytes:
    head = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    framed = head + struct.pack(">I", crc32(head)) + headers + payload
    return framed + struct.pack(">I", crc32(framed))


def event(kind: str, payload: bytes, content_type: str = "application/octet-stream") -> bytes:
    return message(string(":event-type", kind) + string(":content-type", content_type) + string(":message-type", "event"), payload)


def exception(kind: str, payload: bytes) -> bytes:
    return message(string(":exception-type", kind) + string(":message-type", "exception"), payload)


def error(code: str, text: str) -> bytes:
    return message(string(":error-code", code) + string(":error-message", text) + string(":message-type", "error"), b"")


def headers(values: Mapping[str, str]) -> bytes:
    return b"".join(string(name, value) for name, value in values.items())
