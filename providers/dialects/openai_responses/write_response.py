"""Writes a complete Response."""

from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatResponse, Choice, Opaque, Reasoning, Refusal, Text, ToolCall
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai_responses.finish_reasons import INCOMPLETE_REASONS
from providers.dialects.openai_responses.item_ids import id_prefix, item_id
from providers.dialects.openai_responses.namespaces import CallNames, read_call_names
from providers.dialects.openai_responses.response_object import response_head
from providers.dialects.openai_responses.usage import write_usage
from providers.dialects.openai_responses.write_output_items import (
    call_opaque_state,
    is_other_phase,
    is_search_call,
    may_be_cut_off,
    wants_summary,
    write_call_item,
    write_citations,
    write_logprob,
    write_message_item,
    write_opaque_item,
    write_reasoning_item,
    write_refusal_content,
    write_text_content,
)


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    """The response. Only the first choice is written: a Response has no more."""
    choice = response.choices[0] if response.choices else Choice((), None)
    head = response_head(meta)
    head["created_at"] = response.created or meta.created
    head["output"] = _write_output(choice, meta)
    write_status(head, choice.finish_reason)
    head["usage"] = write_usage(response.usage)
    head["service_tier"] = write_service_tier(response.service_tier)
    return msgspec.json.encode(head)


def write_status(head: dict[str, Any], reason: str | None) -> str:
    """Sets how a Response ended, and returns its status.

    `completed_at` is the time of its start, as no clock is read here.
    """
    incomplete_reason = INCOMPLETE_REASONS.get(reason or "")
    head["status"] = "completed" if incomplete_reason is None else "incomplete"
    head["completed_at"] = head["created_at"] if incomplete_reason is None else None
    head["incomplete_details"] = None if incomplete_reason is None else {"reason": incomplete_reason}
    return head["status"]


def _write_output(choice: Choice, meta: ResponseMeta) -> list[Any]:
    """The output items. Neighbouring texts and refusals of one phase become one message. Log probabilities go with the first text."""
    output: list[Any] = []
    content: list[dict[str, Any]] | None = None
    phase: str | None = None
    logprobs = [write_logprob(each) for each in choice.logprobs or ()]
    names: CallNames | None = None
    for part in choice.parts:
        if isinstance(part, Text | Refusal):
            if content is None or is_other_phase(part, phase):
                content, phase = [], part.phase if isinstance(part, Text) else None
                output.append(write_message_item(item_id(meta, "msg", len(output)), content, "completed", phase))
            content.append(_write_content(part, logprobs))
            if isinstance(part, Text):
                logprobs = []
            continue
        content = None
        names = names or read_call_names(meta.request_body)
        _append_item(output, part, meta, names)
    if choice.parts and choice.finish_reason in INCOMPLETE_REASONS and may_be_cut_off(choice.parts[-1]):
        output[-1]["status"] = "incomplete"
    return output


def _write_content(part: Text | Refusal, logprobs: list[Raw]) -> dict[str, Any]:
    if isinstance(part, Refusal):
        return write_refusal_content(part.text)
    return write_text_content(part.text, write_citations(part.text, part.citations), logprobs)


def _append_item(output: list[Any], part: Reasoning | ToolCall | Opaque, meta: ResponseMeta, names: CallNames) -> None:
    id = item_id(meta, "tsc" if is_search_call(part, names) else id_prefix(part), len(output))
    match part:
        case Reasoning():
            output.append(write_reasoning_item(id, part.text, part.opaque_state, as_summary=wants_summary(meta)))
        case ToolCall():
            output.append(write_call_item(id, part, part.arguments, names))
            if part.opaque_state is not None:
                _append_item(output, Reasoning("", call_opaque_state(part, part.opaque_state)), meta, names)
        case Opaque():
            output.append(write_opaque_item(id, part))
        case _:
            assert_never(part)
