"""Parts that a host does not take, of callers who speak another API than it is asked in: each is refused where its caller has it."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from providers.chat import Audio, ChatRequest, Content, File, Image, ToolResult
from providers.dialect import Concessions

# What chat calls them.
_TYPES: Mapping[type[Content], str] = {File: "file", Audio: "input_audio", Image: "image_url"}

P = TypeVar("P", bound=Content)


def without_parts(chat: ChatRequest, refused: Mapping[str, str], concessions: Concessions) -> ChatRequest:
    """`refused`: types of parts, by their names in OpenAI's chat, each with why. Raises Unsupported."""
    if refused.keys().isdisjoint(_TYPES.values()):
        return chat
    messages = tuple(
        replace(message, parts=_kept(message.parts, f"messages[{at}]", refused, concessions)) for at, message in enumerate(chat.messages)
    )
    return chat if messages == chat.messages else replace(chat, messages=messages)


def _kept(parts: Sequence[P], within: str, refused: Mapping[str, str], concessions: Concessions) -> tuple[P, ...]:
    kept: list[P] = []
    for at, part in enumerate(parts):
        place = f"{within}.content[{at}]"
        why = refused.get(_TYPES.get(type(part), ""))
        if why is not None:
            concessions.without(place, why)
        elif isinstance(part, ToolResult):
            kept.append(replace(part, parts=_kept(part.parts, place, refused, concessions)))
        else:
            kept.append(part)
    return tuple(kept)
