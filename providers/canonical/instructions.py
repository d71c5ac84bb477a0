"""Instructions: what a target has no field for, said to the model in the prompt; and where a caller's own may stand in a conversation."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from providers.canonical.chat import Content, Message, Text, ToolResult
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag

# The word "json" is what some hosts' JSON modes require in the messages: https://api-docs.deepseek.com/guides/json_mode, read 2026-11.
_JSON_ONLY = "Answer with {what} and nothing else (json): no explanation, no Markdown."


def describe_output(output: OutputFormat) -> str | None:
    """The instruction to answer in this format. None for a grammar or a tag: a model cannot be expected to follow those from the prompt."""
    match output:
        case JsonObject():
            return _JSON_ONLY.format(what="one JSON object")
        case JsonSchema():
            return f"{_JSON_ONLY.format(what='JSON')} It must be valid against this JSON schema:\n{bytes(output.schema).decode()}"
        case Regex():
            return f"Answer with a text that matches this regular expression as a whole, and with nothing else:\n{output.pattern}"
        case Choice():
            return "\n".join(["Answer with one of these texts, exactly as it is written, and with nothing else:", *output.options])
        case Grammar() | StructuralTag():
            return None


def add_instruction(messages: tuple[Message, ...], instruction: str) -> tuple[Message, ...]:
    """The messages with an instruction after those that the caller gives first."""
    if not messages or messages[0].role not in ("system", "developer"):
        return (Message("system", (Text(instruction),)), *messages)
    first = messages[0]
    return (replace(first, parts=(*first.parts, Text(f"\n\n{instruction}"))), *messages[1:])


class PlacedMessages(Struct, frozen=True):
    """Messages whose instructions stand where a target takes them."""

    messages: tuple[Message, ...]
    indexes: tuple[int, ...]  # for each message, its index among the caller's
    marked: tuple[int, ...]  # indexes of the caller's instructions that are texts of the user's now


# Ends a turn of results: a model that reads on would take the instruction behind it for a part of the last one.
_END_OF_RESULTS = Text("The results of the tools end here. The next message is the application's.")


def place_instructions(
    messages: Sequence[Message], *, later: Literal["after_users", "as_user"], ends_results: bool = False
) -> PlacedMessages | None:
    """The messages with the instructions after the first turn in their place; None: there are none. Those at the beginning stay.

    With `later` "after_users" they become one system message behind the user's turn that it stands in, as Claude takes them, and the user's
    text where there is no such turn; with "as_user" the user's text, marked. Either way results of tools stay right behind their calls.
    With `ends_results` a system message is not to follow directly on a result.
    """
    first_turn = next((index for index, message in enumerate(messages) if not is_instruction(message)), len(messages))
    if not any(map(is_instruction, messages[first_turn:])):
        return None
    placed = list(enumerate(messages[:first_turn]))
    marked: list[int] = []
    turn: list[tuple[int, Message]] = []
    for index, message in [*enumerate(messages[first_turn:], first_turn), (-1, None)]:
        if message is not None and message.role != "assistant":
            turn.append((index, message))
            continue
        placed += _place_in_turn(turn, marked, keeps_role=later == "after_users", ends_results=ends_results)
        turn = []
        if message is not None:
            placed.append((index, message))
    return PlacedMessages(tuple(message for _, message in placed), tuple(index for index, _ in placed), tuple(marked))


def is_instruction(message: Message) -> bool:
    return message.role in ("system", "developer")


def mark_instruction(message: Message) -> Message:
    """An instruction as the user's message, whose texts say what they are; without the fields that only instructions have.

    The tags are those that Claude and others know from prompts.
    """
    parts = tuple(replace(part, text=f"<system>\n{part.text}\n</system>") if isinstance(part, Text) else part for part in message.parts)
    return replace(message, role="user", parts=parts, extra={})


def _place_in_turn(
    turn: list[tuple[int, Message]], marked: list[int], *, keeps_role: bool, ends_results: bool
) -> list[tuple[int, Message]]:
    """One turn of the user's, in which instructions may stand."""
    instructions = [(index, message) for index, message in turn if is_instruction(message)]
    users = [(index, message) for index, message in turn if not is_instruction(message)]
    if not instructions:
        return turn
    if not keeps_role or not any(message.parts for _, message in users):
        marked += [index for index, _ in instructions]
        as_users = [(index, mark_instruction(message) if is_instruction(message) else message) for index, message in turn]
        return sorted(as_users, key=lambda each: not _holds_results(each[1]))
    last_index, last = users[-1]
    if ends_results and all(isinstance(part, ToolResult) for part in last.parts):
        users[-1] = last_index, replace(last, parts=(*last.parts, _END_OF_RESULTS))
    first_index, first = instructions[0]
    parts: list[Content] = [part for _, message in instructions for part in message.parts]
    extra = {key: value for _, message in instructions for key, value in message.extra.items()}
    return [*users, (first_index, replace(first, role="system", parts=tuple(parts), extra=extra))]


def _holds_results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)
