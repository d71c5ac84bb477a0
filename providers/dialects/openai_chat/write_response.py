"""Writes a complete chat completion.

Source: https://platform.openai.com/docs/api-reference/chat/object, read 2026-11.
"""

from typing import Any, assert_never

import msgspec

from providers.canonical.chat import ChatResponse, Choice, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.dialect import ResponseMeta
from providers.dialects.openai.service_tiers import write_service_tier
from providers.dialects.openai.usage import write_usage
from providers.dialects.openai_chat.citations import write_annotation
from providers.dialects.openai_chat.finish_reasons import write_finish_reason
from providers.dialects.openai_chat.function_call import use_function_call, wants_function_call
from providers.dialects.openai_chat.tool_calls import write_tool_call
from providers.dialects.openai_chat.write_reasoning_details import write_details


def write_response(response: ChatResponse, meta: ResponseMeta) -> bytes:
    body: dict[str, Any] = {
        "id": meta.id,
        "episode_id": meta.episode_id,
        "object": "chat.completion",
        "created": response.created or meta.created,
        "model": meta.model,
        "choices": [_write_choice(index, choice, meta) for index, choice in enumerate(response.choices)],
        "system_fingerprint": response.system_fingerprint or "",
        "service_tier": write_service_tier(response.service_tier),
    }
    if response.usage is not None:
        body["usage"] = write_usage(response.usage)
    return msgspec.json.encode(body)


def _write_choice(index: int, choice: Choice, meta: ResponseMeta) -> dict[str, Any]:
    logprobs = None if choice.logprobs is None else {"content": choice.logprobs, "refusal": None}
    has_calls = meta.stops_after_calls and any(isinstance(part, ToolCall) for part in choice.parts)
    ending = write_finish_reason(choice.finish_reason, choice.stop_sequence, ended_with_calls=has_calls)
    written = {"index": index, "message": write_message(choice.parts), **ending, "logprobs": logprobs}
    if wants_function_call(meta):
        use_function_call(written, choice.parts)
    return written


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
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": "".join(refusals) if refusals else None,
    }
    if any(reasoning_texts):
        message["reasoning_content"] = "".join(reasoning_texts)
    details = write_details((part, len(part.text) if isinstance(part, Text) else 0) for part in parts)
    if details:
        message["reasoning_details"] = details
    if annotations:
        message["annotations"] = annotations
    if calls:
        message["tool_calls"] = calls
    return message
