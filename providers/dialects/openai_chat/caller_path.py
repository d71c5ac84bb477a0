"""The path in a chat request that a path in the canonical messages comes from.

They differ: in the canonical model neighbouring tool results are one message, and tool calls are parts like any other.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Content, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import NULL
from providers.dialects.openai_chat.read_messages import read_content, read_messages

_CANONICAL_PATH = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\](?:\.content\[(\d+)\])?)?(.*)", re.DOTALL)

_objects_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_list_decoder = msgspec.json.Decoder(list[Raw])


def caller_path(messages: Any, path: str) -> str:
    """The caller's path for a canonical path. `messages` is that field of a parsed request. See providers.dialect.ChatDialect."""
    matched = _CANONICAL_PATH.fullmatch(path)
    if matched is None:
        return path
    message_index, part_index, inner_index, suffix = matched.groups()
    decoded = _objects_decoder.decode(messages if isinstance(messages, Raw) else msgspec.json.encode(messages))
    fields = [{key: value for key, value in message.items() if value != NULL} for message in decoded]
    groups = _groups(fields)
    if int(message_index) >= len(groups):
        return path
    group = groups[int(message_index)]
    if part_index is None:
        return f"messages[{group[0]}]{suffix}"
    part_number = int(part_index)
    if _is_result(fields[group[0]]):
        if part_number >= len(group):
            return path
        message_path = f"messages[{group[part_number]}]"
        return (
            message_path + suffix if inner_index is None else message_path + _content_path(fields[group[part_number]], inner_index, suffix)
        )
    (only,) = group
    message = fields[only]
    inner_path = (
        _assistant_path(message, part_number, suffix) if _role(message) == "assistant" else _content_path(message, part_index, suffix)
    )
    return path if inner_path is None else f"messages[{only}]{inner_path}"


def _groups(messages: list[dict[str, Raw]]) -> list[list[int]]:
    """The indexes of the caller's messages, grouped by canonical message."""
    groups: list[list[int]] = []
    for position, message in enumerate(messages):
        if position and _is_result(message) and _is_result(messages[position - 1]):
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


def _is_result(message: dict[str, Raw]) -> bool:
    return _role(message) in ("tool", "function")


def _role(message: dict[str, Raw]) -> str:
    return msgspec.json.decode(message["role"])


def _content_path(message: dict[str, Raw], part_index: str | int, suffix: str) -> str:
    """Content that is a string has no parts. The detail of an image is a field of `image_url`."""
    if not bytes(message["content"]).startswith(b"["):
        return ".content"
    if suffix == ".detail" and "image_url" in _objects_decoder.decode(message["content"])[int(part_index)]:
        suffix = ".image_url.detail"
    return f".content[{part_index}]{suffix}"


def _assistant_path(message: dict[str, Raw], part_index: int, suffix: str) -> str | None:
    """Returns the path of a part within an assistant message, or None if there is no such part.

    Among parts of one kind, those in the content come first.
    """
    parts = read_messages([message])[0].parts
    if part_index >= len(parts):
        return None
    part = parts[part_index]
    preceding_count = sum(_part_kind(each) is _part_kind(part) for each in parts[:part_index])
    content = read_content(message.get("content"), "")
    content_indexes = [at for at, each in enumerate(content) if _part_kind(each) is _part_kind(part)]
    match part:
        case Text():
            if suffix == ".citations":
                return ".annotations"
            # Reasoning that is placed inside the text splits it.
            is_uncut = len(content_indexes) == sum(isinstance(each, Text) for each in parts)
            return _content_path(message, content_indexes[preceding_count], suffix) if is_uncut else ".content"
        case ToolCall():
            calls = _list_decoder.decode(message["tool_calls"]) if "tool_calls" in message else []
            return f".tool_calls[{preceding_count}]{suffix}" if preceding_count < len(calls) else ".function_call"
        case _ if preceding_count < len(content_indexes):
            return _content_path(message, content_indexes[preceding_count], suffix)
        case Refusal():
            return ".refusal"
        case Reasoning():
            return f".{_reasoning_key(message, part)}"
        case _:
            return ".reasoning_details"


def _part_kind(part: Content) -> type:
    """The type of a part, by which parts are counted. All parts that stay unread count as one type."""
    return type(part) if isinstance(part, Text | Refusal | Reasoning | ToolCall) else object


def _reasoning_key(message: dict[str, Raw], part: Reasoning) -> str:
    """The field that holds exactly this reasoning."""
    matching_keys = (key for key in ("reasoning_content", "reasoning") if key in message and msgspec.json.decode(message[key]) == part.text)
    return next(matching_keys, "reasoning_details")
