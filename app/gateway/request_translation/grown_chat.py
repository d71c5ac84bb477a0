"""A chat that goes on: with the text that a broken stream began, or with a response that is to be repaired."""

from msgspec.structs import replace

from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.response_translation.resumable_stream import ends_with_part_of
from providers.canonical.chat import Message, Text
from providers.canonical.errors import ConstraintViolation


async def continue_text(source: SourceRequest, text: str, written_tokens: int) -> SourceRequest | None:
    """The request for the rest of a response that has begun with `text`, which has about so many tokens. None: it cannot go on."""
    if source.constraint is not None:
        return None  # the engine would apply it to the rest alone
    chat = await source.read_chat()
    if chat.max_tokens is not None:
        chat = replace(chat, max_tokens=max(1, chat.max_tokens - written_tokens))
    if not text:
        return source.with_chat(chat, None)
    if ends_with_part_of(text, chat.stop):
        return None  # the engine would not find a stop string of which the caller has the beginning
    if chat.prompt is not None:
        return source.with_chat(replace(chat, prompt=chat.prompt + text, continues=True), None)
    messages, last = chat.messages, chat.messages[-1]
    if last.role == "assistant":
        if not last.parts or not isinstance(last.parts[-1], Text):
            return None
        beginning = last.parts[-1]
        parts = (*last.parts[:-1], replace(beginning, text=beginning.text + text))
        messages, last = messages[:-1], replace(last, parts=parts)
    else:
        last = Message("assistant", (Text(text),))
    return source.with_chat(replace(chat, messages=(*messages, last), continues=True), None)


async def add_repair_messages(source: SourceRequest, violation: ConstraintViolation, large_requests: TeamLargeRequests) -> None:
    """Continues the chat with the response that violated the constraint and a message that says so. Raw prompts stay as they are.

    The request itself grows: targets that are tried after this one get it so, too. `large_requests` are the team's; a small request is a
    large one with a large response in it.
    """
    source.large_requests = large_requests.for_text(violation.response_text) or source.large_requests
    chat = await source.read_chat()
    if chat.prompt is not None:
        return
    repair_messages = (
        Message("assistant", (Text(violation.response_text),)),
        Message("user", (Text(f"This answer does not obey what constrains it: {violation.reason} Answer again, and obey it."),)),
    )
    source.chat = replace(chat, messages=(*chat.messages, *repair_messages))
    source.is_rewritten = True
