"""Names of tools that a host does not take: each gets another one, always the same, and calls get the caller's back."""

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Message, Tool, ToolCall

_HASH_CHARS = 10


class ToolNames(Struct, frozen=True):
    """The names that a host takes."""

    characters: str = "[a-zA-Z0-9_-]"  # a class of a regex, which has letters, digits and `_`
    max_chars: int = 64

    def is_valid(self, name: str) -> bool:
        return _pattern(self).fullmatch(name) is not None

    def may_be_violated(self, raw: bytes) -> bool:
        """Whether a body has a `name` that is none of these: that of a tool, or of something else. It is not decoded."""
        return _invalid_name(self).search(raw) is not None


def rename_tools(chat: ChatRequest, tool_names: ToolNames) -> tuple[ChatRequest, Mapping[str, str]] | None:
    """The chat with names that the host takes, and the caller's names by them. None: it takes those of the chat.

    Also of calls in the history, whose tool may be gone.
    """
    names = dict.fromkeys(_names(chat))
    if all(map(tool_names.is_valid, names)):
        return None
    taken = {name for name in names if tool_names.is_valid(name)}
    sent: dict[str, str] = {}
    for name in names:
        if not tool_names.is_valid(name):
            sent[name] = _mint(name, tool_names, taken)
            taken.add(sent[name])
    tools = tuple(replace(tool, name=sent.get(tool.name, tool.name)) if isinstance(tool, Tool) else tool for tool in chat.tools)
    choice = chat.tool_choice
    if choice is not None:
        allowed = None if choice.allowed is None else tuple(sent.get(name, name) for name in choice.allowed)
        choice = replace(choice, name=None if choice.name is None else sent.get(choice.name, choice.name), allowed=allowed)
    messages = tuple(_rename_calls(message, sent) for message in chat.messages)
    return replace(chat, tools=tools, tool_choice=choice, messages=messages), {new: name for name, new in sent.items()}


def _names(chat: ChatRequest) -> Iterator[str]:
    for tool in chat.tools:
        if isinstance(tool, Tool):
            yield tool.name
    for message in chat.messages:
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield part.name


def _rename_calls(message: Message, sent: Mapping[str, str]) -> Message:
    if not any(isinstance(part, ToolCall) and part.name in sent for part in message.parts):
        return message
    parts = tuple(replace(part, name=sent.get(part.name, part.name)) if isinstance(part, ToolCall) else part for part in message.parts)
    return replace(message, parts=parts)


def _mint(name: str, tool_names: ToolNames, taken: set[str]) -> str:
    """The beginning of the name, by which a model knows what the tool does, and a hash of the whole."""
    beginning = re.sub(rf"(?!{tool_names.characters}).", "_", name, flags=re.DOTALL)[: tool_names.max_chars - _HASH_CHARS - 1]
    counter = 0
    while (minted := f"{beginning}_{hashlib.sha256(f'{counter}.{name}'.encode()).hexdigest()[:_HASH_CHARS]}") in taken:
        counter += 1
    return minted


@functools.lru_cache
def _pattern(tool_names: ToolNames) -> re.Pattern[str]:
    return re.compile(f"{tool_names.characters}{{1,{tool_names.max_chars}}}")


@functools.lru_cache
def _invalid_name(tool_names: ToolNames) -> re.Pattern[bytes]:
    return re.compile(rf'"name"\s*:\s*"(?!{_pattern(tool_names).pattern}")'.encode())
