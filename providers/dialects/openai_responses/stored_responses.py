"""Reads a stored response: its final object, its output items and their ids."""

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.sse import SSEDecoder
from providers.dialects.openai_responses.input_items import items_decoder
from providers.dialects.openai_responses.item_ids import ItemReference

_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def final_response(last_frames: bytes) -> bytes | None:
    """The Response in the last frames of a stream; None if the stream did not end with one."""
    for data in reversed(SSEDecoder(limit_bytes=1 << 62).feed(last_frames)):
        try:
            event = Body.read(data)
        except DECODE_ERRORS:
            continue
        if event.value("type") in _TERMINAL_EVENTS and event.has_value("response"):
            return bytes(event["response"])
    return None


def output_items(response: bytes | Raw) -> list[Raw]:
    """The output items of a complete Response, as input for the next turn."""
    output = Body.read_response(bytes(response)).get("output", NULL)
    try:
        decoded = items_decoder.decode(output)
    except DECODE_ERRORS:
        return []
    return decoded if isinstance(decoded, list) else []


def output_item_ids(response: bytes | Raw) -> list[str]:
    """The ids of the output items of a complete Response, except those without one."""
    try:
        return [item.id for item in _output_decoder.decode(response).output if item.id]
    except DECODE_ERRORS:
        return []


class _Output(Struct):
    output: list[ItemReference] = []


_output_decoder = msgspec.json.Decoder(_Output)
