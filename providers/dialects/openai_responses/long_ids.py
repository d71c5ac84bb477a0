"""Ids that are too long for the Responses API, as other hosts and runtimes make them: a shorter one goes in their place.

OpenAI's message is "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64": decolua/9router#393,
earendil-works/pi#2328, NousResearch/hermes-agent#72006, read 2026-11. No answer repeats an id of the input.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import Body
from providers.dialects.openai_responses.item_ids import ID_PREFIXES

_MAX_CHARS = 64
# More bytes than characters may be allowed; shorten_ids() then finds no id that is too long.
_LONG_ID = re.compile(rb'"(?:call_)?id"\s*:\s*"[^"]{%d,}' % (_MAX_CHARS + 1))

_items_decoder = msgspec.json.Decoder(list[Raw])
_fields_decoder = msgspec.json.Decoder(dict[str, Raw])


def shorten_ids(body: Body) -> None:
    """Replaces `call_id` and `id` of input items where they are too long: those of a call and of its output by the same one."""
    raw_input = body.get("input")
    if isinstance(raw_input, Raw):
        if _LONG_ID.search(raw_input) is None:  # pyright: ignore[reportCallIssue, reportArgumentType]
            return
        body["input"] = [_shorten_item(item) for item in _items_decoder.decode(raw_input)]
    elif isinstance(raw_input, list):
        items = cast("Sequence[Any]", raw_input)
        shortened = [_shorten_item(item) for item in items]
        if any(new is not old for new, old in zip(shortened, items, strict=True)):
            body["input"] = shortened


def short_call_id(call_id: str) -> str:
    """Always the same for the same id."""
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[: _MAX_CHARS - 5]}"


def _shorten_item(item: Any) -> Any:
    if isinstance(item, Raw):
        if _LONG_ID.search(item) is None:  # pyright: ignore[reportCallIssue, reportArgumentType]
            return item
        item = _fields_decoder.decode(item)
    if not isinstance(item, dict):
        return item
    fields = cast("dict[str, Any]", item)
    changed: dict[str, Any] = {}
    if _is_long(call_id := _text(fields.get("call_id"))):
        changed["call_id"] = short_call_id(call_id)
    if _is_long(item_id := _text(fields.get("id"))):
        changed["id"] = (
            f"{ID_PREFIXES.get(_text(fields.get('type')) or 'message', 'item')}_{hashlib.sha256(item_id.encode()).hexdigest()[:40]}"
        )
    if not changed:
        return fields
    shortened = {**fields, **changed}
    if "encrypted_content" in fields:
        shortened.pop("id", None)  # OpenAI rejects encrypted content under another id, and accepts it without one
    return shortened


def _is_long(id: str) -> bool:
    return len(id) > _MAX_CHARS


def _text(value: Any) -> str:
    decoded = msgspec.json.decode(value) if isinstance(value, Raw) else value
    return decoded if isinstance(decoded, str) else ""
