"""Whole answers of OpenAI chat, as meaning and back.

Source: https://platform.openai.com/docs/api-reference/chat, read 2026-11.
"""

from typing import Any, assert_never

import msgspec

from providers.canonical.chat import ChatResponse, Choice, Citation, Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.raw_json import NULL
from providers.dialect import ResponseMeta
from providers.dialects.openai.usage import groq_usage, read_usage, write_usage
from providers.dialects.openai_chat.citations import read_annotations, write_annotation
from providers.dialects.openai_chat.finish_reasons import read_finish_reason, read_service_tier, write_finish_reason, write_service_tier
from providers.dialects.openai_chat.reasoning_details import merge_parts, read_details, write_details
from providers.dialects.openai_chat.response_schema import (
    WireChoice,
    WireMessage,
    WireResponse,
    WireToolCall,
    content_texts,
    decode_response,
    unix_seconds,
)
from providers.dialects.openai_chat.search_results import read_sources
from providers.dialects.openai_chat.tool_calls import read_tool_call, write_tool_call


def read_response(raw: bytes) -> ChatResponse:
    parsed = decode_response(raw)
    sources = read_sources(parsed.search_results, parsed.citations)
    return ChatResponse(
        choices=tuple(_read_choice(choice, sources) for choice in sorted(parsed.choices or (), key=_choice_index)),
        model=parsed.model or "",
        created=unix_seconds(parsed.created),
        usage=read_response_usage(parsed),
        system_fingerprint=parsed.system_fingerprint or None,
        service_tier=read_service_tier(parsed.service_tier),
    )


def _choice_index(choice: WireChoice) -> int:
    return choice.index or 0


def read_response_usage(parsed: WireResponse) -> Usage | None:
    usage = parsed.usage
    if (usage is NULL or usage == NULL) and parsed.x_groq is not NULL:
        usage = groq_usage(parsed.x_groq) or NULL
    return None if usage is NULL or usage == NULL else read_usage(usage, parsed.service_tier)


def _read_choice(choice: WireChoice, sources: tuple[Citation, ...]) -> Choice:
    message = choice.message or choice.delta or WireMessage(content=choice.text)
    reason, engine_reason, stop_sequence = read_finish_reason(choice)
    logprobs = choice.logprobs.content if choice.logprobs else None
    return Choice(_read_parts(message, sources), reason, None if logprobs is None else tuple(logprobs), engine_reason, stop_sequence)


def _read_parts(message: WireMessage, sources: tuple[Citation, ...]) -> tuple[Part, ...]:
    reasoning_parts: list[Part] = []
    texts: list[Text] = []
    other_parts: list[Refusal | ToolCall] = []
    details = read_details(message.reasoning_details)
    reasoning = message.reasoning_content or message.reasoning
    if reasoning and not any(isinstance(detail.part, Reasoning) and detail.part.text for detail in details):
        reasoning_parts.append(Reasoning(reasoning))
    for kind, text in content_texts(message.content):
        match kind:
            case "reasoning":
                reasoning_parts.append(Reasoning(text))
            case "refusal":
                other_parts.append(Refusal(text))
            case _:
                texts.append(Text(text))
    annotations = read_annotations(message.annotations) or sources
    if annotations:
        texts = [Text("".join(text.text for text in texts), tuple(annotations))]
    if message.refusal:
        other_parts.append(Refusal(message.refusal))
    calls = message.tool_calls or ([WireToolCall(function=message.function_call)] if message.function_call else ())
    other_parts += [read_tool_call(call) for call in calls]
    return (*reasoning_parts, *merge_parts(details, texts, other_parts))


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    body: dict[str, Any] = {
        "id": meta.id,
        "episode_id": meta.episode_id,
        "object": "chat.completion",
        "created": response.created or meta.created,
        "model": meta.model,
        "choices": [_write_choice(index, choice, meta) for index, choice in enumerate(response.choices)],
        "system_fingerprint": response.system_fingerprint or "",
        "service_tier": write_service_tier(response.service_tier) or "",
    }
    if response.usage is not None:
        body["usage"] = write_usage(response.usage)
    return msgspec.json.encode(body)


def _write_choice(index: int, choice: Choice, meta: ResponseMeta) -> dict[str, Any]:
    logprobs = None if choice.logprobs is None else {"content": choice.logprobs}
    has_calls = meta.stops_after_calls and any(isinstance(part, ToolCall) for part in choice.parts)
    ending = write_finish_reason(choice.finish_reason, choice.stop_sequence, ended_with_calls=has_calls)
    return {"index": index, "message": write_message(choice.parts), **ending, "logprobs": logprobs}


def write_message(parts: tuple[Part, ...]) -> dict[str, Any]:
    texts: list[str] = []
    reasoning_texts: list[str] = []
    refusals: list[str] = []
    annotations: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    preceding_length = 0
    for part in parts:
        match part:
            case Text():
                texts.append(part.text)
                for citation in part.citations:
                    annotation = write_annotation(citation, preceding_length, len(part.text))
                    if annotation is not None:
                        annotations.append(annotation)
                preceding_length += len(part.text)
            case Reasoning():
                reasoning_texts.append(part.text)
            case Refusal():
                refusals.append(part.text)
            case ToolCall():
                calls.append(write_tool_call(part))
            case Opaque():
                pass
            case _:
                assert_never(part)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts else None}
    if any(reasoning_texts):
        message["reasoning_content"] = "".join(reasoning_texts)
    details = write_details((part, len(part.text) if isinstance(part, Text) else 0) for part in parts)
    if details:
        message["reasoning_details"] = details
    if refusals:
        message["refusal"] = "".join(refusals)
    if annotations:
        message["annotations"] = annotations
    if calls:
        message["tool_calls"] = calls
    return message
