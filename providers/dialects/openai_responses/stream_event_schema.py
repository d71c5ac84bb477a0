"""Stream events as engines send them."""

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL, repair_unicode

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
