"""Writes the responses of Bedrock's Converse, as its API documents it: a body, or messages of an AWS event stream.

Independent of the dialect in providers/, which the tests check against it.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html, read 2026-11.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

from providers.canonical.chat import Reasoning, Text, ToolCall
from tests.conformance import engine_anthropic
from tests.conformance.situations import Situation, StreamStep, WireResponse, stream_steps
from tests.replay.hosts.aws_event_stream import event

_STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "content_filtered"}


def wire_response(situation: Situation) -> WireResponse:
    return WireResponse(b"".join(_events(situation)), json.dumps(_body(situation)).encode())


def invoke_response(situation: Situation) -> WireResponse:
    """Returns the response of InvokeModel for Claude: Anthropic's own events, each within a chunk."""
    events = engine_anthropic.stream_events(situation)
    chunks = [event("chunk", {"bytes": base64.b64encode(json.dumps(each).encode()).decode(), "p": "abc"}) for each in events]
    return WireResponse(b"".join(chunks), json.dumps(engine_anthropic.response_body(situation)).encode())


def _events(situation: Situation) -> Iterator[bytes]:
    yield event("messageStart", {"role": "assistant"})
    for step in stream_steps(situation):
        yield from _step_events(situation, step)
    yield event("messageStop", {"stopReason": _STOPS[situation.finish]})
    yield event("metadata", {"usage": _usage(situation), "metrics": {"latencyMs": 1}})


def _step_events(situation: Situation, step: StreamStep) -> Iterator[bytes]:
    part, at = situation.parts[step.at], {"contentBlockIndex": step.at}
    if isinstance(part, ToolCall) and step.first:
        yield event("contentBlockStart", {**at, "start": {"toolUse": {"toolUseId": part.id, "name": part.name}}})
    for delta in _deltas(part, step):
        yield event("contentBlockDelta", {**at, "delta": delta})
    if step.last:
        yield event("contentBlockStop", at)


def _deltas(part: object, step: StreamStep) -> Iterator[dict[str, Any]]:
    match part:
        case Text():
            yield {"text": step.piece}
        case Reasoning():
            yield {"reasoningContent": {"text": step.piece}}
            if step.last and part.opaque_state is not None:
                yield {"reasoningContent": {"signature": part.opaque_state.data}}
        case ToolCall():
            yield {"toolUse": {"input": step.piece}}
        case _:
            raise AssertionError("Converse has no such part")


def _body(situation: Situation) -> dict[str, Any]:
    message = {"role": "assistant", "content": [_block(part) for part in situation.parts]}
    return {
        "output": {"message": message},
        "stopReason": _STOPS[situation.finish],
        "usage": _usage(situation),
        "metrics": {"latencyMs": 1},
    }


def _block(part: object) -> dict[str, Any]:
    match part:
        case Text():
            return {"text": part.text}
        case Reasoning():
            signature = {} if part.opaque_state is None else {"signature": part.opaque_state.data}
            return {"reasoningContent": {"reasoningText": {"text": part.text, **signature}}}
        case ToolCall():
            return {"toolUse": {"toolUseId": part.id, "name": part.name, "input": json.loads(part.arguments or "{}")}}
        case _:
            raise AssertionError("Converse has no such part")


def _usage(situation: Situation) -> dict[str, int]:
    counts = situation.usage
    assert counts is not None and counts.input is not None and counts.output is not None, "Converse always reports usage"
    return {"inputTokens": counts.input, "outputTokens": counts.output, "totalTokens": counts.input + counts.output}
