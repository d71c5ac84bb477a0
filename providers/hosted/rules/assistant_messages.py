"""Answers that are given back in a conversation, without what a host would refuse of them."""

import msgspec
from msgspec import Raw

from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body

# What answers tell beyond text and calls, and clients give back as it came.
OPTIONAL_ASSISTANT_FIELDS = frozenset(
    {"reasoning_content", "reasoning", "reasoning_details", "annotations", "refusal", "audio", "function_call"}
)
_MARKERS = {key: f'"{key}"'.encode() for key in OPTIONAL_ASSISTANT_FIELDS}
_EMPTY_VALUES = (NULL, Raw(b"[]"), Raw(b'""'))
_ASSISTANT = Raw(b'"assistant"')

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def drop_assistant_fields(body: Body, supported: frozenset[str], unsupported_fields: UnsupportedFields) -> None:
    """All of TOLD_BESIDE that the host does not know: reasoning and citations are reported; a call, or what was said, is refused."""
    if not body.has_value("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    unsupported = [key for key in OPTIONAL_ASSISTANT_FIELDS - supported if _MARKERS[key] in raw]
    if not unsupported:
        return
    try:
        messages = _decode_messages(raw)
    except DECODE_ERRORS:
        return
    changed = False
    for index, message in enumerate(messages):
        if message.get("role") != _ASSISTANT:
            continue
        for key in unsupported:
            if key in message:
                _drop_or_refuse_field(message.pop(key), key, index, unsupported_fields)
                changed = True
    if changed:
        body["messages"] = messages


def _drop_or_refuse_field(value: Raw, key: str, index: int, unsupported_fields: UnsupportedFields) -> None:
    if value in _EMPTY_VALUES:
        return
    path = f"messages[{index}].{key}"
    if key in ("refusal", "audio", "function_call"):
        unsupported_fields.drop_path_or_refuse(path, "it has no such field, and refuses what it does not know.")
    else:
        unsupported_fields.dropped.append(path)
