"""Writes the responses of an engine that speaks OpenAI Responses, as its API documents it.

Independent of the dialect in providers/, which the tests check against it.

Source: https://platform.openai.com/docs/api-reference/responses-streaming, read 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall
from tests.conformance.situations import Situation, WireResponse, stream_steps

Event = dict[str, Any]


def wire_response(situation: Situation) -> WireResponse:
    return WireResponse(encode_events(stream_events(situation)), json.dumps(response_body(situation)).encode())


def encode_events(event_bodies: list[Event]) -> bytes:
    numbered = [{**each, "sequence_number": number} for number, each in enumerate(event_bodies)]
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


def stream_events(situation: Situation) -> list[Event]:
    bodies: list[Event] = [{"type": "response.created", "response": response()}, {"type": "response.in_progress", "response": response()}]
    for step in stream_steps(situation):
        part = situation.parts[step.at]
        if step.first:
            bodies += _start_events(part, step.at)
        if step.piece:
            bodies.append(_delta_event(part, step.at, step.piece, situation))
        if step.last:
            bodies += _done_events(part, step.at, situation)
    final = response_body(situation)
    return [*bodies, {"type": f"response.{final['status']}", "response": final}]


def _start_events(part: Part, at: int) -> list[Event]:
    position = {"output_index": at, "item_id": _id(part, at)}
    added = {"type": "response.output_item.added", "output_index": at, "item": _item(part, at, in_progress=True)}
    match part:
        case Text():
            return [added, {"type": "response.content_part.added", **position, "content_index": 0, "part": _output_text("", [], [])}]
        case Refusal():
            return [
                added,
                {"type": "response.content_part.added", **position, "content_index": 0, "part": {"type": "refusal", "refusal": ""}},
            ]
        case Reasoning(text=text) if text:
            summary = {"type": "summary_text", "text": ""}
            return [added, {"type": "response.reasoning_summary_part.added", **position, "summary_index": 0, "part": summary}]
        case _:
            return [added]


def _delta_event(part: Part, at: int, piece: str, situation: Situation) -> Event:
    position = {"output_index": at, "item_id": _id(part, at), "delta": piece}
    match part:
        case Text():
            return {"type": "response.output_text.delta", **position, "content_index": 0, "logprobs": []}
        case Refusal():
            return {"type": "response.refusal.delta", **position, "content_index": 0}
        case Reasoning():
            return {"type": "response.reasoning_summary_text.delta", **position, "summary_index": 0}
        case ToolCall(custom=True):
            return {"type": "response.custom_tool_call_input.delta", **position}
        case ToolCall():
            return {"type": "response.function_call_arguments.delta", **position}
        case Opaque():
            raise AssertionError("this engine streams no deltas of opaque parts")


def _done_events(part: Part, at: int, situation: Situation) -> list[Event]:
    position = {"output_index": at, "item_id": _id(part, at)}
    item = _item(part, at, in_progress=False, situation=situation)
    done = {"type": "response.output_item.done", "output_index": at, "item": item}
    match part:
        case Text():
            content = item["content"][0]
            annotations_added = [
                {
                    "type": "response.output_text.annotation.added",
                    **position,
                    "content_index": 0,
                    "annotation_index": number,
                    "annotation": each,
                }
                for number, each in enumerate(content["annotations"])
            ]
            text_done = {
                "type": "response.output_text.done",
                **position,
                "content_index": 0,
                "text": part.text,
                "logprobs": content["logprobs"],
            }
            return [
                *annotations_added,
                text_done,
                {"type": "response.content_part.done", **position, "content_index": 0, "part": content},
                done,
            ]
        case Refusal():
            text_done = {"type": "response.refusal.done", **position, "content_index": 0, "refusal": part.text}
            return [text_done, {"type": "response.content_part.done", **position, "content_index": 0, "part": item["content"][0]}, done]
        case Reasoning(text=text) if text:
            summary = item["summary"][0]
            text_done = {"type": "response.reasoning_summary_text.done", **position, "summary_index": 0, "text": text}
            return [text_done, {"type": "response.reasoning_summary_part.done", **position, "summary_index": 0, "part": summary}, done]
        case ToolCall(custom=True):
            return [{"type": "response.custom_tool_call_input.done", **position, "input": part.arguments}, done]
        case ToolCall():
            text_done = {"type": "response.function_call_arguments.done", **position, "name": part.name, "arguments": part.arguments}
            return [text_done, done]
        case _:
            return [done]


def response_body(situation: Situation) -> dict[str, Any]:
    output = [_item(part, at, in_progress=False, situation=situation) for at, part in enumerate(situation.parts)]
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(situation.finish)
    return response(
        status="completed" if reason is None else "incomplete",
        incomplete_details=None if reason is None else {"reason": reason},
        output=output,
        usage=usage(situation),
    )


def _id(part: Part, at: int) -> str:
    return {Text: "msg", Refusal: "msg", Reasoning: "rs", ToolCall: "fc", Opaque: "ws"}[type(part)] + f"_{at}"


def _item(part: Part, at: int, *, in_progress: bool, situation: Situation | None = None) -> dict[str, Any]:
    status = "in_progress" if in_progress else "completed"
    if situation is not None and situation.finish in ("length", "content_filter") and at == len(situation.parts) - 1:
        status = "incomplete"
    head: dict[str, Any] = {"id": _id(part, at), "status": status}
    match part:
        case Text():
            logprobs = [] if situation is None or situation.logprobs is None else [json.loads(bytes(raw)) for raw in situation.logprobs]
            annotations = [json.loads(bytes(each.raw)) for each in part.citations]
            content = [] if in_progress else [_output_text(part.text, annotations, logprobs)]
            return {**head, "type": "message", "role": "assistant", "content": content}
        case Refusal():
            return {
                **head,
                "type": "message",
                "role": "assistant",
                "content": [] if in_progress else [{"type": "refusal", "refusal": part.text}],
            }
        case Reasoning():
            summary = [] if in_progress or not part.text else [{"type": "summary_text", "text": part.text}]
            encrypted = {} if in_progress or part.opaque_state is None else {"encrypted_content": part.opaque_state.data}
            return {"id": head["id"], "type": "reasoning", "summary": summary, **encrypted}
        case ToolCall(custom=True):
            arguments = "" if in_progress else part.arguments
            return {**head, "type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": arguments}
        case ToolCall():
            arguments = "" if in_progress else part.arguments
            return {**head, "type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
        case Opaque():
            return {**json.loads(bytes(part.raw)), **({"status": "in_progress"} if in_progress else {})}


def _output_text(text: str, annotations: list[Any], logprobs: list[Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}


def usage(situation: Situation) -> dict[str, Any] | None:
    counts = situation.usage
    if counts is None:
        return None
    return {
        "input_tokens": counts.input,
        "input_tokens_details": {"cached_tokens": counts.cached or 0, "cache_write_tokens": counts.cache_written or 0},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning or 0},
        "total_tokens": (counts.input or 0) + (counts.output or 0),
    }
