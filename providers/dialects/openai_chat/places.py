"""The caller's own path for a place in the meaning's messages: results of tools are one message there, and calls are parts like others."""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import Content, Reasoning, Refusal, Text, ToolCall
from providers.dialects.openai_chat.messages_read import read_content, read_messages
from providers.wire import NULL

_PLACE = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\](?:\.content\[(\d+)\])?)?(.*)", re.DOTALL)

_messages = msgspec.json.Decoder(list[dict[str, Raw]])
_list = msgspec.json.Decoder(list[Raw])


def place(messages: Any, path: str) -> str:
    """`messages`: as an opened ask has them. See providers.dialect.ChatDialect."""
    found = _PLACE.fullmatch(path)
    if found is None:
        return path
    at, part, inner, rest = found.groups()
    read = _messages.decode(messages if isinstance(messages, Raw) else msgspec.json.encode(messages))
    told = [{key: value for key, value in message.items() if value != NULL} for message in read]
    groups = _groups(told)
    if int(at) >= len(groups):
        return path
    group = groups[int(at)]
    if part is None:
        return f"messages[{group[0]}]{rest}"
    number = int(part)
    if _is_result(told[group[0]]):
        if number >= len(group):
            return path
        here = f"messages[{group[number]}]"
        return here + rest if inner is None else here + _of_content(told[group[number]], inner, rest)
    (only,) = group
    message = told[only]
    said = _of_assistant(message, number, rest) if _role(message) == "assistant" else _of_content(message, part, rest)
    return path if said is None else f"messages[{only}]{said}"


def _groups(told: list[dict[str, Raw]]) -> list[list[int]]:
    """The caller's messages, by their numbers, that are one in the meaning."""
    groups: list[list[int]] = []
    for at, message in enumerate(told):
        if at and _is_result(message) and _is_result(told[at - 1]):
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def _is_result(message: dict[str, Raw]) -> bool:
    return _role(message) in ("tool", "function")


def _role(message: dict[str, Raw]) -> str:
    return msgspec.json.decode(message["role"])


def _of_content(message: dict[str, Raw], number: str | int, rest: str) -> str:
    """A content that is a string has no parts; the detail of an image stands with its address."""
    if not bytes(message["content"]).startswith(b"["):
        return ".content"
    if rest == ".detail" and "image_url" in _messages.decode(message["content"])[int(number)]:
        rest = ".image_url.detail"
    return f".content[{number}]{rest}"


def _of_assistant(message: dict[str, Raw], number: int, rest: str) -> str | None:
    """Of parts of a kind, those in the content come first."""
    parts = read_messages([message])[0].parts
    if number >= len(parts):
        return None
    part = parts[number]
    before = sum(_kind(each) is _kind(part) for each in parts[:number])
    content = read_content(message.get("content"), "")
    places = [at for at, each in enumerate(content) if _kind(each) is _kind(part)]
    match part:
        case Text():
            if rest == ".citations":
                return ".annotations"
            # Reasoning that was told to stand amid the text has cut it.
            whole = len(places) == sum(isinstance(each, Text) for each in parts)
            return _of_content(message, places[before], rest) if whole else ".content"
        case ToolCall():
            made = _list.decode(message["tool_calls"]) if "tool_calls" in message else []
            return f".tool_calls[{before}]{rest}" if before < len(made) else ".function_call"
        case _ if before < len(places):
            return _of_content(message, places[before], rest)
        case Refusal():
            return ".refusal"
        case Reasoning():
            return f".{_reasoning_key(message, part)}"
        case _:
            return ".reasoning_details"


def _kind(part: Content) -> type:
    """What stays as it came is of one kind: it all stands in the content, or in what is told beside."""
    return type(part) if isinstance(part, Text | Refusal | Reasoning | ToolCall) else object


def _reasoning_key(message: dict[str, Raw], part: Reasoning) -> str:
    """The field that says just this."""
    said = (key for key in ("reasoning_content", "reasoning") if key in message and msgspec.json.decode(message[key]) == part.text)
    return next(said, "reasoning_details")
