"""Recorded requests and answers in OpenAI's chat, read plainly: what was asked, what must be heard, and what of a body means the same."""

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
from providers.structured_output import JsonSchema
from tests.conformance.situations import CHAT, Situation
from tests.exchanges.hosts.recordings import Recording

_NUMBERS = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")
_READ = {
    *("model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens", "tools", "tool_choice"),
    *("reasoning", "reasoning_effort", "response_format", *_NUMBERS),
}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def chat_of(recording: Recording) -> ChatRequest:
    asked = recording.asked
    reasoning: dict[str, Any] = asked.get("reasoning") or {}
    effort: Effort | None = asked.get("reasoning_effort") or reasoning.get("effort")
    format: dict[str, Any] = asked.get("response_format") or {"type": "text"}
    numbers: dict[str, Any] = {key: asked.get(key) for key in _NUMBERS}
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=tuple(_message(each) for each in asked["messages"]),
        tools=tuple(_tool(each["function"]) for each in asked.get("tools", ())),
        tool_choice=_choice(asked.get("tool_choice")),
        output=None if format["type"] == "text" else _schema(format["json_schema"]),
        thinking=None if effort is None else Thinking(effort),
        max_tokens=asked.get("max_completion_tokens") or asked.get("max_tokens"),
        extra={key: raw(value) for key, value in asked.items() if key not in _READ},
        **numbers,
    )


def _message(said: dict[str, Any]) -> Message:
    content = said.get("content")
    texts = [{"text": content}] if isinstance(content, str) else content or []
    thoughts = said.get("reasoning") or said.get("reasoning_content")
    parts: list[Content] = [*([Reasoning(thoughts)] if thoughts else []), *(_part(each) for each in texts)]
    if said["role"] == "tool":
        return Message("user", (ToolResult(said["tool_call_id"], tuple(part for part in parts if isinstance(part, Text))),))
    parts += [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in said.get("tool_calls", ())]
    return Message(said["role"], tuple(parts))


def _part(said: dict[str, Any]) -> Content:
    match said:
        case {"image_url": {"url": str(url), **rest}}:
            return Image(Url(url) if url.startswith("https:") else _inline(url), rest.get("detail"))
        case {"file": {"file_data": str(data), "filename": str(name)}}:
            return File(_inline(data), name)
        case {"input_audio": {"data": str(data), "format": str(kind)}}:
            return Audio(Inline(f"audio/{kind}", data))
        case _:
            return Text(said["text"], extra={key: raw(value) for key, value in said.items() if key not in ("type", "text")})


def _inline(url: str) -> Inline:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return Inline(kind, data)


def _tool(said: dict[str, Any]) -> Tool:
    return Tool(said["name"], said.get("description"), raw(said["parameters"]), said.get("strict"))


def _choice(said: Any) -> ToolChoice | None:
    match said:
        case None:
            return None
        case "auto" | "none" | "required":
            return ToolChoice(said)
        case _:
            return ToolChoice("named", said["function"]["name"])


def _schema(said: dict[str, Any]) -> JsonSchema:
    return JsonSchema(raw(said["schema"]), said.get("name"), said.get("description"), said.get("strict"))


def alike(body: Any) -> Any:
    """Without what says nothing; and by one name what has two."""
    told = {key: value for key, value in body.items() if value is not None and key not in ("model", "stream", "stream_options")}
    most = told.pop("max_completion_tokens", None) or told.pop("max_tokens", None)
    told.pop("n", None)
    if told.get("response_format") == {"type": "text"}:
        del told["response_format"]
    if "reasoning_effort" in told:
        told["reasoning"] = {"effort": told.pop("reasoning_effort")}
    if "tools" in told:
        told["tools"] = [_plain_tool(each["function"]) for each in told["tools"]]
    return {**told, "most": most, "messages": [_plain_message(each) for each in body["messages"]]}


def _plain_tool(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value not in (None, "", False) and key != "type"}


def _plain_message(said: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in said.items() if value is not None}
    if told["role"] == "developer":
        told["role"] = "system"
    match told.get("content"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            told["content"] = text
        case _:
            pass
    return told


# Together's older models say it so (/reference/providers.md part 3).
_FINISHES = {"eos": "stop"}


def situation_of(recording: Recording) -> Situation:
    """An answer with one choice, whole or in chunks."""
    bodies = recording.events if recording.streamed else [recording.body]
    thoughts, text, finish = "", "", ""
    calls: dict[int, dict[str, str]] = {}
    usage: dict[str, Any] | None = None
    seal: str | None = None
    found: list[Citation] = []
    for body in bodies:
        usage = body.get("usage") or usage
        for choice in body["choices"]:
            said = choice["delta"] if recording.streamed else choice["message"]
            thoughts += said.get("reasoning") or said.get("reasoning_content") or ""
            found += [_cited(each) for each in said.get("annotations") or ()]
            text += said.get("content") or ""
            for each in said.get("reasoning_details") or ():
                seal = json.dumps({key: value for key, value in each.items() if key != "text"}, separators=(",", ":"))
            for at, call in enumerate(said.get("tool_calls") or ()):
                known = calls.setdefault(call.get("index", at), {"id": "", "name": "", "arguments": ""})
                known["id"] = call.get("id") or known["id"]
                known["name"] = call["function"].get("name") or known["name"]
                known["arguments"] += call["function"].get("arguments") or ""
            finish = choice.get("finish_reason") or finish
    parts: list[Part] = []
    if thoughts:
        parts.append(Reasoning(thoughts, None if seal is None else OpaqueState(CHAT, seal)))
    if text:
        parts.append(Text(text, tuple(found)))
    parts += [ToolCall(each["id"], each["name"], each["arguments"]) for each in calls.values()]
    return Situation(
        name=recording.name, parts=tuple(parts), finish=_FINISHES.get(finish, finish), usage=None if usage is None else _usage(usage)
    )


def _cited(said: dict[str, Any]) -> Citation:
    held = said["url_citation"]
    return Citation(CHAT, raw(said), held["url"], held.get("title"))


def _usage(told: dict[str, Any]) -> Usage:
    asked: dict[str, Any] = told.get("prompt_tokens_details") or {}
    made: dict[str, Any] = told.get("completion_tokens_details") or {}
    return Usage(
        input=told["prompt_tokens"],
        output=told["completion_tokens"],
        cached=asked.get("cached_tokens", told.get("cached_tokens")),
        reasoning=made.get("reasoning_tokens"),
        cache_written=asked.get("cache_write_tokens"),
    )
