"""Messages and stop sequences as Claude accepts them: no text of only white space, and prefill only where the model supports it.

Sources: the 400s "text content blocks must contain non-whitespace text", "each stop sequence must contain non-whitespace" and "This model
does not support assistant message prefill" (langchain-ai/deepagents#1585), as widely quoted; read 2026-11.
"""

from msgspec import Raw
from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Content, File, Image, Message, Text, ToolCall, ToolResult
from providers.drop_policy import DropPolicy
from providers.profiles.claude.models import ClaudeProfile

_CACHE_CONTROL = "cache_control"


def drop_blank_texts(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[Message, ...]:
    """Messages without texts of only white space, which are reported. Refused if nothing remains.

    The cache mark of a text that is left out goes to the part before it, in an earlier message if need be: what it caches is the same.
    """
    messages: list[Message] = []
    has_moved_mark = False  # to the last part that is kept, which is not sought again for each mark after it
    for index, message in enumerate(chat.messages):
        kept: list[Content] = []
        for number, part in enumerate(message.parts):
            if not isinstance(part, Text) or part.text.strip():
                kept.append(part)
                has_moved_mark = False
                continue
            if part != Text(""):
                drop_policy.drop_hint(f"messages[{index}].content[{number}]")
            mark = part.extra.get(_CACHE_CONTROL)
            if mark is not None and not has_moved_mark:
                _mark_part_before(messages, kept, mark)
                has_moved_mark = True
        messages.append(message if len(kept) == len(message.parts) else replace(message, parts=tuple(kept)))
    if chat.prompt is None and not any(message.parts for message in messages):
        drop_policy.drop_or_refuse("messages", "all texts are empty or white space, which it does not accept.")
    return tuple(messages)


def _mark_part_before(messages: list[Message], parts: list[Content], mark: Raw) -> None:
    """Marks the last of `parts`, or else the last part of the messages before; no part twice, and none that cannot be marked."""
    if parts:
        parts[-1] = _marked(parts[-1], mark)
        return
    for index in range(len(messages) - 1, -1, -1):
        if earlier := messages[index].parts:
            messages[index] = replace(messages[index], parts=(*earlier[:-1], _marked(earlier[-1], mark)))
            return


def _marked(part: Content, mark: Raw) -> Content:
    if not isinstance(part, Text | Image | File | ToolCall | ToolResult):
        return part
    return replace(part, extra={_CACHE_CONTROL: mark, **part.extra})


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
