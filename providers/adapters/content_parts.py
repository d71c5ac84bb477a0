"""Content parts that a target does not support, in chats: refused at the caller's own path."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from providers.canonical.chat import Audio, ChatRequest, Content, File, Image, ToolResult
from providers.drop_policy import DropPolicy

# The part types of OpenAI's chat.
_PART_TYPES: Mapping[type[Content], str] = {File: "file", Audio: "input_audio", Image: "image_url"}

PartT = TypeVar("PartT", bound=Content)


def drop_unsupported_parts(chat: ChatRequest, unsupported: Mapping[str, str], drop_policy: DropPolicy) -> ChatRequest:
    """Removes parts of messages that a target cannot read. Raises Unsupported, unless the caller allows dropping.

    `unsupported` has part types of OpenAI's chat, each with the reason.
    """
    if unsupported.keys().isdisjoint(_PART_TYPES.values()):
        return chat
    messages = tuple(
        replace(message, parts=_supported_parts(message.parts, f"messages[{index}]", unsupported, drop_policy))
        for index, message in enumerate(chat.messages)
    )
    return chat if messages == chat.messages else replace(chat, messages=messages)


def _supported_parts(parts: Sequence[PartT], path: str, unsupported: Mapping[str, str], drop_policy: DropPolicy) -> tuple[PartT, ...]:
    kept: list[PartT] = []
    for index, part in enumerate(parts):
        part_path = f"{path}.content[{index}]"
        why = unsupported.get(_PART_TYPES.get(type(part), ""))
        if why is not None:
            drop_policy.drop_or_refuse(part_path, why)
        elif isinstance(part, ToolResult):
            kept.append(replace(part, parts=_supported_parts(part.parts, part_path, unsupported, drop_policy)))
        else:
            kept.append(part)
    return tuple(kept)
