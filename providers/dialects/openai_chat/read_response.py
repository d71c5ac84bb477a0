"""Reads a complete chat completion.

Source: https://platform.openai.com/docs/api-reference/chat, read 2026-11.
"""

from providers.canonical.chat import ChatResponse, Choice, Citation, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import NULL
from providers.dialects.openai.service_tiers import read_service_tier
from providers.dialects.openai.usage import groq_usage, read_usage
from providers.dialects.openai_chat.citations import read_annotations
from providers.dialects.openai_chat.finish_reasons import read_finish_reason
from providers.dialects.openai_chat.merge_parts import merge_parts
from providers.dialects.openai_chat.read_reasoning_details import read_details
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
from providers.dialects.openai_chat.tool_calls import read_tool_calls


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that an engine reported with status 200, or InvalidUpstreamResponse."""
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
    """Usage of a response or chunk; None if it has none."""
    usage = parsed.usage
    if (usage is NULL or usage == NULL) and parsed.x_groq is not NULL:
        usage = groq_usage(parsed.x_groq) or NULL
    return None if usage is NULL or usage == NULL else read_usage(usage, parsed.service_tier)


def _read_choice(choice: WireChoice, sources: tuple[Citation, ...]) -> Choice:
    message = choice.message or choice.delta or (None if choice.text is None else WireMessage(content=choice.text))
    if message is None:
        raise InvalidUpstreamResponse("A choice of the engine's answer has no message.")
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
    other_parts += read_tool_calls(calls)
    return (*reasoning_parts, *merge_parts(details, texts, other_parts))
