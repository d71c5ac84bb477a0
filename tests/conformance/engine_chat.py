"""Writes the responses of an engine that speaks OpenAI chat, as its API documents it.

Independent of the dialect in providers/, which the tests check against it.

Source: https://platform.openai.com/docs/api-reference/chat-streaming, read 2026-11.
"""

import json
from typing import Any

import msgspec

from providers.canonical.chat import Opaque, Reasoning, Refusal, Text, ToolCall
from tests.conformance.situations import Situation, StreamStep, WireResponse, stream_steps

HEAD = {"id": "chatcmpl-engine", "created": 1_790_000_000, "model": "engine-model", "system_fingerprint": "fp_1"}


def wire_response(situation: Situation) -> WireResponse:
    return WireResponse(encode_chunks(stream_chunks(situation)), json.dumps(response_body(situation)).encode())


def encode_chunks(chunks: list[dict[str, Any]]) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, at: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": at, "delta": delta, "logprobs": None, "finish_reason": finish, **more}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice], "usage": None}


def usage_chunks(usage: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [] if usage is None else [{**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage}]


def stream_chunks(situation: Situation) -> list[dict[str, Any]]:
    numbers = {at: number for number, at in enumerate(at for at, part in enumerate(situation.parts) if isinstance(part, ToolCall))}
    chunks = [chunk({"role": "assistant", "content": ""})]
    logprobs = situation.logprobs
    for step in stream_steps(situation):
        for delta in _deltas(situation, step, numbers):
            more: dict[str, Any] = {} if logprobs is None else {"logprobs": {"content": _decoded(logprobs), "refusal": None}}
            logprobs = None
            chunks.append(chunk(delta, **more))
    for at, text in enumerate(situation.other_choices, 1):
        chunks += [chunk({"role": "assistant", "content": text}, at=at), chunk({}, "stop", at=at)]
    return [*chunks, chunk({}, situation.finish), *usage_chunks(usage(situation))]


def _deltas(situation: Situation, step: StreamStep, numbers: dict[int, int]) -> list[dict[str, Any]]:
    part = situation.parts[step.at]
    match part:
        case Text():
            annotations = {"annotations": _annotations(part)} if step.last and part.citations else {}
            return [{"content": step.piece, **annotations}]
        case Reasoning():
            return [{"reasoning_content": step.piece}]
        case Refusal():
            return [{"refusal": step.piece}]
        case ToolCall():
            kind, field = ("custom", "input") if part.custom else ("function", "arguments")
            index: dict[str, Any] = {"index": numbers[step.at]}
            signature = {} if part.opaque_state is None else {"extra_content": {"google": {"thought_signature": part.opaque_state.data}}}
            first = {**index, "id": part.id, "type": kind, kind: {"name": part.name, field: ""}, **signature}
            fragment: dict[str, Any] = {**index, kind: {field: step.piece}}
            if part.custom:
                fragment["type"] = kind
            return [{"tool_calls": [each]} for each in ([first] if step.first else []) + ([fragment] if step.piece else [])]
        case Opaque():
            raise AssertionError("OpenAI chat has no such part")


def response_body(situation: Situation) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    calls: list[dict[str, Any]] = []
    for part in situation.parts:
        match part:
            case Text():
                message["content"] = (message["content"] or "") + part.text
                if part.citations:
                    message["annotations"] = _annotations(part)
            case Reasoning():
                message["reasoning_content"] = part.text
            case Refusal():
                message["refusal"] = part.text
            case ToolCall(custom=True):
                calls.append({"id": part.id, "type": "custom", "custom": {"name": part.name, "input": part.arguments}})
            case ToolCall():
                signature = (
                    {} if part.opaque_state is None else {"extra_content": {"google": {"thought_signature": part.opaque_state.data}}}
                )
                calls.append({"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}, **signature})
            case Opaque():
                raise AssertionError("OpenAI chat has no such part")
    if calls:
        message["tool_calls"] = calls
    logprobs = None if situation.logprobs is None else {"content": _decoded(situation.logprobs), "refusal": None}
    choices: list[dict[str, Any]] = [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": situation.finish}]
    for at, text in enumerate(situation.other_choices, 1):
        message_of_choice = {"role": "assistant", "content": text, "refusal": None}
        choices.append({"index": at, "message": message_of_choice, "logprobs": None, "finish_reason": "stop"})
    body: dict[str, Any] = {**HEAD, "object": "chat.completion", "choices": choices, "usage": usage(situation)}
    return {key: value for key, value in body.items() if key != "usage" or value is not None}


def usage(situation: Situation) -> dict[str, Any] | None:
    counts = situation.usage
    if counts is None:
        return None
    body: dict[str, Any] = {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": (counts.input or 0) + (counts.output or 0),
    }
    if counts.cached is not None:
        body["prompt_tokens_details"] = {"cached_tokens": counts.cached, "audio_tokens": 0}
    if counts.reasoning is not None:
        body["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning, "audio_tokens": 0}
    return body


def _annotations(text: Text) -> list[Any]:
    return _decoded(tuple(each.raw for each in text.citations))


def _decoded(raws: tuple[msgspec.Raw, ...]) -> list[Any]:
    return [json.loads(bytes(raw)) for raw in raws]
