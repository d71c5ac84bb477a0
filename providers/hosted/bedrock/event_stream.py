"""Streams of Bedrock's InvokeModel: events of the model's own, in base64 within AWS messages.

Source: the service model of Bedrock Runtime in botocore 1.44 (ResponseStream); /reference/providers.md part 4; read 2026-11.
"""

import base64

import msgspec
from msgspec import Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, to_single_line
from providers.dialects.aws.event_stream import EventStreamUnwrapper, Message


class _Chunk(Struct):
    bytes: str


class _Event(Struct):
    type: str | None = None


_chunk_decoder = msgspec.json.Decoder(_Chunk)
_event_decoder = msgspec.json.Decoder(_Event)


def invoke_stream_unwrapper() -> EventStreamUnwrapper:
    return EventStreamUnwrapper(_write_sse_event)


def _write_sse_event(message: Message) -> bytes:
    """A server-sent event, named by its type where it has one, as Anthropic's clients know it."""
    if message.headers.get(":event-type") != "chunk":
        return b""
    try:
        event_json = to_single_line(base64.b64decode(_chunk_decoder.decode(message.payload).bytes, validate=True))
        event_type = _event_decoder.decode(event_json).type
    except (*DECODE_ERRORS, ValueError) as decode_error:  # ValueError: of what is no base64
        raise InvalidUpstreamResponse(f"The engine's event cannot be read: {decode_error}.") from None
    return (b"" if event_type is None else b"event: " + event_type.encode() + b"\n") + b"data: " + event_json + b"\n\n"
