"""Writes the responses of a host that speaks Google's generateContent, as its API documents it.

Independent of the dialect in providers/, which the tests check against it.

Source: https://ai.google.dev/api/generate-content, read 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import Reasoning, Text, ToolCall
from tests.conformance.situations import Situation, StreamStep, WireResponse, stream_steps

_FINISHES = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


def wire_response(situation: Situation) -> WireResponse:
    stream = b"".join(f"data: {json.dumps(each)}\r\n\r\n".encode() for each in stream_chunks(situation))
    body = _response([_part(each, _text_of(each)) for each in situation.parts], situation)
    return WireResponse(stream, json.dumps(body).encode())


def stream_chunks(situation: Situation) -> list[dict[str, Any]]:
    """Texts grow by pieces; Google sends a call whole, with its last piece here."""
    chunks: list[dict[str, Any]] = []
    for step in stream_steps(situation):
        part = _streamed_part(situation, step)
        if part is not None:
            chunks.append(_response([part], None))
    return [*chunks, _response([{"text": ""}], situation)]


def _streamed_part(situation: Situation, step: StreamStep) -> dict[str, Any] | None:
    part = situation.parts[step.at]
    if isinstance(part, ToolCall):
        return _part(part, part.arguments) if step.last else None
    written = _part(part, step.piece)
    if not step.last:
        written.pop("thoughtSignature", None)
    return written


def _part(part: object, text: str) -> dict[str, Any]:
    match part:
        case Text():
            return {"text": text}
        case Reasoning():
            signature = {} if part.opaque_state is None else {"thoughtSignature": part.opaque_state.data}
            return {"text": text, "thought": True, **signature}
        case ToolCall():
            return {"functionCall": {"name": part.name, "args": json.loads(text or "{}")}}
        case _:
            raise AssertionError("Google has no such part")


def _text_of(part: object) -> str:
    assert isinstance(part, (Text, Reasoning, ToolCall))
    return part.arguments if isinstance(part, ToolCall) else part.text


def _response(parts: list[dict[str, Any]], ends: Situation | None) -> dict[str, Any]:
    finish = {} if ends is None else {"finishReason": _FINISHES[ends.finish]}
    usage = {} if ends is None else {"usageMetadata": _usage(ends)}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **finish}],
        **usage,
        "modelVersion": "engine-model",
        "responseId": "response-of-the-engine",
    }


def _usage(situation: Situation) -> dict[str, int]:
    counts = situation.usage
    assert counts is not None and counts.input is not None and counts.output is not None, "Google always reports usage"
    thoughts = counts.reasoning or 0
    return {
        "promptTokenCount": counts.input,
        "candidatesTokenCount": counts.output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": counts.input + counts.output,
    }
