"""The input items of a response, as GET /v1/responses/{id}/input_items lists them."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from providers.dialects.openai_responses.item_ids import ID_PREFIXES, derive_item_id, item_reference_decoder

_item_decoder = msgspec.json.Decoder(dict[str, Any])


def write_input_items(items: Iterable[Raw], response_id: str, first: int = 0) -> list[dict[str, Any]]:
    """The items of the listing: each has an id, always the same, and all documented fields.

    `first` says how many of the response's input items come before these.
    """
    return [_write_input_item(_item_decoder.decode(raw), f"{response_id}/{at}") for at, raw in enumerate(items, first)]


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


def input_item_id(item: Raw, response_id: str, position: int) -> str:
    """The id of the item at a position, as write_input_items() lists it."""
    reference = item_reference_decoder.decode(item)
    return reference.id or derive_item_id(reference.type or "message", f"{response_id}/{position}")
