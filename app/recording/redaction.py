"""Redaction: keeps the structure and the numbers of a body, and removes its text."""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

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

_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:/@-]{1,100}")
_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_.$-]{0,63}")
_EVENT_STREAM = re.compile(rb"\s*(?:data|event|id|retry)?:")
_LINE_END = re.compile(rb"\r\n|\n|\r")


def redact(data: bytes) -> bytes:
    """A body, JSON or server-sent events, with a marker and a length in place of each string.

    It keeps only identifiers of the wire format (the values of VERBATIM_KEYS below STRUCTURE_KEYS), numbers, true, false and null.
    A body that is neither JSON nor events of JSON is withheld completely.
    """
    if not data:
        return data
    return b"".join(_redact_frames(data)) if _EVENT_STREAM.match(data) else _redact_json(data)


def complete_frames_bytes(data: bytes | bytearray) -> int:
    """The length of the complete frames at a stream's beginning: up to its last blank line. 0 if it is not a stream, or has none."""
    if not _EVENT_STREAM.match(data):
        return 0
    # \r\r is a blank line too, but no engine writes it, and \r\n\r\n does not end in one of the others.
    ends = (data.rfind(b"\n\n") + 2, data.rfind(b"\r\n\r\n") + 4)
    return max(end for end in (0, *ends) if end not in (1, 3))


def _redact_json(data: bytes) -> bytes:
    try:
        return msgspec.json.encode(_redact_structure(msgspec.json.decode(data), ""))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return b"[withheld: %d bytes]" % len(data)


def _redact_frames(data: bytes) -> Iterator[bytes]:
    data_lines: list[bytes] = []
    lines = _LINE_END.split(data)
    if not lines[-1]:
        lines.pop()  # what follows the last line ending is not a line
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if line and field == b"data":
            data_lines.append(value)
            continue
        if data_lines:
            yield b"data: " + _redact_event_data(b"\n".join(data_lines)) + b"\n"
            data_lines.clear()
        if not line:
            yield b"\n"
        elif field in (b"event", b"retry") and _IDENTIFIER.fullmatch(value.decode("latin-1")):
            yield field + b": " + value + b"\n"
        else:
            yield b": [withheld: %d bytes]\n" % len(line)
    if data_lines:
        yield b"data: " + _redact_event_data(b"\n".join(data_lines)) + b"\n"


def _redact_event_data(data: bytes) -> bytes:
    return data if data == b"[DONE]" else _redact_json(data)


def _redact_structure(value: Any, parent_key: str) -> Any:
    """`parent_key`: the key of the value; elements of a list have their list's key."""
    match value:
        case dict():
            return dict(
                _redact_field(key, each, parent_key, cast("dict[str, Any]", value)) for key, each in cast("dict[str, Any]", value).items()
            )
        case list():
            return [
                _redact_structure(each, parent_key) if isinstance(each, dict | list) else _redaction_marker(each)
                for each in cast("list[Any]", value)
            ]
        case _:
            return _redaction_marker(value)


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
