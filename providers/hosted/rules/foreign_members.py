"""Members of messages that other gateways, frameworks and hosts add, for hosts that refuse members they do not know.

Clients send a history back as it came: with what LiteLLM, LangChain, OpenRouter or the official SDK's `model_dump()` put into it. Groq
answers 400 ("property 'provider_specific_fields' is unsupported"), Mistral 422 (extra_forbidden), OpenAI 400 ("Unknown parameter:
'messages[1].cache_control'"). None of them changes what the messages say, so they are dropped as hints; nulls are left out.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.drop_policy import DropPolicy

# Who adds them: LiteLLM (provider_specific_fields, thinking_blocks, reasoning_items, images, and index and cache_control as Claude's);
# LangChain (additional_kwargs, response_metadata, usage_metadata, invalid_tool_calls); the SDK's parsed responses (parsed,
# parsed_arguments); other hosts and engines (the rest). Read in their sources and docs 2026-11: docs/sources.md#foreign-members.
FOREIGN_MEMBERS = frozenset(
    {
        *("provider_specific_fields", "thinking_blocks", "reasoning_items", "images", "cache_control", "additional_kwargs"),
        *("response_metadata", "usage_metadata", "invalid_tool_calls", "parsed", "parsed_arguments", "extra_content"),
        *("reasoning_details", "reasoning_signature", "thought_signature", "thinking", "citations", "search_results", "matched_stop"),
        *("id", "index", "phase", "status", "metadata", "stop_reason", "finish_reason"),
    }
)
_IDENTIFYING_MEMBERS = frozenset({"id", "index"})
_MARKERS = (*(f'"{name}"'.encode() for name in sorted(FOREIGN_MEMBERS)), b"null")
_EMPTY_TEXT = Raw(b'""')
_ASSISTANT = Raw(b'"assistant"')
_EMPTY_VALUES = (NULL, Raw(b"[]"), Raw(b"{}"), _EMPTY_TEXT)

_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def drop_foreign_members(body: Body, drop_policy: DropPolicy, kept: frozenset[str] = frozenset(), *, keeps_marks: bool = False) -> None:
    """Drops the FOREIGN_MEMBERS, but those in `kept`, of messages, of their texts and of their calls, and leaves out nulls.

    With `keeps_marks`, marks of a cache stay in texts, where alone the host reads them.
    """
    if not body.has_value("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    for marker in _MARKERS:
        if marker in raw:
            break
    else:
        return
    try:
        messages = [
            _without_foreign(message, f"messages[{at}]", kept, drop_policy, keeps_marks) for at, message in enumerate(_decode_objects(raw))
        ]
    except DECODE_ERRORS:
        return
    body["messages"] = messages


def _without_foreign(
    message: dict[str, Raw], path: str, kept: frozenset[str], drop_policy: DropPolicy, keeps_marks: bool
) -> dict[str, Any]:
    for key in [key for key, value in message.items() if value == NULL and key != "content"]:
        del message[key]
    if message.get("content") == NULL and "tool_calls" not in message:
        message["content"] = _EMPTY_TEXT
    _drop_members(message, path, kept, drop_policy)
    content = message.get("content", NULL)
    if not keeps_marks and b'"cache_control"' in bytes(content) and bytes(content)[:1] == b"[":
        parts = _decode_objects(content)
        for number, part in enumerate(parts):
            if "cache_control" in part and "cache_control" not in kept:
                drop_policy.report_dropped(f"{path}.content[{number}].cache_control")
                del part["cache_control"]
        message["content"] = Raw(msgspec.json.encode(parts))
    if message.get("role") == _ASSISTANT and "tool_calls" in message:
        message["tool_calls"] = Raw(msgspec.json.encode(_calls(message["tool_calls"], path, kept, drop_policy)))
    return message


def _calls(raw: Raw, path: str, kept: frozenset[str], drop_policy: DropPolicy) -> list[dict[str, Raw]]:
    calls = _decode_objects(raw)
    for number, call in enumerate(calls):
        id = call.pop("id", NULL)
        _drop_members(call, f"{path}.tool_calls[{number}]", kept, drop_policy)
        if id != NULL:
            call["id"] = id
        function = call.get("function", NULL)
        if any(marker in bytes(function) for marker in _MARKERS):
            fields = _decode_object(function)
            _drop_members(fields, f"{path}.tool_calls[{number}].function", kept, drop_policy)
            call["function"] = Raw(msgspec.json.encode(fields))
    return calls


def _drop_members(fields: dict[str, Raw], path: str, kept: frozenset[str], drop_policy: DropPolicy) -> None:
    """Ids and indexes of history say nothing, and go without a report."""
    for key in sorted((FOREIGN_MEMBERS - kept).intersection(fields)):
        if fields.pop(key) not in _EMPTY_VALUES and key not in _IDENTIFYING_MEMBERS:
            drop_policy.report_dropped(f"{path}.{key}")
