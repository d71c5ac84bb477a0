"""The container's stream out of SageMaker's event-stream frames: raw bytes, split anywhere."""

import msgspec

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.sse import sse_frame
from providers.dialects.aws.event_stream import EventStreamUnwrapper, Message


def payload_unwrapper() -> EventStreamUnwrapper:
    return EventStreamUnwrapper(_read_payload)


class JsonLinesUnwrapper:
    """A StreamUnwrapper for chats of LMI containers, which send JSON lines by default: they become OpenAI's server-sent events.

    Server-sent events, which a container can be configured to send, stay as they are.
    Source: docs.djl.ai, "Chat Completions API Schema", read 2026-11.
    """

    __slots__ = ("_limit_bytes", "_payloads", "_pending")

    def __init__(self, limit_bytes: int = 32 * 1024 * 1024) -> None:
        self._payloads = payload_unwrapper()
        self._pending = b""
        self._limit_bytes = limit_bytes

    def feed(self, block: bytes) -> bytes:
        *lines, self._pending = (self._pending + self._payloads.feed(block)).split(b"\n")
        if len(self._pending) > self._limit_bytes:
            raise InvalidUpstreamResponse(f"The engine sent a line of more than {self._limit_bytes} bytes.")
        if not block and _is_complete_json(self._pending):  # the end of the stream; its last line may lack a newline
            lines.append(self._pending)
            self._pending = b""
        return b"".join(sse_frame(line.strip()) if line.lstrip()[:1] == b"{" else line + b"\n" for line in lines)


def _is_complete_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except DECODE_ERRORS:
        return False
    return True


def _read_payload(message: Message) -> bytes:
    """The payload of a PayloadPart; empty for other event types, which are unknown."""
    return message.payload if message.headers.get(":event-type") == "PayloadPart" else b""
