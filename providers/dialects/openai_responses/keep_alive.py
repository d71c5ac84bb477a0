"""Keep-alives of Responses: `response.in_progress` again. Clients such as Codex count events as life, and no comments.

Source: https://github.com/openai/codex, codex-rs/codex-api/src/sse/responses.rs: its idle timeout ends with the next event; read 2026-11.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.errors import NarthexError
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses.errors import write_response_error
from providers.dialects.openai_responses.response_object import ECHOED_FIELDS, response_head

_CREATED = Raw(b'"response.created"')
# A longer field of the request (instructions, tools) is not repeated in keep-alives: that of megabytes would hold up all other streams,
# each time. The events that the engine's answer ends with have it.
_MAX_ECHOED_BYTES = 16 * 1024


class _Numbered(Struct):
    sequence_number: int | None = None


_number_decoder = msgspec.json.Decoder(_Numbered)
_event_decoder = msgspec.json.Decoder(dict[str, Raw])


class ResponsesKeepAlive:
    """The keep-alives of a stream of Responses, which are events, and numbered like all others.

    Those before the engine's first event are the events with which a stream begins, because SDKs refuse any other; edit() then
    leaves the engine's `response.created` out. From the first keep-alive on, all events are numbered here.
    """

    edits_frames: ClassVar[bool] = True

    def __init__(self, meta: ResponseMeta) -> None:
        self._meta = meta
        self._next_number: int | None = None
        self._has_created = False
        self._head: Raw | None = None

    def write(self, last_sent: bytes | None) -> bytes:
        kinds = ["response.in_progress"]
        if self._next_number is None:
            if last_sent:
                self._next_number = _last_number(last_sent) + 1
            else:
                self._next_number, self._has_created = 0, True
                kinds.insert(0, "response.created")
        if self._head is None:
            self._head = Raw(msgspec.json.encode(response_head(_without_long_fields(self._meta))))
        return b"".join([self._write_event(kind, self._head) for kind in kinds])

    def edit(self, frames: bytes) -> bytes:
        """The frames with numbers that go on after those of the keep-alives."""
        return b"".join([self._edit_frame(frame) for frame in frames.split(b"\n\n") if frame])

    def write_failure(self, error: NarthexError) -> bytes:
        """A response.failed, which edit() numbers: Codex reads no other event as the end of a stream that failed."""
        response = {**response_head(self._meta), "status": "failed", "error": write_response_error(error)}
        event = {"type": "response.failed", "response": response, "sequence_number": 0}
        return b"event: response.failed\ndata: %b\n\n" % msgspec.json.encode(event)

    def _edit_frame(self, frame: bytes) -> bytes:
        name, is_event, data = frame.partition(b"data: ")
        try:
            event: dict[str, Any] = dict(_event_decoder.decode(data)) if is_event else {}
        except DECODE_ERRORS:
            event = {}
        if "type" not in event:
            return frame + b"\n\n"
        if self._has_created and event["type"] == _CREATED:
            return b""
        event["sequence_number"] = self._take_number()
        return b"%bdata: %b\n\n" % (name, msgspec.json.encode(event))

    def _write_event(self, kind: str, head: Raw) -> bytes:
        event = {"type": kind, "response": head, "sequence_number": self._take_number()}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(event))

    def _take_number(self) -> int:
        number = self._next_number or 0
        self._next_number = number + 1
        return number


def _without_long_fields(meta: ResponseMeta) -> ResponseMeta:
    body = meta.request_body
    encoded = {key: body[key] if isinstance(body[key], Raw) else msgspec.json.encode(body[key]) for key in ECHOED_FIELDS if key in body}
    return replace(meta, request_body={key: body[key] for key, each in encoded.items() if memoryview(each).nbytes <= _MAX_ECHOED_BYTES})


def _last_number(frames: bytes) -> int:
    """The number of the last event that has one; -1: none has."""
    for frame in reversed(frames.split(b"\n\n")):
        try:
            number = _number_decoder.decode(frame.partition(b"data: ")[2]).sequence_number
        except DECODE_ERRORS:
            continue
        if number is not None:
            return number
    return -1
