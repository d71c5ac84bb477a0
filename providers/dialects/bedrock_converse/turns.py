"""The conversation as Converse takes it: system apart, then turns of user and assistant, the user first.

Sources: /reference/providers.md part 2; pydantic-ai's models/bedrock.py (what each family refuses beside results); read 2026-11.
"""

from typing import Any

from msgspec import Struct

from providers.chat import ChatRequest, Message, Text, ToolResult
from providers.dialect import Concessions
from providers.dialects.bedrock_converse.caching import Blocks, cache_point
from providers.dialects.bedrock_converse.families import Family
from providers.dialects.bedrock_converse.parts import Parts

# It refuses texts that are blank.
_NOTHING = "."
_SEE = "See the attached document."


class Said(Struct, frozen=True):
    """`called`: the names of tools that there are calls of."""

    system: Blocks
    turns: list[dict[str, Any]]
    called: list[str]


def write_turns(chat: ChatRequest, family: Family, concessions: Concessions) -> Said:
    """What instructs later than at the beginning goes to the beginning too: there is no other place for it that all models know."""
    parts = Parts(family, concessions)
    messages = list(chat.messages)
    if chat.prompt is not None:
        concessions.without("prompt", "it answers messages, and goes on with no text.")
        messages.append(Message("user", (Text(chat.prompt),)))
    system: Blocks = []
    turns: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        path = f"messages[{at}]"
        _message(message, path, concessions)
        if message.role in ("system", "developer"):
            system += _instructions(message, path, family, concessions)
            continue
        blocks = _blocks(message, path, parts)
        if turns and turns[-1]["role"] == message.role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": message.role, "content": blocks})
    if not turns and system:
        # It answers messages alone: the last of the instructions is what there is to answer.
        turns.append({"role": "user", "content": [{"text": next(b["text"] for b in reversed(system) if "text" in b)}]})
        system = system[: max(at for at, block in enumerate(system) if "text" in block)]
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"text": _NOTHING}]})
    return Said(system, [apart for turn in turns for apart in _apart(turn, family)], parts.called)


def _message(message: Message, path: str, concessions: Concessions) -> None:
    if message.name is not None:
        concessions.without(f"{path}.name", "its messages name no participants.")
    for key, value in message.extra.items():
        if message.role == "assistant":
            concessions.hint(f"{path}.{key}")
        else:
            concessions.extra(f"{path}.{key}", value, "it is a field of another API.")


def _instructions(message: Message, path: str, family: Family, concessions: Concessions) -> Blocks:
    blocks: Blocks = []
    for at, part in enumerate(message.parts):
        where = f"{path}.content[{at}]"
        if not isinstance(part, Text):
            concessions.without(where, "its instructions are text alone.")
        elif part.text.strip():
            blocks += [{"text": part.text}, *cache_point(part.extra, "system", where, family, concessions)]
    return blocks


def _blocks(message: Message, path: str, parts: Parts) -> Blocks:
    """The results of tools come first."""
    written = [
        (part, parts.write(part, f"{path}.content[{at}]", given_back=message.role == "assistant")) for at, part in enumerate(message.parts)
    ]
    written.sort(key=lambda told: not isinstance(told[0], ToolResult))
    return [block for _, blocks in written for block in blocks]


def _apart(turn: dict[str, Any], family: Family) -> list[dict[str, Any]]:
    """What a family refuses beside results stands in a turn of its own, after one in which next to nothing is said."""
    blocks: Blocks = turn["content"]
    if turn["role"] == "assistant":
        return [turn]
    results = [block for block in blocks if "toolResult" in block]
    rest = [block for block in blocks if "toolResult" not in block]
    if any("document" in block for block in rest) and not any("text" in block for block in rest):
        rest.insert(0, {"text": _SEE})
    refused = family.apart is None or any(not family.apart.isdisjoint(block) for block in rest)
    if not results or not rest or not refused:
        return [{"role": "user", "content": [*results, *rest]}]
    between = {"role": "assistant", "content": [{"text": _NOTHING}]}
    return [{"role": "user", "content": results}, between, {"role": "user", "content": rest}]
