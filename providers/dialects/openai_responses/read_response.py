"""Whole answers of Responses as meaning and back.

Source: https://platform.openai.com/docs/api-reference/responses/object, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatResponse, Choice, Opaque, Reasoning, Refusal, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode, to_single_line
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses.errors import find_response_error
from providers.dialects.openai_responses.response_items import (
    Item,
    call_opaque_state,
    id_prefix,
    item_id,
    read_item,
    read_parts,
    wants_summary,
    write_call_item,
    write_citations,
    write_message_item,
    write_opaque_item,
    write_reasoning_item,
    write_refusal_content,
    write_text_content,
)
from providers.dialects.openai_responses.response_object import response_head
from providers.dialects.openai_responses.usage import read_usage, write_usage


class _IncompleteDetails(Struct):
    reason: str | None = None


class WireResponse(Struct):
    """A Response as an engine tells it."""

    output: list[Raw] | None = None
    status: str | None = None
    incomplete_details: _IncompleteDetails | None = None
    model: str = ""
    created_at: int | float | None = None
    usage: Raw = NULL
    service_tier: str | None = None


_response_decoder = msgspec.json.Decoder(WireResponse)

_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
INCOMPLETE_REASONS = {reason: told for told, reason in _FINISH_REASONS.items()}


def read_response(raw: bytes) -> ChatResponse:
    body = Body.read_response(raw)
    error = find_response_error(body)
    if error is not None:
        raise error
    try:
        return read_wire_response(_response_decoder.decode(raw))
    except DECODE_ERRORS:
        pass
    try:
        return read_wire_response(_response_decoder.decode(repair_unicode(raw)))
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer is not a Response: {exc}.") from None


def read_wire_response(wire: WireResponse) -> ChatResponse:
    """Raises what msgspec raises, and Garbled for an answer that is not finished."""
    items = [(read_item(raw), raw) for raw in wire.output or ()]
    parts = tuple(part for item, raw in items for part in read_parts(item, raw))
    logprobs = [entry for item, _ in items for content in item.content or () for entry in content.logprobs or ()]
    return ChatResponse(
        choices=(Choice(parts, finish_reason(wire, [item for item, _ in items]), tuple(logprobs) or None),),
        model=wire.model,
        created=None if wire.created_at is None else int(wire.created_at),
        usage=None if wire.usage == NULL else read_usage(wire.usage, wire.service_tier),
        service_tier=wire.service_tier or None,
    )


def finish_reason(wire: WireResponse, items: list[Item]) -> str:
    """In OpenAI chat's words."""
    if wire.status in ("queued", "in_progress"):
        raise InvalidUpstreamResponse(f"The engine's answer is not finished: its status is {wire.status}.")
    if wire.status == "incomplete" or (wire.status is None and wire.incomplete_details is not None):
        incomplete_reason = wire.incomplete_details.reason if wire.incomplete_details else None
        return _FINISH_REASONS.get(incomplete_reason or "", "length")
    return "tool_calls" if any(item.type in ("function_call", "custom_tool_call") for item in items) else "stop"


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    """One answer: a Response has no more."""
    choice = response.choices[0] if response.choices else Choice((), None)
    head = response_head(meta)
    head["created_at"] = response.created or meta.created
    head["output"] = _write_output(choice, meta)
    write_status(head, choice.finish_reason)
    head["usage"] = write_usage(response.usage)
    if response.service_tier is not None:
        head["service_tier"] = response.service_tier
    return msgspec.json.encode(head)


def write_status(head: dict[str, Any], reason: str | None) -> str:
    """Says of a Response how it ended; gives its status.

    Of when it ended no more is known than that it was begun before: no clock is read here.
    """
    incomplete_reason = INCOMPLETE_REASONS.get(reason or "")
    head["status"] = "completed" if incomplete_reason is None else "incomplete"
    head["completed_at"] = head["created_at"] if incomplete_reason is None else None
    head["incomplete_details"] = None if incomplete_reason is None else {"reason": incomplete_reason}
    return head["status"]


def _write_output(choice: Choice, meta: ResponseMeta) -> list[Any]:
    """Neighbouring texts and refusals are one message. Logprobs are told with the first text."""
    output: list[Any] = []
    content: list[dict[str, Any]] | None = None
    logprobs = [Raw(to_single_line(bytes(each))) for each in choice.logprobs or ()]
    for part in choice.parts:
        if isinstance(part, Text | Refusal):
            if content is None:
                content = []
                output.append(write_message_item(item_id(meta, "msg", len(output)), content, "completed"))
            content.append(_write_content(part, logprobs))
            if isinstance(part, Text):
                logprobs = []
            continue
        content = None
        _append_item(output, part, meta)
    if content is not None and choice.finish_reason in INCOMPLETE_REASONS:
        output[-1]["status"] = "incomplete"
    return output


def _write_content(part: Text | Refusal, logprobs: list[Raw]) -> dict[str, Any]:
    if isinstance(part, Refusal):
        return write_refusal_content(part.text)
    return write_text_content(part.text, write_citations(part.text, part.citations), logprobs)


def _append_item(output: list[Any], part: Reasoning | ToolCall | Opaque, meta: ResponseMeta) -> None:
    id = item_id(meta, id_prefix(part), len(output))
    match part:
        case Reasoning():
            output.append(write_reasoning_item(id, part.text, part.opaque_state, as_summary=wants_summary(meta)))
        case ToolCall():
            output.append(write_call_item(id, part, part.arguments))
            if part.opaque_state is not None:
                _append_item(output, Reasoning("", call_opaque_state(part, part.opaque_state)), meta)
        case Opaque():
            output.append(write_opaque_item(id, part))
        case _:
            assert_never(part)
