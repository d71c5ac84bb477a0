"""Recorded exchanges of OpenAI-compatible chat: the request as a ChatRequest, the response as a Situation, and bodies in a comparable form.

Independent of providers/, which the tests check against it.
"""

import json
from typing import Any

from msgspec import Raw

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Citation,
    Content,
    Effort,
    File,
    Image,
    Inline,
    Message,
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
from providers.canonical.output_format import JsonSchema
from tests.conformance.situations import CHAT, Situation
from tests.replay.hosts.recordings import Recording

_NUMBERS = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")
_KNOWN_FIELDS = {
    *("model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "tools", "tool_choice"),
    *("reasoning", "reasoning_effort", "response_format", *_NUMBERS),
}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def chat_of(recording: Recording) -> ChatRequest:
    request_body = recording.request_body
    reasoning: dict[str, Any] = request_body.get("reasoning") or {}
    effort: Effort | None = request_body.get("reasoning_effort") or reasoning.get("effort")
    format: dict[str, Any] = request_body.get("response_format") or {"type": "text"}
    numbers: dict[str, Any] = {key: request_body.get(key) for key in _NUMBERS}
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=tuple(_message(each) for each in request_body["messages"]),
        tools=tuple(_tool(each["function"]) for each in request_body.get("tools", ())),
        tool_choice=_choice(request_body.get("tool_choice")),
        output=None if format["type"] == "text" else _schema(format["json_schema"]),
        thinking=None if effort is None else Thinking(effort),
        max_tokens=request_body.get("max_completion_tokens") or request_body.get("max_tokens"),
        extra={key: raw(value) for key, value in request_body.items() if key not in _KNOWN_FIELDS},
        **numbers,
    )


def _message(message: dict[str, Any]) -> Message:
    content = message.get("content")
    texts = [{"text": content}] if isinstance(content, str) else content or []
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    parts: list[Content] = [*([Reasoning(reasoning)] if reasoning else []), *(_part(each) for each in texts)]
    if message["role"] == "tool":
        return Message("user", (ToolResult(message["tool_call_id"], tuple(part for part in parts if isinstance(part, Text))),))
    parts += [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    return Message(message["role"], tuple(parts))


def _part(part: dict[str, Any]) -> Content:
    match part:
        case {"image_url": {"url": str(url), **rest}}:
            return Image(Url(url) if url.startswith("https:") else _inline(url), rest.get("detail"))
        case {"file": {"file_data": str(data), "filename": str(name)}}:
            return File(_inline(data), name)
        case {"input_audio": {"data": str(data), "format": str(kind)}}:
            return Audio(Inline(f"audio/{kind}", data))
        case _:
            return Text(part["text"], extra={key: raw(value) for key, value in part.items() if key not in ("type", "text")})


def _inline(url: str) -> Inline:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return Inline(kind, data)


def _tool(tool: dict[str, Any]) -> Tool:
    return Tool(tool["name"], tool.get("description"), raw(tool["parameters"]), tool.get("strict"))


def _choice(choice: Any) -> ToolChoice | None:
    match choice:
        case None:
            return None
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case _:
            return ToolChoice("named", choice["function"]["name"])


def _schema(json_schema: dict[str, Any]) -> JsonSchema:
    return JsonSchema(raw(json_schema["schema"]), json_schema.get("name"), json_schema.get("description"), json_schema.get("strict"))


def normalize(body: Any) -> Any:
    """Returns the body without empty fields and default values, and with one name for synonyms."""
    normalized = {key: value for key, value in body.items() if value is not None and key not in ("model", "stream", "stream_options")}
    max_tokens = normalized.pop("max_completion_tokens", None) or normalized.pop("max_tokens", None)
    normalized.pop("n", None)
    if normalized.get("response_format") == {"type": "text"}:
        del normalized["response_format"]
    if "reasoning_effort" in normalized:
        normalized["reasoning"] = {"effort": normalized.pop("reasoning_effort")}
    if "tools" in normalized:
        normalized["tools"] = [_normalize_tool(each["function"]) for each in normalized["tools"]]
    return {**normalized, "max_tokens": max_tokens, "messages": [_normalize_message(each) for each in body["messages"]]}


def _normalize_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if value not in (None, "", False) and key != "type"}


def _normalize_message(message: dict[str, Any]) -> dict[str, Any]:
    normalized = {key: value for key, value in message.items() if value is not None}
    if normalized["role"] == "developer":
        normalized["role"] = "system"
    match normalized.get("content"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            normalized["content"] = text
        case _:
            pass
    return normalized


# Together's older models (docs/sources.md#together).
_FINISHES = {"eos": "stop"}


def situation_of(recording: Recording) -> Situation:
    """The response with its one choice, unstreamed or in chunks."""
    bodies = recording.events if recording.streamed else [recording.body]
    reasoning, text, finish = "", "", ""
    calls: dict[int, dict[str, str]] = {}
    usage: dict[str, Any] | None = None
    signature: str | None = None
    citations: list[Citation] = []
    for body in bodies:
        usage = body.get("usage") or usage
        for choice in body["choices"]:
            message = choice["delta"] if recording.streamed else choice["message"]
            reasoning += message.get("reasoning") or message.get("reasoning_content") or ""
            citations += [_citation(each) for each in message.get("annotations") or ()]
            text += message.get("content") or ""
            for each in message.get("reasoning_details") or ():
                signature = json.dumps({key: value for key, value in each.items() if key != "text"}, separators=(",", ":"))
            for at, call in enumerate(message.get("tool_calls") or ()):
                known = calls.setdefault(call.get("index", at), {"id": "", "name": "", "arguments": ""})
                known["id"] = call.get("id") or known["id"]
                known["name"] = call["function"].get("name") or known["name"]
                known["arguments"] += call["function"].get("arguments") or ""
            finish = choice.get("finish_reason") or finish
    parts: list[Part] = []
    if reasoning:
        parts.append(Reasoning(reasoning, None if signature is None else OpaqueState(CHAT, signature)))
    if text:
        parts.append(Text(text, tuple(citations)))
    parts += [ToolCall(each["id"], each["name"], each["arguments"]) for each in calls.values()]
    return Situation(
        name=recording.name, parts=tuple(parts), finish=_FINISHES.get(finish, finish), usage=None if usage is None else _usage(usage)
    )


def _citation(annotation: dict[str, Any]) -> Citation:
    citation = annotation["url_citation"]
    return Citation(CHAT, raw(annotation), citation["url"], citation.get("title"))


def _usage(counts: dict[str, Any]) -> Usage:
    input_details: dict[str, Any] = counts.get("prompt_tokens_details") or {}
    output_details: dict[str, Any] = counts.get("completion_tokens_details") or {}
    return Usage(
        input=counts["prompt_tokens"],
        output=counts["completion_tokens"],
        cached=input_details.get("cached_tokens", counts.get("cached_tokens")),
        reasoning=output_details.get("reasoning_tokens"),
        cache_written=input_details.get("cache_write_tokens"),
    )
