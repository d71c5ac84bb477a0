"""Writes the responses of an engine that speaks Anthropic Messages, as its API documents it.

Independent of the dialect in providers/, which the tests check against it.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming, read 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import Opaque, Reasoning, Refusal, Text, ToolCall
from tests.conformance.situations import Situation, StreamStep, WireResponse, stream_steps

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
Event = dict[str, Any]


def wire_response(situation: Situation) -> WireResponse:
    has_unstreamed_form = "anthropic_messages" in situation.unstreamed_targets
    return WireResponse(
        encode_events(stream_events(situation)), json.dumps(response_body(situation)).encode() if has_unstreamed_form else None
    )


def encode_events(event_bodies: list[Event]) -> bytes:
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in event_bodies)


def message(**more: Any) -> dict[str, Any]:
    return {
        "id": "msg_engine",
        "type": "message",
        "role": "assistant",
        "model": "engine-model",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        **more,
    }


def stream_events(situation: Situation) -> list[Event]:
    usage_body = usage(situation)
    bodies: list[Event] = [{"type": "message_start", "message": message(usage={**usage_body, "output_tokens": 1})}, {"type": "ping"}]
    for step in stream_steps(situation):
        bodies += _step_events(situation, step)
    delta = {"stop_reason": stop_reason(situation), "stop_sequence": situation.stop_sequence}
    return [*bodies, {"type": "message_delta", "delta": delta, "usage": usage_body}, {"type": "message_stop"}]


def _step_events(situation: Situation, step: StreamStep) -> list[Event]:
    part = situation.parts[step.at]
    start, deltas, last = _block_start_deltas_and_last(part, step)
    index = {"index": step.at}
    bodies: list[Event] = [{"type": "content_block_start", **index, "content_block": start}] if step.first else []
    bodies += [{"type": "content_block_delta", **index, "delta": each} for each in deltas]
    if step.last:
        bodies += [{"type": "content_block_delta", **index, "delta": each} for each in last]
        bodies.append({"type": "content_block_stop", **index})
    return bodies


def _block_start_deltas_and_last(part: object, step: StreamStep) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    match part:
        case Text():
            citations = [{"type": "citations_delta", "citation": json.loads(bytes(each.raw))} for each in part.citations]
            start: dict[str, Any] = {"type": "text", "text": "", **({"citations": []} if citations else {})}
            return start, [{"type": "text_delta", "text": step.piece}], citations
        case Reasoning():
            assert part.opaque_state is not None, "Anthropic signs all its thinking"
            deltas = [{"type": "thinking_delta", "thinking": step.piece}] if step.piece else []
            return (
                {"type": "thinking", "thinking": "", "signature": ""},
                deltas,
                [{"type": "signature_delta", "signature": part.opaque_state.data}],
            )
        case ToolCall():
            called: dict[str, Any] = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            first = [{"type": "input_json_delta", "partial_json": ""}] if step.first else []
            return called, first + ([{"type": "input_json_delta", "partial_json": step.piece}] if step.piece else []), []
        case Opaque():
            block: dict[str, Any] = json.loads(bytes(part.raw))
            if "input" not in block:
                return block, [], []
            # The call of a tool that the host runs is streamed like any other call.
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}], []
        case _:
            raise AssertionError("Anthropic has no such part")


def response_body(situation: Situation) -> dict[str, Any]:
    return message(
        content=[_block(part) for part in situation.parts],
        stop_reason=stop_reason(situation),
        stop_sequence=situation.stop_sequence,
        usage=usage(situation),
    )


def _block(part: object) -> dict[str, Any]:
    match part:
        case Text():
            citations = [json.loads(bytes(each.raw)) for each in part.citations]
            return {"type": "text", "text": part.text, **({"citations": citations} if citations else {})}
        case Reasoning():
            assert part.opaque_state is not None
            return {"type": "thinking", "thinking": part.text, "signature": part.opaque_state.data}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": json.loads(part.arguments or "{}")}
        case Opaque():
            return json.loads(bytes(part.raw))
        case Refusal() | _:
            raise AssertionError("Anthropic has no such part")


def stop_reason(situation: Situation) -> str:
    return situation.native_finish_reason or _STOPS[situation.finish]


def usage(situation: Situation) -> dict[str, Any]:
    counts = situation.usage
    assert counts is not None and counts.input is not None, "Anthropic always reports usage"
    cached, cache_written = counts.cached or 0, counts.cache_written or 0
    return {
        "input_tokens": counts.input - cached - cache_written,
        "cache_creation_input_tokens": cache_written,
        "cache_read_input_tokens": cached,
        "output_tokens": counts.output,
        **({} if counts.reasoning is None else {"output_tokens_details": {"thinking_tokens": counts.reasoning}}),
    }
