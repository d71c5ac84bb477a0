"""Ids of items: those that the gateway makes, and those that items have or refer to."""

import hashlib
import re
import uuid
from collections.abc import Mapping
from typing import assert_never

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialect import ResponseMeta

# OpenAI's own ids are longer, vLLM's are UUIDs of another version.
_GATEWAY_ITEM_ID = re.compile(r"[a-z]{2,4}_([0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15})[0-9a-f]{4}")

# The prefix of OpenAI's item ids, by item type.
ID_PREFIXES: Mapping[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}


def item_id(meta: ResponseMeta, prefix: str, output_index: int) -> str:
    """The id of an output item, of which response_uuid_of() is the reverse. OpenAI accepts ids of at most 64 characters."""
    return f"{prefix}_{meta.id.replace('-', '')}{output_index:04x}"


def compaction_item_id(inference_id: str) -> str:
    """The id of the only item of a response that is a compaction, as item_id() makes them."""
    return f"cmp_{inference_id.replace('-', '')}0000"


def response_uuid_of(item_id: str) -> str | None:
    """The UUID of the response's inference, from an id that item_id() made; None for any other id."""
    matched = _GATEWAY_ITEM_ID.fullmatch(item_id)
    return None if matched is None else str(uuid.UUID(matched[1]))


def id_prefix(part: Part) -> str:
    match part:
        case Text() | Refusal():
            return "msg"
        case Reasoning() | Opaque():
            return "rs"
        case ToolCall():
            return "ctc" if part.custom else "fc"
        case _:
            assert_never(part)


def derive_item_id(kind: str, position: str) -> str:
    """An id for an item without one, always the same for the same position."""
    return f"{ID_PREFIXES.get(kind, 'item')}_{hashlib.sha256(f'{kind}/{position}'.encode()).hexdigest()[:40]}"


def referenced_item_id(item: Raw) -> str | None:
    """The id of the item that an item reference refers to; None for any other item."""
    try:
        reference = item_reference_decoder.decode(item)
    except DECODE_ERRORS:
        return None
    kind = reference.type or ("item_reference" if reference.role is None else "message")
    return reference.id if kind == "item_reference" else None


def item_id_of(item: Raw) -> str | None:
    """The item's own id; None if it has none."""
    try:
        return item_reference_decoder.decode(item).id
    except DECODE_ERRORS:
        return None


class ItemReference(Struct):
    type: str | None = None
    id: str | None = None
    role: str | None = None


item_reference_decoder = msgspec.json.Decoder(ItemReference)
