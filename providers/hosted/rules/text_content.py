"""Content that is texts alone, for hosts that take it as a string: lists of texts are joined. Lists with media stay as they are."""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.drop_policy import DropPolicy

_MARKER = b'"type"'  # of a part

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_parts = msgspec.json.Decoder(list[dict[str, Any]]).decode


def join_text_content(body: Body, roles: Collection[str], drop_policy: DropPolicy) -> None:
    """Writes lists of texts in messages of these roles as one string each, with a line break between two. Members of texts are reported."""
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if _MARKER not in raw:
        return
    wanted = [Raw(msgspec.json.encode(role)) for role in roles]
    try:
        messages = _decode_messages(raw)
        changed = False
        for at, message in enumerate(messages):
            content = message.get("content", b"")
            if message.get("role") in wanted and bytes(content)[:1] == b"[":
                changed = _join(message, content, f"messages[{at}]", drop_policy) or changed
    except DECODE_ERRORS:
        return
    if changed:
        body["messages"] = messages


def _join(message: dict[str, Raw], content: Raw | bytes, path: str, drop_policy: DropPolicy) -> bool:
    """Whether the content was texts alone."""
    parts = _decode_parts(content)
    if not all(part.get("type") == "text" and isinstance(part.get("text"), str) for part in parts):
        return False
    for number, part in enumerate(parts):
        for key in sorted(part.keys() - {"type", "text"}):
            if part[key] is not None:
                drop_policy.report_dropped(f"{path}.content[{number}].{key}")
    message["content"] = Raw(msgspec.json.encode("\n".join(part["text"] for part in parts)))
    return True
