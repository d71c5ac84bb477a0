"""Streams of Bedrock's InvokeModel: events of the model's own, in base64 within AWS messages.

Source: the service model of Bedrock Runtime in botocore 1.44 (ResponseStream); /reference/providers.md part 4; read 2026-11.
"""

import base64

import msgspec
from msgspec import Struct

from providers.aws_events import Message, Unwrapper
from providers.errors import Garbled
from providers.wire import UNREADABLE, on_one_line


class _Chunk(Struct):
    bytes: str


class _Event(Struct):
    type: str | None = None


_chunk = msgspec.json.Decoder(_Chunk)
_event = msgspec.json.Decoder(_Event)


def unwrapping() -> Unwrapper:
    return Unwrapper(_write)


def _write(message: Message) -> bytes:
    """A server-sent event, named by its type where it has one, as Anthropic's clients know it."""
    if message.headers.get(":event-type") != "chunk":
        return b""
    try:
        inner = on_one_line(base64.b64decode(_chunk.decode(message.payload).bytes, validate=True))
        kind = _event.decode(inner).type
    except (*UNREADABLE, ValueError) as fault:  # ValueError: of what is no base64
        raise Garbled(f"The engine's event cannot be read: {fault}.") from None
    return (b"" if kind is None else b"event: " + kind.encode() + b"\n") + b"data: " + inner + b"\n\n"
