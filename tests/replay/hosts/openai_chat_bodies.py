"""Recorded exchanges of OpenAI chat with media: requests as ChatRequest, responses as Situation, and bodies in a comparable form.

Independent of providers/, which the tests check against it.
"""

from typing import Any

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Content,
    File,
    Image,
    Inline,
    Message,
    Part,
    Reasoning,
    Refusal,
    Source,
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
from tests.replay.hosts.openai_compatible_bodies import raw
from tests.replay.hosts.recordings import Recording

_SAME_NAMED_FIELDS = ("temperature", "logprobs", "metadata", "store")
_KNOWN_FIELDS = (
    *("model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools", "tool_choice"),
    *("reasoning_effort", "thinking", "response_format", "prompt_cache_key", *_SAME_NAMED_FIELDS),
)


def chat_of(recording: Recording) -> ChatRequest:
    request_body = recording.request_body
    response_format: dict[str, Any] = request_body.get("response_format") or {}
    format: Any = response_format.get("json_schema")
    same: dict[str, Any] = {key: request_body[key] for key in _SAME_NAMED_FIELDS if key in request_body}
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=tuple(_message(each) for each in request_body["messages"]),
        tools=tuple(tool_of(each["function"]) for each in request_body.get("tools", ())),
        tool_choice=choice_of(request_body.get("tool_choice")),
        output=None if format is None else JsonSchema(raw(format["schema"]), format["name"], format.get("description"), format["strict"]),
        thinking=_thinking(request_body),
        max_tokens=request_body.get("max_completion_tokens") or request_body.get("max_tokens"),
        cache_key=request_body.get("prompt_cache_key"),
        extra={key: raw(value) for key, value in request_body.items() if key not in _KNOWN_FIELDS},
        **same,
    )


def _thinking(request_body: dict[str, Any]) -> Thinking | None:
    """The reasoning effort; DeepSeek's default is "high"."""
    match request_body.get("thinking"):
        case {"type": "disabled"}:
            return Thinking("none")
        case {"type": "enabled"}:
            return Thinking("high")
        case _:
            return None if "reasoning_effort" not in request_body else Thinking(request_body["reasoning_effort"])


def tool_of(function: dict[str, Any]) -> Tool:
    return Tool(function["name"], function.get("description"), raw(function["parameters"]), function.get("strict"))


def choice_of(choice: Any) -> ToolChoice | None:
    match choice:
        case None:
            return None
        case {"function": {"name": str(name)}}:
            return ToolChoice("named", name)
        case _:
            return ToolChoice(choice)


def _message(message: dict[str, Any]) -> Message:
    content = message.get("content")
    parts: list[Content] = []
    if message.get("reasoning_content"):
        parts.append(Reasoning(message["reasoning_content"]))
    parts += [Text(content)] if isinstance(content, str) else [_part(each) for each in content or ()]
    if message["role"] == "tool":
        return Message("user", (ToolResult(message["tool_call_id"], tuple(part for part in parts if isinstance(part, Text))),))
    parts += [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    return Message(message["role"], tuple(part for part in parts if part != Text("")))


def _part(part: dict[str, Any]) -> Content:
    match part:
        case {"type": "text", "text": str(text), **rest}:
            return Text(text, extra={key: raw(value) for key, value in rest.items()})
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            return Image(_source(url), rest.get("detail"))
        case {"type": "file", "file": {"file_data": str(data), **rest}}:
            return File(_source(data), rest.get("filename"))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return Audio(Inline(f"audio/{kind}", data))
        case _:
            raise AssertionError(f"unknown part: {part}")


def _source(url: str) -> Source:
    head, _, data = url.partition(";base64,")
    return Inline(head.removeprefix("data:"), data) if url.startswith("data:") else Url(url)


def normalize(body: Any) -> Any:
    """Returns the body without empty fields and default values, and with one name for synonyms."""
    normalized: dict[str, Any] = {
        key: body[key] for key in body if body[key] is not None and key not in ("model", "stream", "stream_options")
    }
    neutral: dict[str, Any] = {"store": False, "thinking": {"type": "enabled"}}
    normalized = {key: value for key, value in normalized.items() if key not in neutral or neutral[key] != value}
    max_tokens = normalized.pop("max_completion_tokens", None) or normalized.pop("max_tokens", None)
    if "tools" in normalized:
        tools = [each["function"] for each in normalized["tools"]]
        normalized["tools"] = [{key: value for key, value in each.items() if value not in (None, False, "")} for each in tools]
    return {**normalized, "max_tokens": max_tokens, "messages": [_normalize_message(each) for each in body["messages"]]}


def _normalize_message(message: dict[str, Any]) -> dict[str, Any]:
    normalized = {key: value for key, value in message.items() if value not in (None, "")}
    match normalized.get("content"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            normalized["content"] = text
        case _:
            pass
    if "tool_calls" in normalized:
        normalized["tool_calls"] = [{key: value for key, value in each.items() if key != "index"} for each in normalized["tool_calls"]]
    return normalized


def situation_of(recording: Recording) -> Situation:
    """The response with its one choice, unstreamed or in chunks."""
    reasoning, text, refusal, finish = "", "", "", ""
    calls: dict[int, list[str]] = {}
    usage: Any = None
    logprobs: list[Any] = []
    for body in recording.events if recording.streamed else [recording.body]:
        usage = body.get("usage") or usage
        for choice in body["choices"]:
            message = choice["delta"] if recording.streamed else choice["message"]
            reasoning += message.get("reasoning_content") or ""
            text += message.get("content") or ""
            refusal += message.get("refusal") or ""
            for at, each in enumerate(message.get("tool_calls") or ()):
                known = calls.setdefault(each.get("index", at), [each.get("id"), each["function"].get("name"), ""])
                known[2] += each["function"].get("arguments") or ""
            response: dict[str, Any] = choice.get("logprobs") or {}
            logprobs += response.get("content") or []
            finish = choice.get("finish_reason") or finish
    parts: list[Part] = [kind(content) for kind, content in ((Reasoning, reasoning), (Text, text), (Refusal, refusal)) if content]
    parts += [ToolCall(id, name, arguments) for id, name, arguments in calls.values()]
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish=finish,
        usage=None if usage is None else _usage(recording, usage),
        logprobs=tuple(raw(each) for each in logprobs) or None,
    )


def _usage(recording: Recording, counts: dict[str, Any]) -> Usage:
    """Usage with reasoning included in the output: xAI does not include it."""
    input_details: dict[str, Any] = counts.get("prompt_tokens_details") or {}
    output_details: dict[str, Any] = counts.get("completion_tokens_details") or {}
    reasoning = output_details.get("reasoning_tokens")
    return Usage(
        input=counts["prompt_tokens"],
        output=counts["completion_tokens"] + (reasoning if recording.folder == "xai" else 0),
        cached=input_details.get("cached_tokens"),
        reasoning=reasoning,
        cache_written=input_details.get("cache_write_tokens"),
    )
