"""An engine that speaks Anthropic Messages, as its API documents it. Written apart from the dialect, which is tried with it.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming, read 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import Opaque, Reasoning, Refusal, Text, ToolCall
from tests.conformance.situations import Situation, Turn, Wire, turns

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
Event = dict[str, Any]


def speak(situation: Situation) -> Wire:
    says_whole = "anthropic_messages" in situation.whole
    return Wire(events(stream(situation)), json.dumps(whole(situation)).encode() if says_whole else None)


def events(told: list[Event]) -> bytes:
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in told)


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


def stream(situation: Situation) -> list[Event]:
    counted = usage(situation)
    told: list[Event] = [{"type": "message_start", "message": message(usage={**counted, "output_tokens": 1})}, {"type": "ping"}]
    for step in turns(situation):
        told += _step(situation, step)
    delta = {"stop_reason": stop_reason(situation), "stop_sequence": situation.stop_sequence}
    return [*told, {"type": "message_delta", "delta": delta, "usage": counted}, {"type": "message_stop"}]


def _step(situation: Situation, step: Turn) -> list[Event]:
    part = situation.parts[step.at]
    start, deltas, last = _pieces(part, step)
    index = {"index": step.at}
    told: list[Event] = [{"type": "content_block_start", **index, "content_block": start}] if step.first else []
    told += [{"type": "content_block_delta", **index, "delta": each} for each in deltas]
    if step.last:
        told += [{"type": "content_block_delta", **index, "delta": each} for each in last]
        told.append({"type": "content_block_stop", **index})
    return told


def _pieces(part: object, step: Turn) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    match part:
        case Text():
            cited = [{"type": "citations_delta", "citation": json.loads(bytes(each.raw))} for each in part.citations]
            start: dict[str, Any] = {"type": "text", "text": "", **({"citations": []} if cited else {})}
            return start, [{"type": "text_delta", "text": step.piece}], cited
        case Reasoning():
            assert part.opaque_state is not None, "Anthropic signs all its thinking"
            grown = [{"type": "thinking_delta", "thinking": step.piece}] if step.piece else []
            return (
                {"type": "thinking", "thinking": "", "signature": ""},
                grown,
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
            # A tool that the host runs is called as others are.
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}], []
        case _:
            raise AssertionError("Anthropic has no such part")


def whole(situation: Situation) -> dict[str, Any]:
    return message(
        content=[_block(part) for part in situation.parts],
        stop_reason=stop_reason(situation),
        stop_sequence=situation.stop_sequence,
        usage=usage(situation),
    )


def _block(part: object) -> dict[str, Any]:
    match part:
        case Text():
            cited = [json.loads(bytes(each.raw)) for each in part.citations]
            return {"type": "text", "text": part.text, **({"citations": cited} if cited else {})}
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
    return situation.told or _STOPS[situation.finish]


def usage(situation: Situation) -> dict[str, Any]:
    told = situation.usage
    assert told is not None and told.input is not None, "Anthropic always counts"
    cached, written = told.cached or 0, told.cache_written or 0
    return {
        "input_tokens": told.input - cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": told.output,
        **({} if told.reasoning is None else {"output_tokens_details": {"thinking_tokens": told.reasoning}}),
    }
