"""Paths of the canonical chat, such as `messages[i].content[j]`, as paths in the caller's body."""

import re

import msgspec

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialects.gemini.read_contents import read_contents, read_instructions

_MESSAGE = re.compile(r"messages\[(\d+)\](.*)")
_PART = re.compile(r"\.content\[(\d+)\](.*)")
_TOOL = re.compile(r"tools\[(\d+)\](.*)")

_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_list = msgspec.json.Decoder(list[msgspec.Raw])


def caller_path(body: Body, path: str) -> str:
    """The canonical first message is `systemInstruction`, if the body has one; the tools are those of all entries together."""
    try:
        if (matched := _TOOL.fullmatch(path)) is not None:
            return _tool_path(body, int(matched[1]), matched[2]) or path
        if (matched := _MESSAGE.fullmatch(path)) is not None:
            return _message_path(body, int(matched[1]), matched[2])
    except (IndexError, KeyError, *DECODE_ERRORS):
        pass
    return path


def _message_path(body: Body, index: int, rest: str) -> str:
    instructions = body.get("systemInstruction", NULL)
    if body.has_value("systemInstruction") and read_instructions(as_raw(instructions)):
        if index == 0:
            part = _PART.fullmatch(rest)
            return "systemInstruction" + (f".parts[{part[1]}]{part[2]}" if part is not None else rest)
        index -= 1
    places = read_contents(as_raw(body["contents"]))[index].places
    matched = _PART.fullmatch(rest)
    if matched is None:
        return f"contents[{places[0][0]}]{rest}"
    content, part = places[int(matched[1])]
    inner = _PART.fullmatch(matched[2])
    result = "" if inner is None else ".functionResponse"
    return f"contents[{content}].parts[{part}]{result}{matched[2] if inner is None else inner[2]}"


def _tool_path(body: Body, index: int, rest: str) -> str | None:
    """The path of a tool; None: there is no such tool."""
    for entry_index, entry in enumerate(_objects.decode(as_raw(body["tools"]))):
        for key, value in entry.items():
            if value == NULL:
                continue
            count = len(_list.decode(value)) if key == "functionDeclarations" else 1
            if index < count:
                path = f"tools[{entry_index}].{key}"
                return f"{path}[{index}]{rest}" if key == "functionDeclarations" else path
            index -= count
    return None
