"""Streams of Bedrock's InvokeModel: the model's own events, base64-encoded in AWS event-stream messages.

Source: the service model of Bedrock Runtime in botocore 1.44 (ResponseStream); docs/sources.md#aws-event-streams; read 2026-11.
"""

import base64

import msgspec
from msgspec import Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.sse import to_single_line
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
    """One server-sent event, named by the `type` in its JSON if there is one, as Anthropic's streams are; empty for other messages."""
    if message.headers.get(":event-type") != "chunk":
        return b""
    try:
        event_json = to_single_line(base64.b64decode(_chunk_decoder.decode(message.payload).bytes, validate=True))
        event_type = _event_decoder.decode(event_json).type
    except (*DECODE_ERRORS, ValueError) as decode_error:  # ValueError: invalid base64
        raise InvalidUpstreamResponse(f"The engine's event is invalid: {decode_error}.") from None
    return (b"" if event_type is None else b"event: " + event_type.encode() + b"\n") + b"data: " + event_json + b"\n\n"
