"""What came before: items of asks and answers, as a gateway that keeps them itself puts them together."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, SSEDecoder

_items_decoder: msgspec.json.Decoder[str | list[Raw]] = msgspec.json.Decoder(str | list[Raw])
_item_decoder = msgspec.json.Decoder(dict[str, Any])
_include_decoder = msgspec.json.Decoder(list[str])

ENCRYPTED_REASONING = "reasoning.encrypted_content"
_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})

# How OpenAI begins the ids of items, by type.
ID_PREFIXES: Mapping[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


class ContinuedInput(list[Raw]):
    """An input of which the first `earlier` items are not the ask's own. `is_text`: its own is one text."""

    earlier_count = 0
    is_text = False


def list_input_items(body: Mapping[str, Any]) -> list[Raw]:
    """The ask's input as a list, every item as it came; a text is a message of the user's."""
    raw_input = body.get("input")
    if raw_input is None:
        return []
    if isinstance(raw_input, ContinuedInput):
        return raw_input
    decoded = _items_decoder.decode(raw_input if isinstance(raw_input, Raw) else msgspec.json.encode(raw_input))
    if isinstance(decoded, list):
        return decoded
    return [Raw(msgspec.json.encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": decoded}]}))]


def is_text_input(body: Mapping[str, Any]) -> bool:
    """Whether the ask's input is one text, and no list."""
    raw_input = body.get("input")
    return isinstance(raw_input, Raw) and bytes(raw_input).lstrip()[:1] == b'"'


def write_input_items(items: Iterable[Raw], response_id: str, first: int = 0) -> list[dict[str, Any]]:
    """Items as GET /v1/responses/{id}/input_items lists them: each with an id, the same each time, and messages spelled out.

    `first`: how many of that answer's items are before these.
    """
    return [_write_input_item(_item_decoder.decode(raw), f"{response_id}/{at}") for at, raw in enumerate(items, first)]


def input_item_id(item: Raw, response_id: str, position: int) -> str:
    """Of the item at a place, as listed_items() tells it."""
    reference = _reference_decoder.decode(item)
    return reference.id or derive_item_id(reference.type or "message", f"{response_id}/{position}")


def _write_input_item(item: dict[str, Any], position: str) -> dict[str, Any]:
    kind = item.get("type") or "message"
    listed = {"id": item.get("id") or derive_item_id(kind, position), "type": kind}
    if kind == "message":
        role, content = item.get("role"), item.get("content")
        if isinstance(content, str):
            text_part: dict[str, Any] = {"type": "input_text", "text": content}
            if role == "assistant":
                text_part = {"type": "output_text", "text": content, "annotations": []}
            content = [text_part]
        listed |= {"status": item.get("status") or "completed", "role": role, "content": content}
    elif kind in ID_PREFIXES:
        listed["status"] = item.get("status") or "completed"
    return {**item, **listed}


def derive_item_id(kind: str, position: str) -> str:
    """An id for an item without one; the same for the same place."""
    return f"{ID_PREFIXES.get(kind, 'item')}_{hashlib.sha256(f'{kind}/{position}'.encode()).hexdigest()[:40]}"


def prepend_items(body: Body, earlier_items: list[Raw]) -> ContinuedInput:
    """Puts earlier items before the ask's own; the ask goes on from nothing any more. Gives its input as it now is."""
    items = ContinuedInput([*earlier_items, *list_input_items(body)])
    items.earlier_count, items.is_text = len(earlier_items), is_text_input(body)
    body["input"] = items
    body.pop("previous_response_id", None)
    return items


class _ItemReference(Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None


_reference_decoder = msgspec.json.Decoder(_ItemReference)


def referenced_item_id(item: Raw) -> str | None:
    """The id of the item that this one stands for; None for one that stands for itself."""
    try:
        reference = _reference_decoder.decode(item)
    except DECODE_ERRORS:
        return None
    kind = reference.type or ("item_reference" if reference.role is None else "message")
    return reference.id if kind == "item_reference" else None


def item_id_of(item: Raw) -> str | None:
    try:
        return _reference_decoder.decode(item).id
    except DECODE_ERRORS:
        return None


def output_item_ids(response: bytes | Raw) -> list[str]:
    """Of the output of a whole Response, as far as its items have any."""
    try:
        return [item.id for item in _output_decoder.decode(response).output if item.id]
    except DECODE_ERRORS:
        return []


class _Output(Struct):
    output: list[_ItemReference] = []


_output_decoder = msgspec.json.Decoder(_Output)


def output_items(response: bytes | Raw) -> list[Raw]:
    """The output of a whole Response, as input for the next turn."""
    output = Body.read_response(bytes(response)).get("output", NULL)
    try:
        decoded = _items_decoder.decode(output)
    except DECODE_ERRORS:
        return []
    return decoded if isinstance(decoded, list) else []


def final_response(last_frames: bytes) -> bytes | None:
    """The Response in the last frames of a stream; None if it did not end with one."""
    for data in reversed(SSEDecoder(limit_bytes=1 << 62).feed(last_frames)):
        try:
            event = Body.read(data)
        except DECODE_ERRORS:
            continue
        if event.value("type") in _TERMINAL_EVENTS and event.has_value("response"):
            return bytes(event["response"])
    return None


def make_stateless(body: Body) -> None:
    """An ask whose conversation the gateway keeps: the engine stores nothing, and seals its reasoning so that it can be given back."""
    body["store"] = False
    include = (
        _include_decoder.decode(body["include"])
        if isinstance(body.get("include"), Raw) and body.has_value("include")
        else body.get("include") or []
    )
    if ENCRYPTED_REASONING not in include:
        body["include"] = [*include, ENCRYPTED_REASONING]
