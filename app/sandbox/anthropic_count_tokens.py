"""Anthropic's count of tokens: as many as the equivalent chat has in its prompt."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from app.sandbox.prompt_tokens import check_context_length, count_chat_tokens, read_messages
from app.sandbox.protocol import request_schema as chat
from app.sandbox.protocol.request_schema import Control
from app.sandbox.text.tokens import MAX_COUNTED_TOKENS


class TextBlock(Struct, frozen=True, tag="text", tag_field="type"):
    text: str


class ImageBlock(Struct, frozen=True, tag="image", tag_field="type"):
    source: dict[str, Any]


class DocumentBlock(Struct, frozen=True, tag="document", tag_field="type"):
    source: dict[str, Any]


class ThinkingBlock(Struct, frozen=True, tag="thinking", tag_field="type"):
    thinking: str


class RedactedThinkingBlock(Struct, frozen=True, tag="redacted_thinking", tag_field="type"):
    """Costs nothing, because nobody can read it."""

    data: str


class ToolUseBlock(Struct, frozen=True, tag="tool_use", tag_field="type"):
    id: str
    name: str
    input: dict[str, Any]


class ToolResultBlock(Struct, frozen=True, tag="tool_result", tag_field="type"):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock] | None = None


Block = TextBlock | ImageBlock | DocumentBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock


Role = Literal["user", "assistant", "system"]


class Message(Struct, frozen=True):
    role: Role
    content: str | list[Block]


class Tool(Struct, frozen=True):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class CountTokensBody(Struct, frozen=True, kw_only=True):
    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    sandbox: Control | None = None


B = TypeVar("B")


def count_tokens(body: CountTokensBody) -> int:
    chat_messages = [*to_chat_messages("system", to_blocks(body.system or []))]
    for message in body.messages:
        chat_messages += to_chat_messages(message.role, to_blocks(message.content))
    tools = [chat.Tool("function", chat.Function(tool.name, tool.description, tool.input_schema)) for tool in body.tools or ()]
    return check_context_length(
        count_chat_tokens([each.tokens for each in read_messages(chat_messages, MAX_COUNTED_TOKENS)], tools), MAX_COUNTED_TOKENS
    )


def to_chat_messages(role: Role, blocks: Sequence[Block]) -> Iterator[chat.Message]:
    """The messages of the equivalent chat: one for each tool result, then one with the rest."""
    parts: list[chat.Part] = []
    calls: list[chat.ToolCall] = []
    reasoning = ""
    for block in blocks:
        match block:
            case TextBlock() | ImageBlock() | DocumentBlock():
                parts.append(to_chat_part(block))
            case ThinkingBlock():
                reasoning += block.thinking
            case RedactedThinkingBlock():
                pass
            case ToolUseBlock():
                calls.append(chat.ToolCall(block.id, chat.CalledFunction(block.name, msgspec.json.encode(block.input).decode())))
            case ToolResultBlock():
                yield chat.Message("tool", [to_chat_part(each) for each in to_blocks(block.content or [])])
    if parts or calls or reasoning:
        yield chat.Message(role, parts, reasoning, calls)


def to_chat_part(block: TextBlock | ImageBlock | DocumentBlock) -> chat.Part:
    match block:
        case TextBlock():
            return chat.TextPart(block.text)
        case ImageBlock():
            return chat.ImagePart("")
        case DocumentBlock():
            return chat.FilePart(chat.FileData())


def to_blocks(content: str | list[B]) -> Sequence[TextBlock | B]:
    return [TextBlock(content)] if isinstance(content, str) else content
