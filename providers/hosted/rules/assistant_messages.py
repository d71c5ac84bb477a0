"""Assistant messages that clients send back: without the fields of a response that the host does not accept."""

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.drop_policy import DropPolicy

# Fields of a response beside text and tool calls, which clients send back as they came.
OPTIONAL_ASSISTANT_FIELDS = frozenset(
    {"reasoning_content", "reasoning", "reasoning_details", "annotations", "refusal", "audio", "function_call"}
)
_MARKERS = {key: f'"{key}"'.encode() for key in OPTIONAL_ASSISTANT_FIELDS}
_EMPTY_VALUES = (NULL, Raw(b"[]"), Raw(b'""'))
_ASSISTANT = Raw(b'"assistant"')

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def drop_assistant_fields(body: Body, supported: frozenset[str], drop_policy: DropPolicy) -> None:
    """Removes the OPTIONAL_ASSISTANT_FIELDS that the host lacks: reasoning and citations are reported as dropped, content is refused."""
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
                _drop_or_refuse_field(message.pop(key), key, index, drop_policy)
                changed = True
    if changed:
        body["messages"] = messages


def _drop_or_refuse_field(value: Raw, key: str, index: int, drop_policy: DropPolicy) -> None:
    if value in _EMPTY_VALUES:
        return
    path = f"messages[{index}].{key}"
    if key in ("refusal", "audio", "function_call"):
        drop_policy.drop_path_or_refuse(path, "it does not have this field and rejects unknown fields.")
    else:
        drop_policy.report_dropped(path)
