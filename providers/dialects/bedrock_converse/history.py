"""The conversation as Converse takes it: system apart, then turns of user and assistant, the user first.

Sources: /reference/providers.md part 2; pydantic-ai's models/bedrock.py (what each family refuses beside results); read 2026-11.
"""

from typing import Any

from msgspec import Struct

from providers.canonical.chat import ChatRequest, Message, Text, ToolResult
from providers.dialect import DropPolicy
from providers.dialects.bedrock_converse.cache_points import Blocks, cache_point
from providers.dialects.bedrock_converse.write_content import ContentWriter
from providers.profiles.bedrock_families import Family

# It refuses texts that are blank.
_PLACEHOLDER = "."
_SEE_DOCUMENT = "See the attached document."


class History(Struct, frozen=True):
    """`called`: the names of tools that there are calls of."""

    system: Blocks
    turns: list[dict[str, Any]]
    called_tools: list[str]


def write_history(chat: ChatRequest, family: Family, drop_policy: DropPolicy) -> History:
    """What instructs later than at the beginning goes to the beginning too: there is no other place for it that all models know."""
    writer = ContentWriter(family, drop_policy)
    messages = list(chat.messages)
    if chat.prompt is not None:
        drop_policy.drop_or_refuse("prompt", "it answers messages, and goes on with no text.")
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
        # It answers messages alone: the last of the instructions is what there is to answer.
        turns.append(
            {"role": "user", "content": [{"text": next(candidate["text"] for candidate in reversed(system) if "text" in candidate)}]}
        )
        system = system[: max(at for at, block in enumerate(system) if "text" in block)]
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"text": _PLACEHOLDER}]})
    return History(system, [separated for turn in turns for separated in _separate_results(turn, family)], writer.called_tools)


def _check_message(message: Message, path: str, drop_policy: DropPolicy) -> None:
    if message.name is not None:
        drop_policy.drop_or_refuse(f"{path}.name", "its messages name no participants.")
    for key, value in message.extra.items():
        if message.role == "assistant":
            drop_policy.drop_hint(f"{path}.{key}")
        else:
            drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")


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
    """The results of tools come first."""
    written = [
        (part, writer.write_part(part, f"{path}.content[{index}]", from_assistant=message.role == "assistant"))
        for index, part in enumerate(message.parts)
    ]
    written.sort(key=lambda pair: not isinstance(pair[0], ToolResult))
    return [block for _, blocks in written for block in blocks]


def _separate_results(turn: dict[str, Any], family: Family) -> list[dict[str, Any]]:
    """What a family refuses beside results stands in a turn of its own, after one in which next to nothing is said."""
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
