"""What came before: items of asks and answers, as a gateway that keeps them itself puts them together."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.wire import NULL, UNREADABLE, Body, Frames

_items: msgspec.json.Decoder[str | list[Raw]] = msgspec.json.Decoder(str | list[Raw])
_item = msgspec.json.Decoder(dict[str, Any])
_includes = msgspec.json.Decoder(list[str])

SEALED = "reasoning.encrypted_content"
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})

# How OpenAI begins the ids of items, by type.
PREFIXES: Mapping[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


class Resumed(list[Raw]):
    """An input of which the first `earlier` items are not the ask's own. `is_text`: its own is one text."""

    earlier = 0
    is_text = False


def input_items(body: Mapping[str, Any]) -> list[Raw]:
    """The ask's input as a list, every item as it came; a text is a message of the user's."""
    said = body.get("input")
    if said is None:
        return []
    if isinstance(said, Resumed):
        return said
    given = _items.decode(said if isinstance(said, Raw) else msgspec.json.encode(said))
    if isinstance(given, list):
        return given
    return [Raw(msgspec.json.encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}))]


def is_text(body: Mapping[str, Any]) -> bool:
    """Whether the ask's input is one text, and no list."""
    said = body.get("input")
    return isinstance(said, Raw) and bytes(said).lstrip()[:1] == b'"'


def listed_items(items: Iterable[Raw], response_id: str, first: int = 0) -> list[dict[str, Any]]:
    """Items as GET /v1/responses/{id}/input_items lists them: each with an id, the same each time, and messages spelled out.

    `first`: how many of that answer's items are before these.
    """
    return [_listed(_item.decode(raw), f"{response_id}/{at}") for at, raw in enumerate(items, first)]


def listed_id(item: Raw, response_id: str, at: int) -> str:
    """Of the item at a place, as listed_items() tells it."""
    told = _referring.decode(item)
    return told.id or minted(told.type or "message", f"{response_id}/{at}")


def _listed(item: dict[str, Any], place: str) -> dict[str, Any]:
    kind = item.get("type") or "message"
    listed = {"id": item.get("id") or minted(kind, place), "type": kind}
    if kind == "message":
        role, content = item.get("role"), item.get("content")
        if isinstance(content, str):
            said: dict[str, Any] = {"type": "input_text", "text": content}
            if role == "assistant":
                said = {"type": "output_text", "text": content, "annotations": []}
            content = [said]
        listed |= {"status": item.get("status") or "completed", "role": role, "content": content}
    elif kind in PREFIXES:
        listed["status"] = item.get("status") or "completed"
    return {**item, **listed}


def minted(kind: str, place: str) -> str:
    """An id for an item without one; the same for the same place."""
    return f"{PREFIXES.get(kind, 'item')}_{hashlib.sha256(f'{kind}/{place}'.encode()).hexdigest()[:40]}"


def resumed(body: Body, earlier: list[Raw]) -> Resumed:
    """Puts earlier items before the ask's own; the ask goes on from nothing any more. Gives its input as it now is."""
    items = Resumed([*earlier, *input_items(body)])
    items.earlier, items.is_text = len(earlier), is_text(body)
    body["input"] = items
    body.pop("previous_response_id", None)
    return items


class _Referring(Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None


_referring = msgspec.json.Decoder(_Referring)


def referred(item: Raw) -> str | None:
    """The id of the item that this one stands for; None for one that stands for itself."""
    try:
        told = _referring.decode(item)
    except UNREADABLE:
        return None
    kind = told.type or ("item_reference" if told.role is None else "message")
    return told.id if kind == "item_reference" else None


def id_of(item: Raw) -> str | None:
    try:
        return _referring.decode(item).id
    except UNREADABLE:
        return None


def item_ids(response: bytes | Raw) -> list[str]:
    """Of the output of a whole Response, as far as its items have any."""
    try:
        return [item.id for item in _output.decode(response).output if item.id]
    except UNREADABLE:
        return []


class _Output(Struct):
    output: list[_Referring] = []


_output = msgspec.json.Decoder(_Output)


def output_items(response: bytes | Raw) -> list[Raw]:
    """The output of a whole Response, as input for the next turn."""
    output = Body.read_reply(bytes(response)).get("output", NULL)
    try:
        given = _items.decode(output)
    except UNREADABLE:
        return []
    return given if isinstance(given, list) else []


def final_of(last: bytes) -> bytes | None:
    """The Response in the last frames of a stream; None if it did not end with one."""
    for data in reversed(Frames(limit_bytes=1 << 62).feed(last)):
        try:
            event = Body.read(data)
        except UNREADABLE:
            continue
        if event.value("type") in _LAST and event.said("response"):
            return bytes(event["response"])
    return None


def stateless(body: Body) -> None:
    """An ask whose conversation the gateway keeps: the engine stores nothing, and seals its reasoning so that it can be given back."""
    body["store"] = False
    said = _includes.decode(body["include"]) if isinstance(body.get("include"), Raw) and body.said("include") else body.get("include") or []
    if SEALED not in said:
        body["include"] = [*said, SEALED]
