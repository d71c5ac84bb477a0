"""An engine that speaks OpenAI Responses, as its API documents it. Written apart from the dialect, which is tried with it.

Source: https://platform.openai.com/docs/api-reference/responses-streaming, read 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from tests.conformance.situations import Situation, Wire, turns

Event = dict[str, Any]


def speak(situation: Situation) -> Wire:
    return Wire(events(stream(situation)), json.dumps(whole(situation)).encode())


def events(told: list[Event]) -> bytes:
    numbered = [{**each, "sequence_number": number} for number, each in enumerate(told)]
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in numbered)


def response(**more: Any) -> dict[str, Any]:
    return {
        "id": "resp_engine",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "engine-model",
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **more,
    }


def stream(situation: Situation) -> list[Event]:
    told: list[Event] = [{"type": "response.created", "response": response()}, {"type": "response.in_progress", "response": response()}]
    for step in turns(situation):
        part = situation.parts[step.at]
        if step.first:
            told += _begun(part, step.at)
        if step.piece:
            told.append(_grown(part, step.at, step.piece, situation))
        if step.last:
            told += _ended(part, step.at, situation)
    final = whole(situation)
    return [*told, {"type": f"response.{final['status']}", "response": final}]


def _begun(part: Part, at: int) -> list[Event]:
    place = {"output_index": at, "item_id": _id(part, at)}
    added = {"type": "response.output_item.added", "output_index": at, "item": _item(part, at, begun=True)}
    match part:
        case Text():
            return [added, {"type": "response.content_part.added", **place, "content_index": 0, "part": _output_text("", [], [])}]
        case Refusal():
            return [added, {"type": "response.content_part.added", **place, "content_index": 0, "part": {"type": "refusal", "refusal": ""}}]
        case Reasoning(text=text) if text:
            summary = {"type": "summary_text", "text": ""}
            return [added, {"type": "response.reasoning_summary_part.added", **place, "summary_index": 0, "part": summary}]
        case _:
            return [added]


def _grown(part: Part, at: int, piece: str, situation: Situation) -> Event:
    place = {"output_index": at, "item_id": _id(part, at), "delta": piece}
    match part:
        case Text():
            return {"type": "response.output_text.delta", **place, "content_index": 0, "logprobs": []}
        case Refusal():
            return {"type": "response.refusal.delta", **place, "content_index": 0}
        case Reasoning():
            return {"type": "response.reasoning_summary_text.delta", **place, "summary_index": 0}
        case ToolCall(custom=True):
            return {"type": "response.custom_tool_call_input.delta", **place}
        case ToolCall():
            return {"type": "response.function_call_arguments.delta", **place}
        case Opaque():
            raise AssertionError("not said by this engine")


def _ended(part: Part, at: int, situation: Situation) -> list[Event]:
    place = {"output_index": at, "item_id": _id(part, at)}
    item = _item(part, at, begun=False, situation=situation)
    done = {"type": "response.output_item.done", "output_index": at, "item": item}
    match part:
        case Text():
            content = item["content"][0]
            noted = [
                {
                    "type": "response.output_text.annotation.added",
                    **place,
                    "content_index": 0,
                    "annotation_index": number,
                    "annotation": each,
                }
                for number, each in enumerate(content["annotations"])
            ]
            told = {"type": "response.output_text.done", **place, "content_index": 0, "text": part.text, "logprobs": content["logprobs"]}
            return [*noted, told, {"type": "response.content_part.done", **place, "content_index": 0, "part": content}, done]
        case Refusal():
            told = {"type": "response.refusal.done", **place, "content_index": 0, "refusal": part.text}
            return [told, {"type": "response.content_part.done", **place, "content_index": 0, "part": item["content"][0]}, done]
        case Reasoning(text=text) if text:
            summary = item["summary"][0]
            told = {"type": "response.reasoning_summary_text.done", **place, "summary_index": 0, "text": text}
            return [told, {"type": "response.reasoning_summary_part.done", **place, "summary_index": 0, "part": summary}, done]
        case ToolCall(custom=True):
            return [{"type": "response.custom_tool_call_input.done", **place, "input": part.arguments}, done]
        case ToolCall():
            told = {"type": "response.function_call_arguments.done", **place, "name": part.name, "arguments": part.arguments}
            return [told, done]
        case _:
            return [done]


def whole(situation: Situation) -> dict[str, Any]:
    output = [_item(part, at, begun=False, situation=situation) for at, part in enumerate(situation.parts)]
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(situation.finish)
    return response(
        status="completed" if reason is None else "incomplete",
        incomplete_details=None if reason is None else {"reason": reason},
        output=output,
        usage=usage(situation),
    )


def _id(part: Part, at: int) -> str:
    return {Text: "msg", Refusal: "msg", Reasoning: "rs", ToolCall: "fc", Opaque: "ws"}[type(part)] + f"_{at}"


def _item(part: Part, at: int, *, begun: bool, situation: Situation | None = None) -> dict[str, Any]:
    status = "in_progress" if begun else "completed"
    if situation is not None and situation.finish in ("length", "content_filter") and at == len(situation.parts) - 1:
        status = "incomplete"
    head: dict[str, Any] = {"id": _id(part, at), "status": status}
    match part:
        case Text():
            logprobs = [] if situation is None or situation.logprobs is None else [json.loads(bytes(raw)) for raw in situation.logprobs]
            annotations = [json.loads(bytes(each.raw)) for each in part.citations]
            content = [] if begun else [_output_text(part.text, annotations, logprobs)]
            return {**head, "type": "message", "role": "assistant", "content": content}
        case Refusal():
            return {**head, "type": "message", "role": "assistant", "content": [] if begun else [{"type": "refusal", "refusal": part.text}]}
        case Reasoning():
            summary = [] if begun or not part.text else [{"type": "summary_text", "text": part.text}]
            sealed = {} if begun or part.opaque_state is None else {"encrypted_content": part.opaque_state.data}
            return {"id": head["id"], "type": "reasoning", "summary": summary, **sealed}
        case ToolCall(custom=True):
            written = "" if begun else part.arguments
            return {**head, "type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": written}
        case ToolCall():
            written = "" if begun else part.arguments
            return {**head, "type": "function_call", "call_id": part.id, "name": part.name, "arguments": written}
        case Opaque():
            return {**json.loads(bytes(part.raw)), **({"status": "in_progress"} if begun else {})}


def _output_text(text: str, annotations: list[Any], logprobs: list[Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}


def usage(situation: Situation) -> dict[str, Any] | None:
    told = situation.usage
    if told is None:
        return None
    return {
        "input_tokens": told.input,
        "input_tokens_details": {"cached_tokens": told.cached or 0, "cache_write_tokens": told.cache_written or 0},
        "output_tokens": told.output,
        "output_tokens_details": {"reasoning_tokens": told.reasoning or 0},
        "total_tokens": (told.input or 0) + (told.output or 0),
    }
