"""Messages as Anthropic takes them: no text of white space alone, no answer begun that it does not go on with.

Sources: its 400s "text content blocks must contain non-whitespace text", "each stop sequence must contain non-whitespace", "This model does
not support assistant message prefill" (langchain-ai/deepagents#1585) and, of caches, "A maximum of 4 blocks with cache_control may be
provided", as many quote them; https://platform.claude.com/docs/en/build-with-claude/prompt-caching; read 2026-11.
"""

from collections.abc import Iterator
from typing import Any, cast

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Message, Text, ToolCall
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.profiles.claude.models import ClaudeProfile

_CACHE_CONTROL = "cache_control"
_MAX_CACHE_BREAKPOINTS = 4


def drop_blank_texts(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[Message, ...]:
    """White space says nothing: it goes, and is reported; but something must be left to answer."""
    messages = tuple(_without_blank_parts(message, f"messages[{index}]", drop_policy) for index, message in enumerate(chat.messages))
    if chat.prompt is None and not any(message.parts for message in messages):
        drop_policy.drop_or_refuse("messages", "there is nothing to answer: it takes no texts of white space alone.")
    return messages


def _without_blank_parts(message: Message, path: str, drop_policy: DropPolicy) -> Message:
    blank = {at for at, part in enumerate(message.parts) if isinstance(part, Text) and not part.text.strip()}
    for at in sorted(blank):
        if message.parts[at] != Text(""):
            drop_policy.drop_hint(f"{path}.content[{at}]")
    return replace(message, parts=tuple(part for at, part in enumerate(message.parts) if at not in blank)) if blank else message


def drop_blank_stops(chat: ChatRequest, drop_policy: DropPolicy) -> tuple[str, ...]:
    if all(stop.strip() for stop in chat.stop):
        return chat.stop
    drop_policy.drop_or_refuse("stop", "a stop sequence cannot be white space alone.")
    return tuple(stop for stop in chat.stop if stop.strip())


def drop_prefill(chat: ChatRequest, profile: ClaudeProfile, *, is_thinking: bool, drop_policy: DropPolicy) -> tuple[Message, ...]:
    """An answer that the conversation ends with is one to go on with."""
    last = len(chat.messages) - 1
    if last < 0 or chat.messages[last].role != "assistant" or any(isinstance(part, ToolCall) for part in chat.messages[last].parts):
        return chat.messages
    why = (
        None
        if profile.supports_prefill
        else "this model goes on with no answer that was begun: the conversation ends with what the user says."
    )
    why = "while it reasons, it goes on with no answer that was begun." if why is None and is_thinking else why
    why = "with a schema to obey, it goes on with no answer that was begun." if why is None and chat.output is not None else why
    if why is None:
        return chat.messages
    drop_policy.drop_or_refuse(f"messages[{last}]", why)
    return chat.messages[:last]


def limit_cache_breakpoints(body: Body) -> bool:
    """In a body that was written here. The last four stay, which reach furthest. Whether some had to go: they are hints."""
    marked = [block for key in ("tools", "system", "messages") for block in _iter_blocks(body.get(key)) if _CACHE_CONTROL in block]
    for block in marked[:-_MAX_CACHE_BREAKPOINTS]:
        del block[_CACHE_CONTROL]
    return len(marked) > _MAX_CACHE_BREAKPOINTS


def _iter_blocks(content: Any) -> Iterator[dict[str, Any]]:
    """In the order of the prompt, what a block holds before itself. What is still as a caller wrote it (Raw) is none."""
    for each in cast("list[Any]", content) if isinstance(content, list) else ():
        if isinstance(each, dict):
            block = cast("dict[str, Any]", each)
            yield from _iter_blocks(block.get("content"))
            yield block
