"""Messages as an engine reads them: roles and reasoning by the names that it has for them, and parts of kinds that it knows."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Raw

from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body

_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_DEVELOPER, _SYSTEM = Raw(b'"developer"'), Raw(b'"system"')
_parts = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def rename_reasoning(body: Body, engine_field: Literal["reasoning", "reasoning_content"] = "reasoning_content") -> None:
    """Reasoning of an answer that is given back, under the name that templates there look for, where it came by the other."""
    other_field = "reasoning_content" if engine_field == "reasoning" else "reasoning"
    if not body.has_value("messages") or f'"{other_field}"'.encode() not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _messages(as_raw(body["messages"]))
    except DECODE_ERRORS:
        return
    renamed = False
    for message in messages:
        if message.get(other_field, NULL) != NULL and message.get(engine_field, NULL) == NULL:
            message[engine_field] = message.pop(other_field)
            renamed = True
    if renamed:
        body["messages"] = messages


def rename_developer_role(body: Body) -> None:
    """`developer`, OpenAI's newer name for the system, as `system`: of most models' templates it is passed over in silence, or refused.

    One with tools of its own stays: it is for templates that know it (DeepSeek's). Sources: sgl-project/sglang#40082,
    vllm-project/vllm#43590, ggml-org/llama.cpp#20215; read 2026-11.
    """
    if not body.has_value("messages") or b'"developer"' not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _messages(as_raw(body["messages"]))
    except DECODE_ERRORS:
        return
    for message in messages:
        if message.get("role") == _DEVELOPER and message.get("tools", NULL) == NULL:
            message["role"] = _SYSTEM
    body["messages"] = messages


def drop_unsupported_parts(body: Body, kinds: Mapping[bytes, str], unsupported_fields: UnsupportedFields) -> None:
    """Parts of content whose type, in its quotes, is one of `kinds`, each with why it cannot go. Raises Unsupported."""
    if not body.has_value("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    if not any(kind in raw for kind in kinds):
        return
    try:
        messages = _messages(raw)
        dropped = False
        for message_index, message in enumerate(messages):
            content = bytes(message.get("content", b""))
            if content[:1] != b"[":
                continue
            kept: list[dict[str, Raw]] = []
            for part_index, part in enumerate(_parts(content)):
                why = kinds.get(bytes(part.get("type", b"")))
                if why is None:
                    kept.append(part)
                    continue
                unsupported_fields.drop_path_or_refuse(f"messages[{message_index}].content[{part_index}]", why)
                dropped = True
            message["content"] = Raw(msgspec.json.encode(kept))
    except DECODE_ERRORS:
        return
    if dropped:
        body["messages"] = messages
