"""Writes the responses of an engine that speaks Ollama's own chat API, as it is documented.

Independent of the dialect in providers/, which the tests check against it. Source: docs/api.md and api/types.go of ollama 0.33
(docs/sources.md#ollama), read 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import Opaque, Reasoning, Refusal, Text, ToolCall
from tests.conformance.situations import Situation, StreamStep, WireResponse, stream_steps

HEAD = {"model": "engine-model", "created_at": "2026-09-21T14:13:20.123456789Z"}


def can_express(situation: Situation) -> bool:
    """Returns whether Ollama has fields for it: texts, thinking, and calls whose arguments are an object; one choice, no cached tokens."""
    for part in situation.parts:
        match part:
            case Text():
                if part.citations:
                    return False
            case Reasoning():
                if part.opaque_state is not None:
                    return False
            case ToolCall():
                if part.custom or part.opaque_state is not None or not _is_object(part.arguments):
                    return False
            case Refusal() | Opaque():
                return False
    usage = situation.usage
    plain = usage is None or (usage.cached is None and usage.reasoning is None and usage.cache_written is None)
    called = any(isinstance(part, ToolCall) for part in situation.parts)
    finish_fits = situation.native_finish_reason is None and situation.finish in (("tool_calls",) if called else ("stop", "length"))
    return plain and finish_fits and not situation.other_choices


def can_express_in_one_body(situation: Situation) -> bool:
    """Returns whether the unstreamed message keeps the order: it has thinking, then text, then calls."""
    kinds = [("Reasoning", "Text", "ToolCall").index(type(part).__name__) for part in situation.parts]
    return kinds == sorted(kinds)


def wire_response(situation: Situation) -> WireResponse:
    lines = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in stream_lines(situation))
    return WireResponse(lines, json.dumps(response_body(situation)).encode() if can_express_in_one_body(situation) else None)


def stream_lines(situation: Situation) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    logprobs = situation.logprobs
    for step in stream_steps(situation):
        message = _message_delta(situation, step)
        if message is not None:
            entries = {} if logprobs is None else {"logprobs": [json.loads(bytes(raw)) for raw in logprobs]}
            logprobs = None
            lines.append({**HEAD, "message": {"role": "assistant", "content": "", **message}, "done": False, **entries})
    return [*lines, {**HEAD, "message": {"role": "assistant", "content": ""}, **_final_fields(situation)}]


def _message_delta(situation: Situation, step: StreamStep) -> dict[str, Any] | None:
    part = situation.parts[step.at]
    match part:
        case Text():
            return {"content": step.piece}
        case Reasoning():
            return {"thinking": step.piece}
        case ToolCall():
            return {"tool_calls": [_call(part)]} if step.last else None
        case _:
            raise AssertionError("Ollama has no such part")


def response_body(situation: Situation) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": _texts(situation, Text)}
    if any(isinstance(part, Reasoning) for part in situation.parts):
        message["thinking"] = _texts(situation, Reasoning)
    calls = [_call(part) for part in situation.parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = calls
    entries = {} if situation.logprobs is None else {"logprobs": [json.loads(bytes(raw)) for raw in situation.logprobs]}
    return {**HEAD, "message": message, **_final_fields(situation), **entries}


def _texts(situation: Situation, kind: type[Text | Reasoning]) -> str:
    return "".join(part.text for part in situation.parts if isinstance(part, kind))


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": {"index": 0, "name": call.name, "arguments": json.loads(call.arguments)}}


def _final_fields(situation: Situation) -> dict[str, Any]:
    """The fields of the last line. A response with calls ends with `stop`, like any other."""
    usage = situation.usage
    counts = {} if usage is None else {"prompt_eval_count": usage.input, "eval_count": usage.output}
    reason = "length" if situation.finish == "length" else "stop"
    return {"done": True, "done_reason": reason, "total_duration": 2_000_000_000, "load_duration": 1_000_000, **counts}


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False
