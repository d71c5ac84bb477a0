"""The conversation for Converse: the system prompt apart, then turns of user and assistant, the user first.

Sources: docs/sources.md#bedrock; pydantic-ai's models/bedrock.py (what each family refuses beside results); read 2026-11.
"""

from typing import Any

from msgspec import Struct

from providers.canonical.chat import ChatRequest, Message, Text, ToolResult
from providers.dialects.bedrock_converse.cache_points import Blocks, cache_point
from providers.dialects.bedrock_converse.write_content import ContentWriter
from providers.drop_policy import DropPolicy
from providers.participant_names import write_participant_names
from providers.profiles.bedrock.families import Family
from providers.unsupported import drop_part_fields

# Blank texts are refused.
_PLACEHOLDER = "."
_SEE_DOCUMENT = "See the attached document."


class History(Struct, frozen=True):
    """The messages of a chat as Bedrock takes them."""

    system: Blocks
    turns: list[dict[str, Any]]
    called_tools: list[str]  # the names of tools that the conversation has calls of


def write_history(chat: ChatRequest, family: Family, drop_policy: DropPolicy) -> History:
    """Later instructions move to the beginning too, the only place that all models accept."""
    writer = ContentWriter(family, drop_policy)
    messages = list(write_participant_names(chat.messages, drop_policy))
    if chat.prompt is not None:
        drop_policy.drop_or_refuse("prompt", "it answers messages and cannot continue a raw prompt.")
        messages.append(Message("user", (Text(chat.prompt),)))
    system: Blocks = []
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        path = f"messages[{index}]"
        _check_message(message, path, drop_policy)
        if message.role in ("system", "developer"):
            system += _instructions(message, path, family, drop_policy)
            continue
        blocks = _write_blocks(message, path, writer)
        if turns and turns[-1]["role"] == message.role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": message.role, "content": blocks})
    if not turns and system:
        # There must be a message: the last instruction becomes the user's.
        last_text = max(index for index, block in enumerate(system) if "text" in block)
        turns.append({"role": "user", "content": [{"text": system[last_text]["text"]}]})
        system = system[:last_text]
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"text": _PLACEHOLDER}]})
    return History(system, [separated for turn in turns for separated in _separate_results(turn, family)], writer.called_tools)


def _check_message(message: Message, path: str, drop_policy: DropPolicy) -> None:
    drop_part_fields(message.extra, path, drop_policy, from_assistant=message.role == "assistant")


def _instructions(message: Message, path: str, family: Family, drop_policy: DropPolicy) -> Blocks:
    blocks: Blocks = []
    for index, part in enumerate(message.parts):
        part_path = f"{path}.content[{index}]"
        if not isinstance(part, Text):
            drop_policy.drop_or_refuse(part_path, "its instructions are text alone.")
        elif part.text.strip():
            blocks += [{"text": part.text}, *cache_point(part.extra, "system", part_path, family, drop_policy)]
    return blocks


def _write_blocks(message: Message, path: str, writer: ContentWriter) -> Blocks:
    """The blocks of a message, results of tools first."""
    written = [
        (part, writer.write_part(part, f"{path}.content[{index}]", from_assistant=message.role == "assistant"))
        for index, part in enumerate(message.parts)
    ]
    written.sort(key=lambda pair: not isinstance(pair[0], ToolResult))
    return [block for _, blocks in written for block in blocks]


def _separate_results(turn: dict[str, Any], family: Family) -> list[dict[str, Any]]:
    """Moves the blocks that a family refuses beside results to a turn of their own, after a placeholder of the assistant."""
    blocks: Blocks = turn["content"]
    if turn["role"] == "assistant":
        return [turn]
    results = [block for block in blocks if "toolResult" in block]
    others = [block for block in blocks if "toolResult" not in block]
    if any("document" in block for block in others) and not any("text" in block for block in others):
        others.insert(0, {"text": _SEE_DOCUMENT})
    must_separate = family.separated_from_results is None or any(not family.separated_from_results.isdisjoint(block) for block in others)
    if not results or not others or not must_separate:
        return [{"role": "user", "content": [*results, *others]}]
    separator = {"role": "assistant", "content": [{"text": _PLACEHOLDER}]}
    return [{"role": "user", "content": results}, separator, {"role": "user", "content": others}]
