"""Messages as an engine reads them: roles and reasoning by the names that it has for them, and parts of kinds that it knows."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Raw

from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import NULL, UNREADABLE, Body

_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_DEVELOPER, _SYSTEM = Raw(b'"developer"'), Raw(b'"system"')
_parts = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def name_reasoning(body: Body, theirs: Literal["reasoning", "reasoning_content"] = "reasoning_content") -> None:
    """Reasoning of an answer that is given back, under the name that templates there look for, where it came by the other."""
    other = "reasoning_content" if theirs == "reasoning" else "reasoning"
    if not body.said("messages") or f'"{other}"'.encode() not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _messages(as_raw(body["messages"]))
    except UNREADABLE:
        return
    renamed = False
    for message in messages:
        if message.get(other, NULL) != NULL and message.get(theirs, NULL) == NULL:
            message[theirs] = message.pop(other)
            renamed = True
    if renamed:
        body["messages"] = messages


def name_system(body: Body) -> None:
    """`developer`, OpenAI's newer name for the system, as `system`: of most models' templates it is passed over in silence, or refused.

    One with tools of its own stays: it is for templates that know it (DeepSeek's). Sources: sgl-project/sglang#40082,
    vllm-project/vllm#43590, ggml-org/llama.cpp#20215; read 2026-11.
    """
    if not body.said("messages") or b'"developer"' not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _messages(as_raw(body["messages"]))
    except UNREADABLE:
        return
    for message in messages:
        if message.get("role") == _DEVELOPER and message.get("tools", NULL) == NULL:
            message["role"] = _SYSTEM
    body["messages"] = messages


def drop_parts(body: Body, kinds: Mapping[bytes, str], losses: Losses) -> None:
    """Parts of content whose type, in its quotes, is one of `kinds`, each with why it cannot go. Raises Unsupported."""
    if not body.said("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    if not any(kind in raw for kind in kinds):
        return
    try:
        messages = _messages(raw)
        dropped = False
        for at, message in enumerate(messages):
            content = bytes(message.get("content", b""))
            if content[:1] != b"[":
                continue
            kept: list[dict[str, Raw]] = []
            for place, part in enumerate(_parts(content)):
                why = kinds.get(bytes(part.get("type", b"")))
                if why is None:
                    kept.append(part)
                    continue
                losses.part_with(f"messages[{at}].content[{place}]", why)
                dropped = True
            message["content"] = Raw(msgspec.json.encode(kept))
    except UNREADABLE:
        return
    if dropped:
        body["messages"] = messages
