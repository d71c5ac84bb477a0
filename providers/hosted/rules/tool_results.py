"""Results of tools for hosts that take them as a string alone: texts are joined, and media follow in a message of the user."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body

_TOOL = Raw(b'"tool"')

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_parts = msgspec.json.Decoder(list[dict[str, Any]]).decode


def flatten_tool_results(body: Body) -> None:
    """Writes the content of each tool message as a string; whatever is no text goes into a message of the user after the results."""
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if b'"tool"' not in raw:
        return
    try:
        messages = _decode_messages(raw)
        if not any(message.get("role") == _TOOL and bytes(message.get("content", b""))[:1] == b"[" for message in messages):
            return
        written: list[Any] = []
        media: list[Any] = []
        for message in messages:
            is_result = message.get("role") == _TOOL
            if media and not is_result:
                written.append({"role": "user", "content": media})
                media = []
            written.append(_flatten(message, media) if is_result and bytes(message.get("content", b""))[:1] == b"[" else message)
    except DECODE_ERRORS:
        return
    if media:
        written.append({"role": "user", "content": media})
    body["messages"] = written


def _flatten(message: dict[str, Raw], media: list[Any]) -> dict[str, Any]:
    parts = _decode_parts(message["content"])
    texts = [str(part.get("text") or "") for part in parts if part.get("type") == "text"]
    others = [part for part in parts if part.get("type") != "text"]
    if others:
        id = msgspec.json.decode(message.get("tool_call_id", NULL))
        media += [{"type": "text", "text": f"From the result of tool call {id}:"}, *others]
    return {**message, "content": "\n".join(texts) or ("The result follows in the next user message." if others else "")}
