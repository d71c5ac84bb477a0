"""Whole answers of Responses as meaning and back.

Source: https://platform.openai.com/docs/api-reference/responses/object, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

from providers.chat import ChatResponse, Choice, Opaque, Reasoning, Refusal, Text, ToolCall
from providers.dialect import Stamp
from providers.dialects.openai_responses.failures import failure_in
from providers.dialects.openai_responses.items import (
    Item,
    call_item,
    call_seal,
    item_id,
    message_item,
    opaque_item,
    prefix,
    read_item,
    read_parts,
    reasoning_item,
    refusal_content,
    text_content,
    wants_summary,
    write_citations,
)
from providers.dialects.openai_responses.objects import response_head
from providers.dialects.openai_responses.usage import read_usage, write_usage
from providers.errors import Garbled
from providers.wire import NULL, UNREADABLE, Body, mended, on_one_line


class _Incomplete(Struct):
    reason: str | None = None


class Whole(Struct):
    """A Response as an engine tells it."""

    output: list[Raw] | None = None
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    model: str = ""
    created_at: int | float | None = None
    usage: Raw = NULL
    service_tier: str | None = None


_decoder = msgspec.json.Decoder(Whole)

_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
INCOMPLETE = {reason: told for told, reason in _REASONS.items()}


def read_response(raw: bytes) -> ChatResponse:
    body = Body.read_reply(raw)
    error = failure_in(body)
    if error is not None:
        raise error
    try:
        return read_whole(_decoder.decode(raw))
    except UNREADABLE:
        pass
    try:
        return read_whole(_decoder.decode(mended(raw)))
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a Response: {fault}.") from None


def read_whole(told: Whole) -> ChatResponse:
    """Raises what msgspec raises, and Garbled for an answer that is not finished."""
    items = [(read_item(raw), raw) for raw in told.output or ()]
    parts = tuple(part for item, raw in items for part in read_parts(item, raw))
    logprobs = [entry for item, _ in items for content in item.content or () for entry in content.logprobs or ()]
    return ChatResponse(
        choices=(Choice(parts, finish_reason(told, [item for item, _ in items]), tuple(logprobs) or None),),
        model=told.model,
        created=None if told.created_at is None else int(told.created_at),
        usage=None if told.usage == NULL else read_usage(told.usage, told.service_tier),
        service_tier=told.service_tier or None,
    )


def finish_reason(told: Whole, items: list[Item]) -> str:
    """In OpenAI chat's words."""
    if told.status in ("queued", "in_progress"):
        raise Garbled(f"The engine's answer is not finished: its status is {told.status}.")
    if told.status == "incomplete" or (told.status is None and told.incomplete_details is not None):
        why = told.incomplete_details.reason if told.incomplete_details else None
        return _REASONS.get(why or "", "length")
    return "tool_calls" if any(item.type in ("function_call", "custom_tool_call") for item in items) else "stop"


def write_response(answer: ChatResponse, stamp: Stamp) -> bytes:
    """One answer: a Response has no more."""
    choice = answer.choices[0] if answer.choices else Choice((), None)
    head = response_head(stamp)
    head["created_at"] = answer.created or stamp.created
    head["output"] = _write_output(choice, stamp)
    end(head, choice.finish_reason)
    head["usage"] = write_usage(answer.usage)
    if answer.service_tier is not None:
        head["service_tier"] = answer.service_tier
    return msgspec.json.encode(head)


def end(head: dict[str, Any], reason: str | None) -> str:
    """Says of a Response how it ended; gives its status.

    Of when it ended no more is known than that it was begun before: no clock is read here.
    """
    why = INCOMPLETE.get(reason or "")
    head["status"] = "completed" if why is None else "incomplete"
    head["completed_at"] = head["created_at"] if why is None else None
    head["incomplete_details"] = None if why is None else {"reason": why}
    return head["status"]


def _write_output(choice: Choice, stamp: Stamp) -> list[Any]:
    """Neighbouring texts and refusals are one message. Logprobs are told with the first text."""
    output: list[Any] = []
    content: list[dict[str, Any]] | None = None
    logprobs = [Raw(on_one_line(bytes(each))) for each in choice.logprobs or ()]
    for part in choice.parts:
        if isinstance(part, Text | Refusal):
            if content is None:
                content = []
                output.append(message_item(item_id(stamp, "msg", len(output)), content, "completed"))
            content.append(_content(part, logprobs))
            if isinstance(part, Text):
                logprobs = []
            continue
        content = None
        _append(output, part, stamp)
    if content is not None and choice.finish_reason in INCOMPLETE:
        output[-1]["status"] = "incomplete"
    return output


def _content(part: Text | Refusal, logprobs: list[Raw]) -> dict[str, Any]:
    if isinstance(part, Refusal):
        return refusal_content(part.text)
    return text_content(part.text, write_citations(part.text, part.citations), logprobs)


def _append(output: list[Any], part: Reasoning | ToolCall | Opaque, stamp: Stamp) -> None:
    id = item_id(stamp, prefix(part), len(output))
    match part:
        case Reasoning():
            output.append(reasoning_item(id, part.text, part.seal, as_summary=wants_summary(stamp)))
        case ToolCall():
            output.append(call_item(id, part, part.arguments))
            if part.seal is not None:
                _append(output, Reasoning("", call_seal(part, part.seal)), stamp)
        case Opaque():
            output.append(opaque_item(id, part))
        case _:
            assert_never(part)
