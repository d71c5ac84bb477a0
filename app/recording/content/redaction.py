"""Redaction: keeps the structure and the numbers of a body, and removes its text."""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from app.recording.content.event_frames import DONE, EventData, is_event_stream, split_frames

# Keys below which the wire formats put structure. Below any other key everything is content, tool arguments and schemas included.
STRUCTURE_KEYS = frozenset(
    {
        *(
            "messages",
            "message",
            "choices",
            "delta",
            "content",
            "parts",
            "candidates",
            "item",
            "part",
            "content_block",
            "response",
            "error",
        ),
        *("tools", "tool_calls", "tool_choice", "function", "response_format", "reasoning", "stream_options"),
        *("usage", "prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details", "usageMetadata"),
    }
)
STRUCTURE_LIST_KEYS = frozenset(
    {"input", "output"}
)  # of the Responses API; as an object, `input` holds the arguments of an Anthropic tool call
VERBATIM_KEYS = frozenset(
    {
        *("role", "type", "object", "model", "id", "code", "finish_reason", "finishReason", "stop_reason"),
        *("tool_call_id", "tool_use_id", "call_id", "item_id"),
    }
)
TOOL_NAME_PARENTS = frozenset({"function", "tools", "tool_choice"})  # elsewhere `name` may be a person's
TOOL_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "function_call"})

_LARGE_BYTES = 256 * 1024
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:/@-]{1,100}")
_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$-]{0,63}")


def redact(data: bytes) -> bytes:
    """A body, JSON or server-sent events, with a marker and a length in place of each string.

    It keeps only identifiers of the wire format (the values of VERBATIM_KEYS below STRUCTURE_KEYS), numbers, true, false and null.
    A body that is neither JSON nor events of JSON is withheld completely.
    """
    if not data:
        return data
    return b"".join(_redact_frames(data)) if is_event_stream(data) else _redact_json(data)


def _redact_json(data: bytes) -> bytes:
    try:
        if len(data) > _LARGE_BYTES and data.lstrip()[:1] == b"{":
            return _redact_large_object(data)
        return msgspec.json.encode(_redact_structure(msgspec.json.decode(data), ""))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b"[withheld: %d bytes]" % len(data)


def _redact_large_object(data: bytes) -> bytes:
    """Redacts an object as any other, but member by member and item by item.

    During one call into C, however long it takes, no other thread runs.
    """
    members = _decode_object(data)
    siblings = {"type": msgspec.json.decode(members["type"])} if "type" in members else {}
    redacted: dict[str, bytes] = {}
    for key, raw in members.items():
        text = bytes(raw)
        if (key in STRUCTURE_KEYS or key in STRUCTURE_LIST_KEYS) and text[:1] == b"[":
            items = [msgspec.json.encode(_redact_item(msgspec.json.decode(item), key)) for item in _decode_list(text)]
            redacted[key] = b"[" + b",".join(items) + b"]"
        else:
            redacted_key, value = _redact_field(key, msgspec.json.decode(text), "", siblings)
            redacted[redacted_key] = msgspec.json.encode(value)
    return b"{" + b",".join([msgspec.json.encode(key) + b":" + value for key, value in redacted.items()]) + b"}"


def _redact_frames(data: bytes) -> Iterator[bytes]:
    for each in split_frames(data):
        if not isinstance(each, EventData):
            yield each
        elif each.data == DONE:
            yield b"data: " + each.data + b"\n"
        else:
            yield b"data: " + _redact_json(each.data) + b"\n"


def _redact_structure(value: Any, parent_key: str) -> Any:
    """Redacts a value that has the key `parent_key`. Elements of a list have their list's key."""
    match value:
        case dict():
            return dict(
                _redact_field(key, each, parent_key, cast("dict[str, Any]", value)) for key, each in cast("dict[str, Any]", value).items()
            )
        case list():
            return [_redact_item(each, parent_key) for each in cast("list[Any]", value)]
        case _:
            return _redaction_marker(value)


def _redact_item(value: Any, list_key: str) -> Any:
    return _redact_structure(value, list_key) if isinstance(value, dict | list) else _redaction_marker(value)


def _redact_field(key: str, value: Any, parent_key: str, siblings: dict[str, Any]) -> tuple[str, Any]:
    if key in VERBATIM_KEYS or (key == "name" and (parent_key in TOOL_NAME_PARENTS or siblings.get("type") in TOOL_CALL_TYPES)):
        return key, value if isinstance(value, str) and _IDENTIFIER.fullmatch(value) else _redact_unless_plain(value)
    if key in STRUCTURE_KEYS or (key in STRUCTURE_LIST_KEYS and isinstance(value, list)):
        return key, _redact_structure(value, key)
    return key if _KEY.fullmatch(key) else f"[redacted: {len(key)} characters]", _redact_unless_plain(value)


def _redact_unless_plain(value: Any) -> Any:
    """Numbers, true, false and null of a field are parameters, not text: they are kept."""
    return value if value is None or isinstance(value, bool | int | float) else _redaction_marker(value)


def _redaction_marker(value: Any) -> str:
    match value:
        case str():
            return f"[redacted: {len(value)} characters]"
        case dict():
            return f"[redacted: {len(cast('dict[str, Any]', value))} fields]"
        case list():
            return f"[redacted: {len(cast('list[Any]', value))} items]"
        case _:
            return "[redacted]"
