"""Messages of a chat, adapted to an engine: the names of roles and of reasoning, and parts of types that it does not read."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.tool_calls import write_call_input
from providers.drop_policy import DropPolicy

# Types of parts that few engines read, in their quotes, with the reason.
UNREAD_PARTS: Mapping[bytes, str] = {b'"file"': "it reads no documents.", b'"refusal"': "it has no parts of that type."}


class CustomCall(Struct):
    name: str = ""
    input: str = ""


_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_call = msgspec.json.Decoder(CustomCall).decode
_decode_parts = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_DEVELOPER, _SYSTEM = Raw(b'"developer"'), Raw(b'"system"')


def rename_reasoning(body: Body, engine_field: Literal["reasoning", "reasoning_content"] = "reasoning_content") -> None:
    """Renames the reasoning of earlier assistant messages to the name that the engine's chat templates read."""
    other_field = "reasoning_content" if engine_field == "reasoning" else "reasoning"
    if not body.has_value("messages") or f'"{other_field}"'.encode() not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _decode_messages(as_raw(body["messages"]))
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
    """Renames the role `developer`, OpenAI's newer name, to `system`: most models' templates ignore or reject the newer one.

    A developer message with tools of its own is kept: it is for templates that know the role (DeepSeek's). Sources:
    sgl-project/sglang#40082, vllm-project/vllm#43590, ggml-org/llama.cpp#20215; read 2026-11.
    """
    if not body.has_value("messages") or b'"developer"' not in bytes(as_raw(body["messages"])):
        return
    try:
        messages = _decode_messages(as_raw(body["messages"]))
    except DECODE_ERRORS:
        return
    for message in messages:
        if message.get("role") == _DEVELOPER and message.get("tools", NULL) == NULL:
            message["role"] = _SYSTEM
    body["messages"] = messages


def write_custom_calls_as_functions(body: Body) -> None:
    """Writes calls of tools for free text, which a session at OpenAI may have behind it, as calls of functions with an `input`.

    Engines and most hosts know functions alone. Sources: vm0-ai/vm0#28274, awsl-project/maxx#813, imateusdev/loom-router#17, read 2026-11.
    """
    if not body.has_value("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    if b'"custom"' not in raw:
        return
    try:
        messages = _decode_messages(raw)
        for message in messages:
            if message.get("tool_calls", NULL) != NULL:
                message["tool_calls"] = Raw(msgspec.json.encode([_as_function_call(call) for call in _decode_parts(message["tool_calls"])]))
    except DECODE_ERRORS:
        return
    body["messages"] = messages


def _as_function_call(call: dict[str, Raw]) -> dict[str, Any]:
    if call.get("custom", NULL) == NULL:
        return call
    custom = _decode_call(call["custom"])
    arguments = msgspec.json.encode(write_call_input(custom.input, custom=True)).decode()
    kept = {key: value for key, value in call.items() if key != "custom"}
    return {**kept, "type": "function", "function": {"name": custom.name, "arguments": arguments}}


def drop_unsupported_parts(body: Body, reasons: Mapping[bytes, str], drop_policy: DropPolicy) -> None:
    """Drops or refuses content parts by their type. `reasons` says why each type is unsupported, by the type in its quotes.

    Raises Unsupported. Calls of tools for free text become calls of functions: what reads few types of parts knows no such tools.
    """
    if not body.has_value("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    if b'"custom"' in raw:
        write_custom_calls_as_functions(body)
        raw = bytes(as_raw(body["messages"]))
    if not any(part_type in raw for part_type in reasons):
        return
    try:
        messages = _decode_messages(raw)
        dropped = False
        for message_index, message in enumerate(messages):
            content = bytes(message.get("content", b""))
            if content[:1] != b"[":
                continue
            kept: list[dict[str, Raw]] = []
            for part_index, part in enumerate(_decode_parts(content)):
                why = reasons.get(bytes(part.get("type", b"")))
                if why is None:
                    kept.append(part)
                    continue
                drop_policy.drop_path_or_refuse(f"messages[{message_index}].content[{part_index}]", why)
                dropped = True
            message["content"] = Raw(msgspec.json.encode(kept))
    except DECODE_ERRORS:
        return
    if dropped:
        body["messages"] = messages
