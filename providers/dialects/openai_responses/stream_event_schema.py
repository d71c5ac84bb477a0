"""Stream events as engines send them."""

from collections.abc import Container
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, NULL, repair_unicode
from providers.dialects.openai_responses.response_schema import Content

T = TypeVar("T")


class ItemEvent(Struct):
    """The fields of an event that say which item it belongs to."""

    type: str = ""
    sequence_number: int | None = None
    response: Raw = NULL
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    item: Raw = NULL


class StreamEvent(Struct):
    """All fields of an event that the stream reader reads."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    logprobs: list[Raw] | None = None
    text: str | None = None
    refusal: str | None = None
    item: Raw = NULL
    part: Content | None = None
    annotation: Raw = NULL
    response: Raw = NULL


class _Kind(Struct):
    type: str = ""


class _Content(Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class DoneEvent(Struct):
    """The fields of an event that ends a part or an item."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | dict[str, Raw] | None = None
    input: str | None = None
    name: str | None = None
    part: _Content | None = None
    delta: str | None = None

    @property
    def complete_text(self) -> str:
        arguments = self.arguments if isinstance(self.arguments, str | None) else msgspec.json.encode(self.arguments).decode()
        return self.text or self.refusal or arguments or self.input or (self.part and (self.part.text or self.part.refusal)) or ""


stream_event_decoder = msgspec.json.Decoder(StreamEvent)
_kind_decoder = msgspec.json.Decoder(_Kind)
_done_decoder = msgspec.json.Decoder(DoneEvent)


def decode_done_event(data: bytes) -> DoneEvent:
    try:
        return decode_repaired(_done_decoder, data)
    except DECODE_ERRORS:
        return DoneEvent()


def decode_repaired(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except DECODE_ERRORS:
        return decoder.decode(repair_unicode(raw))


def decode_leniently(data: bytes, known_types: Container[str]) -> StreamEvent | None:
    """Returns an event that is not valid as it is; of an unknown type, only its type. Returns None for the mark that ends a stream.

    Raises InvalidUpstreamResponse for an event of a known type that cannot be read, and for what is no event.
    """
    if data.strip() == b"[DONE]":
        return None
    repaired = repair_unicode(data)
    try:
        return stream_event_decoder.decode(repaired)
    except DECODE_ERRORS:
        pass
    try:
        return stream_event_decoder.decode(with_expected_types(data))
    except DECODE_ERRORS as exc:
        reason = exc
    try:
        kind = _kind_decoder.decode(repaired).type
    except DECODE_ERRORS:
        kind = None
    if kind is None or kind in known_types:
        raise InvalidUpstreamResponse(f"The engine's event is not one of a Response: {reason}.")
    return StreamEvent(kind)
