"""The content of a response: its text and the tools it calls, whatever ids and numbers it has.

All functions here are pure.
"""

from typing import Any

import msgspec
from msgspec import Struct

from providers.canonical.chat import ChatResponse, Refusal, Text, ToolCall
from providers.canonical.errors import NarthexError
from providers.canonical.events import assemble_response
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS


class WrittenCall(Struct, frozen=True):
    """A call of a tool, for comparison."""

    name: str
    arguments: Any  # decoded, so that the order of fields and spaces make no difference; text that is no JSON as it is


class WrittenChoice(Struct, frozen=True):
    """The text of all parts together, as models differ in where they divide it."""

    text: str
    calls: tuple[WrittenCall, ...] = ()


def read_written(route: str, response: bytes, *, streamed: bool) -> tuple[WrittenChoice, ...] | None:
    """Returns the text and calls of each choice, or None if the response is no chat or is broken."""
    dialect = CALLER_CHAT_DIALECTS[route]
    try:
        if not streamed:
            return _choices(dialect.read_response(response))
        reader = dialect.stream_reader()
        return _choices(assemble_response([*reader.feed(response), *reader.finish()]))
    except (NarthexError, *DECODE_ERRORS):
        return None


def say_the_same(one: tuple[WrittenChoice, ...] | None, other: tuple[WrittenChoice, ...] | None) -> bool | None:
    """Returns whether two responses say the same, or None if that is not known.

    It is not known if one could not be read, or if arguments are nested more deeply than Python compares.
    """
    if one is None or other is None:
        return None
    try:
        return one == other
    except RecursionError:
        return None


def as_text(choices: tuple[WrittenChoice, ...]) -> str:
    """Returns the response as a judge gets it: one choice without calls as its text, anything else as JSON.

    Raises RecursionError if arguments are nested too deeply.
    """
    if len(choices) == 1 and not choices[0].calls:
        return choices[0].text
    return msgspec.json.encode(choices).decode()


def _choices(response: ChatResponse) -> tuple[WrittenChoice, ...]:
    return tuple(
        WrittenChoice(
            "".join(part.text for part in choice.parts if isinstance(part, Text | Refusal)),
            tuple(WrittenCall(part.name, _arguments(part.arguments)) for part in choice.parts if isinstance(part, ToolCall)),
        )
        for choice in response.choices
    )


def _arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return text
