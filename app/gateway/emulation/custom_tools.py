"""Tools that take free text, for a target whose tools are functions: each is a function of one argument, the text.

A grammar of the text stands in the function's description. Calls come back as those of the tool: of a stream,
the text is taken out of the arguments as they arrive.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Content, Tool, ToolCall, ToolResult
from providers.canonical.output_format import Grammar, OutputFormat, Regex
from providers.canonical.raw_json import DECODE_ERRORS

_ARGUMENT = "input"
_PARAMETERS = Raw(b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}')
_ABOUT = "Takes free text, in the argument `input`."
_OBEYS = "The text must match this {language} {noun}:\n{definition}"
_BEGINNING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
# The longest beginning of the arguments that may still become one with the text: models write little white space there.
_MAX_BEGINNING_CHARS = 200
_PLAIN = re.compile(r'[^"\\]+')
_SIMPLE_ESCAPE = re.compile(r'\\["\\/bfnrt]')
_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}")


class CustomTools(Struct, frozen=True):
    """The tools of a request that the target has as functions: the formats of their texts by name; None: any text."""

    formats: Mapping[str, OutputFormat | None]
    # Whether calls are held to the formats, so that a response is held back until it is complete.
    are_checked: bool = False


class _Format(Struct):
    type: str = ""
    syntax: str | None = None
    definition: str | None = None


_format_decoder = msgspec.json.Decoder(_Format)
_encode = msgspec.json.encode
_string_decoder = msgspec.json.Decoder(str)
_arguments_decoder = msgspec.json.Decoder(dict[str, Any])


def as_functions(chat: ChatRequest, *, checks: bool) -> tuple[ChatRequest, CustomTools] | None:
    """The chat with functions in place of tools for free text, and those tools. None: it has none."""
    formats = {tool.name: _read_format(tool.format) for tool in chat.tools if isinstance(tool, Tool) and tool.custom}
    if not formats:
        return None
    tools = tuple(_as_function(tool, formats[tool.name]) if isinstance(tool, Tool) and tool.custom else tool for tool in chat.tools)
    messages = tuple(replace(message, parts=tuple(map(_as_function_part, message.parts))) for message in chat.messages)
    are_checked = checks and any(each is not None for each in formats.values())
    return replace(chat, tools=tools, messages=messages), CustomTools(formats, are_checked)


def _as_function(tool: Tool, format: OutputFormat | None) -> Tool:
    about = [tool.description or "", _ABOUT]
    match format:
        case Grammar():
            about.append(_OBEYS.format(language="Lark", noun="grammar", definition=format.text))
        case Regex():
            about.append(_OBEYS.format(language="regular", noun="expression", definition=format.pattern))
        case _:
            pass
    description = "\n\n".join(filter(None, about))
    return replace(tool, description=description, parameters=_PARAMETERS, custom=False, format=None)


def _as_function_part(part: Content) -> Content:
    match part:
        case ToolCall(custom=True):
            return replace(part, arguments=_encode({_ARGUMENT: part.arguments}).decode(), custom=False)
        case ToolResult(custom=True):
            return replace(part, custom=False)
        case _:
            return part


def _read_format(raw: Raw | None) -> OutputFormat | None:
    """A grammar in the form of either API of OpenAI; None: any text, or what cannot be read, which hosts refuse."""
    if raw is None:
        return None
    try:
        fields = msgspec.json.decode(raw, type=dict[str, Raw])
        format = _format_decoder.decode(fields.get("grammar", raw))
    except DECODE_ERRORS:
        return None
    if format.definition is None or format.syntax not in ("lark", "regex"):
        return None
    return Regex(format.definition) if format.syntax == "regex" else Grammar(format.definition)


class InputReader:
    """Takes the text out of the arguments of one call: add() their pieces, and finish(). Gives the pieces of the text."""

    def __init__(self) -> None:
        self._pending = ""
        self._is_inside = False
        self._is_complete = False
        self._is_other = False  # the arguments are something else than an object with the text

    def add(self, piece: str) -> str:
        if self._is_complete:
            return ""
        self._pending += piece
        if self._is_other:
            return ""
        if not self._is_inside:
            begun = _BEGINNING.match(self._pending)
            if begun is None:
                self._is_other = len(self._pending) > _MAX_BEGINNING_CHARS
                return ""
            self._is_inside, self._pending = True, self._pending[begun.end() :]
        return self._take_text()

    def finish(self) -> str:
        """The rest of the text."""
        if self._is_inside:
            return ""  # an escape that was cut off is none of the text
        try:
            arguments = _arguments_decoder.decode(self._pending or "{}")
        except DECODE_ERRORS:
            return self._pending
        if not arguments:
            return ""
        value = arguments.get(_ARGUMENT, next(iter(arguments.values())) if len(arguments) == 1 else None)
        return value if isinstance(value, str) else self._pending

    def _take_text(self) -> str:
        text: list[str] = []
        at, pending = 0, self._pending
        while at < len(pending):
            if pending[at] == '"':
                self._is_complete, at = True, len(pending)
                break
            if (plain := _PLAIN.match(pending, at)) is not None:
                text.append(plain[0])
                at = plain.end()
                continue
            escape = _read_escape(pending, at)
            if escape is None:
                break
            text.append(escape[0])
            at = escape[1]
        self._pending = pending[at:]
        return "".join(text)


def _read_escape(pending: str, at: int) -> tuple[str, int] | None:
    """The character of an escape, and where it ends. None: it is not complete."""
    if (simple := _SIMPLE_ESCAPE.match(pending, at)) is not None:
        return _decode_string(simple[0]), simple.end()
    if (first := _UNICODE_ESCAPE.match(pending, at)) is not None:
        code = int(first[0][2:], 16)
        if not 0xD800 <= code <= 0xDBFF:
            return ("\ufffd" if 0xDC00 <= code <= 0xDFFF else chr(code)), first.end()
        second = _UNICODE_ESCAPE.match(pending, first.end())
        if second is not None:
            is_pair = 0xDC00 <= int(second[0][2:], 16) <= 0xDFFF
            return (_decode_string(first[0] + second[0]), second.end()) if is_pair else ("\ufffd", first.end())
        follows = pending[first.end() : first.end() + 2]
        return None if "\\u".startswith(follows) and len(pending) < first.end() + 6 else ("\ufffd", first.end())
    if len(pending) - at >= 2 and pending[at + 1] != "u":
        return pending[at + 1], at + 2  # no escape of JSON, which some models write
    return None if len(pending) - at < 6 else ("", at + 2)


def _decode_string(escaped: str) -> str:
    return _string_decoder.decode(f'"{escaped}"')
