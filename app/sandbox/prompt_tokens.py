"""The tokens of a prompt: what each message and the tools cost, and whether they fit into the context."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.sandbox.protocol.errors import ContextLengthExceeded
from app.sandbox.protocol.request_schema import AudioPart, FilePart, ImagePart, ImageUrl, Message, RefusalPart, TextPart, Tool
from app.sandbox.text.tokens import (
    AUDIO_TOKENS,
    CONTEXT_LENGTH,
    FILE_TOKENS,
    IMAGE_TOKENS,
    LOW_DETAIL_IMAGE_TOKENS,
    MESSAGE_TOKENS,
    count_tokens,
)

# In the words of OpenAI and vLLM, by which frameworks know that they have to shorten a conversation.
_TOO_LONG = (
    "This model's maximum context length is {} tokens. However, your request has {} input tokens."
    " Please reduce the length of the input messages."
)


class MessageContent(NamedTuple):
    """A message's text, descriptions of its other parts, and its cost in tokens."""

    text: str
    media_descriptions: Sequence[str]
    tokens: int


def read_message(message: Message) -> MessageContent:
    """Reads all parts of a message; media is described, never fetched."""
    parts = [TextPart(message.content)] if isinstance(message.content, str) else message.content or []
    texts: list[str] = []
    media_descriptions: list[str] = []
    tokens = 0
    for part in parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case RefusalPart():
                texts.append(part.refusal)
            case ImagePart():
                image = part.image_url if isinstance(part.image_url, ImageUrl) else ImageUrl(part.image_url)
                media_descriptions.append(f"an image ({describe_url(image.url)})")
                tokens += LOW_DETAIL_IMAGE_TOKENS if image.detail == "low" else IMAGE_TOKENS
            case FilePart():
                name = part.file.filename or part.file.file_id or "without a name"
                media_descriptions.append(f"a file ({name}, {describe_url(part.file.file_data or '')})")
                tokens += FILE_TOKENS
            case AudioPart():
                media_descriptions.append(f"audio ({part.input_audio.format})")
                tokens += AUDIO_TOKENS
    calls = "".join(call.function.name + call.function.arguments for call in message.tool_calls or ())
    text = "".join(texts)
    tokens += count_tokens(text) + count_tokens(calls) + count_tokens(message.reasoning_content or "")
    return MessageContent(text, media_descriptions, tokens)


def read_messages(messages: Sequence[Message], most_tokens: int = CONTEXT_LENGTH) -> list[MessageContent]:
    """All messages. Raises ContextLengthExceeded as soon as they are too long, so that no time is spent on the rest."""
    contents: list[MessageContent] = []
    tokens = 0
    for at, message in enumerate(messages):
        contents.append(read_message(message))
        tokens += contents[-1].tokens + MESSAGE_TOKENS
        if tokens >= most_tokens and at + 1 < len(messages):
            raise ContextLengthExceeded(_TOO_LONG.format(most_tokens, f"at least {tokens}"))
    return contents


def count_chat_tokens(message_tokens: Sequence[int], tools: Sequence[Tool] | None) -> int:
    """The cost of a chat, from the cost of each message."""
    return sum(message_tokens) + MESSAGE_TOKENS * len(message_tokens) + (count_tokens(msgspec.json.encode(tools).decode()) if tools else 0)


def check_context_length(tokens: int, most_tokens: int = CONTEXT_LENGTH) -> int:
    """Returns the number. Raises ContextLengthExceeded if the prompt leaves no room for a response."""
    if tokens >= most_tokens:
        raise ContextLengthExceeded(_TOO_LONG.format(most_tokens, tokens))
    return tokens


def describe_url(url: str) -> str:
    """Describes a URL without fetching it: the type and size of a data URL, or the address."""
    if not url.startswith("data:"):
        return url[:80] or "not included"
    head, _, payload = url.partition(",")
    kind = head.removeprefix("data:").partition(";")[0] or "text/plain"
    size_bytes = len(payload) * 3 // 4 - payload[-2:].count("=") if head.endswith(";base64") else len(payload)
    return f"{kind}, {size_bytes} bytes"
