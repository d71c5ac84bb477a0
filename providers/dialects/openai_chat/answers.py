"""Whole answers of OpenAI chat, as meaning and back.

Source: https://platform.openai.com/docs/api-reference/chat, read 2026-11.
"""

from typing import Any, assert_never

import msgspec

from providers.chat import ChatResponse, Choice, Citation, Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.dialect import Stamp
from providers.dialects.openai_chat.calls import read_call, write_call
from providers.dialects.openai_chat.citations import read_annotations, write_annotation
from providers.dialects.openai_chat.details import put_together, read_details, write_details
from providers.dialects.openai_chat.endings import read_ending, read_service_tier, write_ending, write_service_tier
from providers.dialects.openai_chat.shapes import Answer, Call, Said, ToldChoice, pieces, read_answer, seconds
from providers.dialects.openai_chat.sources import read_sources
from providers.openai_usage import groq_usage, read_usage, write_usage
from providers.wire import NULL


def read_response(raw: bytes) -> ChatResponse:
    told = read_answer(raw)
    sources = read_sources(told.search_results, told.citations)
    return ChatResponse(
        choices=tuple(_read_choice(choice, sources) for choice in sorted(told.choices or (), key=_index)),
        model=told.model or "",
        created=seconds(told.created),
        usage=usage_of(told),
        system_fingerprint=told.system_fingerprint or None,
        service_tier=read_service_tier(told.service_tier),
    )


def _index(choice: ToldChoice) -> int:
    return choice.index or 0


def usage_of(told: Answer) -> Usage | None:
    usage = told.usage
    if (usage is NULL or usage == NULL) and told.x_groq is not NULL:
        usage = groq_usage(told.x_groq) or NULL
    return None if usage is NULL or usage == NULL else read_usage(usage, told.service_tier)


def _read_choice(choice: ToldChoice, sources: tuple[Citation, ...]) -> Choice:
    said = choice.message or choice.delta or Said(content=choice.text)
    reason, word, stop_sequence = read_ending(choice)
    logprobs = choice.logprobs.content if choice.logprobs else None
    return Choice(_read_parts(said, sources), reason, None if logprobs is None else tuple(logprobs), word, stop_sequence)


def _read_parts(said: Said, sources: tuple[Citation, ...]) -> tuple[Part, ...]:
    thoughts: list[Part] = []
    texts: list[Text] = []
    rest: list[Refusal | ToolCall] = []
    details = read_details(said.reasoning_details)
    reasoning = said.reasoning_content or said.reasoning
    if reasoning and not any(isinstance(detail.part, Reasoning) and detail.part.text for detail in details):
        thoughts.append(Reasoning(reasoning))
    for kind, text in pieces(said.content):
        match kind:
            case "reasoning":
                thoughts.append(Reasoning(text))
            case "refusal":
                rest.append(Refusal(text))
            case _:
                texts.append(Text(text))
    annotations = read_annotations(said.annotations) or sources
    if annotations:
        texts = [Text("".join(text.text for text in texts), tuple(annotations))]
    if said.refusal:
        rest.append(Refusal(said.refusal))
    calls = said.tool_calls or ([Call(function=said.function_call)] if said.function_call else ())
    rest += [read_call(call) for call in calls]
    return (*thoughts, *put_together(details, texts, rest))


def write_response(answer: ChatResponse, stamp: Stamp) -> bytes:
    body: dict[str, Any] = {
        "id": stamp.id,
        "episode_id": stamp.episode_id,
        "object": "chat.completion",
        "created": answer.created or stamp.created,
        "model": stamp.model,
        "choices": [_write_choice(index, choice, stamp) for index, choice in enumerate(answer.choices)],
        "system_fingerprint": answer.system_fingerprint or "",
        "service_tier": write_service_tier(answer.service_tier) or "",
    }
    if answer.usage is not None:
        body["usage"] = write_usage(answer.usage)
    return msgspec.json.encode(body)


def _write_choice(index: int, choice: Choice, stamp: Stamp) -> dict[str, Any]:
    logprobs = None if choice.logprobs is None else {"content": choice.logprobs}
    called = stamp.stops_after_calls and any(isinstance(part, ToolCall) for part in choice.parts)
    ending = write_ending(choice.finish_reason, choice.stop_sequence, called=called)
    return {"index": index, "message": write_message(choice.parts), **ending, "logprobs": logprobs}


def write_message(parts: tuple[Part, ...]) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    refusals: list[str] = []
    annotations: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    before = 0
    for part in parts:
        match part:
            case Text():
                texts.append(part.text)
                for citation in part.citations:
                    annotation = write_annotation(citation, before, len(part.text))
                    if annotation is not None:
                        annotations.append(annotation)
                before += len(part.text)
            case Reasoning():
                thoughts.append(part.text)
            case Refusal():
                refusals.append(part.text)
            case ToolCall():
                calls.append(write_call(part))
            case Opaque():
                pass
            case _:
                assert_never(part)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts else None}
    if any(thoughts):
        message["reasoning_content"] = "".join(thoughts)
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
