"""Recorded exchanges of OpenAI Responses: the request as a ChatRequest, the response as a Situation, and bodies in a comparable form.

Independent of providers/, which the tests check against it.
"""

from typing import Any

from providers.canonical.chat import (
    ChatRequest,
    Citation,
    Content,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    Usage,
)
from tests.conformance.situations import RESPONSES, Situation
from tests.replay.hosts.openai_compatible_bodies import raw
from tests.replay.hosts.recordings import Recording


def chat_of(recording: Recording) -> ChatRequest:
    request_body = recording.request_body
    instructions = [Message("system", (Text(request_body["instructions"]),))] if "instructions" in request_body else []
    return ChatRequest(
        origin=RESPONSES,
        model="",
        messages=(*instructions, *map(_message, request_body["input"])),
        tools=tuple(map(_tool, request_body.get("tools", ()))),
        tool_choice=None if "tool_choice" not in request_body else ToolChoice(request_body["tool_choice"]),
        thinking=None if "reasoning" not in request_body else Thinking(request_body["reasoning"]["effort"]),
        max_tokens=request_body.get("max_output_tokens"),
        store=request_body.get("store"),
    )


def _tool(tool: dict[str, Any]) -> Tool | HostTool:
    if tool["type"] != "function":
        return HostTool(RESPONSES, tool["type"], raw(tool))
    return Tool(tool["name"], tool["description"], raw(tool["parameters"]), tool["strict"])


def _message(message: dict[str, Any]) -> Message:
    match message:
        case {"type": "reasoning"}:
            (summary,) = message["summary"]
            return Message("assistant", (Reasoning(summary["text"], OpaqueState(RESPONSES, message["encrypted_content"])),))
        case {"type": "function_call"}:
            return Message("assistant", (ToolCall(message["call_id"], message["name"], message["arguments"]),))
        case {"type": "function_call_output"}:
            return Message("user", (ToolResult(message["call_id"], (Text(message["output"]),)),))
        case {"content": str(text)}:
            return Message(message["role"], (Text(text),))
        case _:
            return Message(message["role"], tuple(_content(each) for each in message["content"]))


def _content(part: dict[str, Any]) -> Content:
    if part["type"] in ("input_text", "output_text"):
        return Text(part["text"])
    if "file_url" in part:
        return File(Url(part["file_url"]))
    if "file_data" in part:
        head, _, data = part["file_data"].partition(";base64,")
        return File(Inline(head.removeprefix("data:"), data), part["filename"])
    head, _, data = part["image_url"].partition(";base64,")
    return Image(Inline(head.removeprefix("data:"), data))


def normalize(body: Any) -> Any:
    """Returns the body without empty fields and default values.

    A text becomes a list of one, and instructions become the first item of the input.
    """
    normalized = {key: value for key, value in body.items() if value is not None and key not in _GATEWAY_FIELDS}
    items = [_normalize_item(each) for each in body["input"]]
    if "instructions" in normalized:
        items.insert(0, _normalize_item({"role": "system", "content": normalized.pop("instructions")}))
    return {**normalized, "input": items}


# The gateway stores responses itself, and always requests reasoning that can be sent back.
_GATEWAY_FIELDS = ("model", "stream", "store", "include")


_DEFAULTS = (("type", "message"), ("status", "completed"))


def _normalize_item(message: dict[str, Any]) -> dict[str, Any]:
    normalized = {key: value for key, value in message.items() if value is not None and (key, value) not in _DEFAULTS and key != "id"}
    if normalized.get("role") == "developer":
        normalized["role"] = "system"
    kind = "output_text" if normalized.get("role") == "assistant" else "input_text"
    if isinstance(normalized.get("content"), str):
        normalized["content"] = [{"type": kind, "text": normalized["content"]}]
    if "content" in normalized:
        normalized["content"] = [{key: value for key, value in each.items() if value not in ([], "auto")} for each in normalized["content"]]
    return normalized


_FINISHES = {None: "stop", "content_filter": "content_filter", "max_output_tokens": "length"}


def situation_of(recording: Recording) -> Situation:
    """The response; of a stream, the one in its last event."""
    response = recording.events[-1]["response"] if recording.streamed else recording.body
    parts: list[Part] = []
    for item in response["output"]:
        parts += _parts(item)
    called = any(isinstance(part, ToolCall) for part in parts)
    usage, incomplete = response["usage"], response["incomplete_details"]
    into, out = usage["input_tokens_details"], usage["output_tokens_details"]
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish="tool_calls" if called else _FINISHES[incomplete["reason"] if incomplete else None],
        usage=Usage(
            usage["input_tokens"], usage["output_tokens"], into["cached_tokens"], out["reasoning_tokens"], into.get("cache_write_tokens")
        ),
    )


def _parts(item: dict[str, Any]) -> list[Part]:
    match item:
        case {"type": "reasoning"}:
            text = "\n\n".join(each["text"] for each in item.get("content") or item["summary"])
            encrypted = item.get("encrypted_content")
            return [Reasoning(text, None if encrypted is None else OpaqueState(RESPONSES, encrypted))] if text or encrypted else []
        case {"type": "function_call"}:
            return [ToolCall(item["call_id"], item["name"], item["arguments"])]
        case {"type": "message"}:
            return [_text_with_citations(each) for each in item["content"]]
        case _:
            return [Opaque(RESPONSES, raw(item))]


def _text_with_citations(annotation: dict[str, Any]) -> Text:
    return Text(annotation["text"], tuple(Citation(RESPONSES, raw(each), each["url"]) for each in annotation["annotations"]))
