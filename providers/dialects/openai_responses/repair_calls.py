"""Calls that an engine of Responses left unfinished: without arguments, with an object in place of their text, or without an id."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.tool_calls import new_call_id

CALL_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}
_CALLS = (b'"function_call"', b'"custom_tool_call"')
_raws = msgspec.json.Decoder(list[Raw])
_object = msgspec.json.Decoder(dict[str, Any])


def with_whole_calls(output: Raw) -> Raw:
    """The output items of a response; the same object if all calls are whole. Raises as whole_call() does, and DECODE_ERRORS."""
    raw = bytes(output)
    if not any([call in raw for call in _CALLS]):
        return output
    items, is_changed = _raws.decode(raw), False
    for at, each in enumerate(items):
        item = _object.decode(each)
        whole = whole_call(item)
        if whole is not item:
            items[at], is_changed = Raw(msgspec.json.encode(whole)), True
    return Raw(msgspec.json.encode(items)) if is_changed else output


def whole_call(item: dict[str, Any], arguments: str | None = None) -> dict[str, Any]:
    """The item; if it is a call, with its arguments as text. Official SDKs parse that, and raise an error for null.

    `arguments` are those that came before the item, where it has none itself. Raises InvalidUpstreamResponse for a call without a name.
    """
    field = CALL_FIELDS.get(str(item.get("type")))
    if field is None:
        return item
    if not is_named(item):
        raise InvalidUpstreamResponse("The engine sent a tool call without a name.")
    written, call_id = item.get(field), item.get("call_id")
    text = written if isinstance(written, str) else "" if written is None else msgspec.json.encode(written).decode()
    if not text or text.isspace():
        text = arguments or ("{}" if field == "arguments" else "")
    if not isinstance(call_id, str) or not call_id:
        call_id = str(call_id or item.get("id") or new_call_id())
    if text == written and call_id == item.get("call_id"):
        return item
    return {**item, field: text, "call_id": call_id}


def started_call(item: dict[str, Any]) -> dict[str, Any]:
    """A call as it starts, to whose arguments clients add the deltas: an empty text in place of null, and an id."""
    field = CALL_FIELDS.get(str(item.get("type")))
    if field is None or (isinstance(item.get(field), str) and item.get("call_id")):
        return item
    whole = whole_call(item)
    return whole if item.get(field) else {**whole, field: ""}


def is_named(item: dict[str, Any]) -> bool:
    return isinstance(item.get("name"), str) and item["name"] != ""
