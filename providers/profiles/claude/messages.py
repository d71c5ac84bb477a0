"""Messages and stop sequences as Claude accepts them: no text of only white space, and prefill only where the model supports it.

Sources: the 400s "text content blocks must contain non-whitespace text", "each stop sequence must contain non-whitespace" and "This model
does not support assistant message prefill" (langchain-ai/deepagents#1585), as widely quoted; read 2026-11.
"""

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Message, Text, ToolCall
from providers.drop_policy import DropPolicy
from providers.profiles.claude.models import ClaudeProfile


def drop_blank_texts(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[Message, ...]:
    """Messages without texts of only white space, which are reported. Refused if nothing remains."""
    messages = tuple(_without_blank_parts(message, f"messages[{index}]", drop_policy) for index, message in enumerate(chat.messages))
    if chat.prompt is None and not any(message.parts for message in messages):
        drop_policy.drop_or_refuse("messages", "all texts are empty or white space, which it does not accept.")
    return messages


def _without_blank_parts(message: Message, path: str, drop_policy: DropPolicy) -> Message:
    blank = {index for index, part in enumerate(message.parts) if isinstance(part, Text) and not part.text.strip()}
    for index in sorted(blank):
        if message.parts[index] != Text(""):
            drop_policy.drop_hint(f"{path}.content[{index}]")
    return replace(message, parts=tuple(part for index, part in enumerate(message.parts) if index not in blank)) if blank else message


def drop_blank_stops(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[str, ...]:
    """Stop sequences without those of only white space, if the caller allows dropping them."""
    if all(stop.strip() for stop in chat.stop):
        return chat.stop
    drop_policy.drop_or_refuse("stop", "a stop sequence cannot be only white space.")
    return tuple(stop for stop in chat.stop if stop.strip())


def drop_prefill(chat: ChatRequest, profile: ClaudeProfile, *, is_thinking: bool, drop_policy: DropPolicy) -> tuple[Message, ...]:
    """Messages without a final assistant message (a prefill), where Claude would not continue it and the caller allows dropping it."""
    last = len(chat.messages) - 1
    if last < 0 or chat.messages[last].role != "assistant" or any(isinstance(part, ToolCall) for part in chat.messages[last].parts):
        return chat.messages
    why = None if profile.supports_prefill else "this model does not support prefill: the conversation must end with a user message."
    why = "prefill is not supported while thinking is on." if why is None and is_thinking else why
    why = "prefill is not supported together with a schema for the answer." if why is None and chat.output is not None else why
    if why is None:
        return chat.messages
    drop_policy.drop_or_refuse(f"messages[{last}]", why)
    return chat.messages[:last]
