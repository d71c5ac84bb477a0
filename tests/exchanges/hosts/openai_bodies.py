"""Recorded bodies of OpenAI's own chat and of what is alike to it, read plainly: with media, reasoning, refusals."""

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
from providers.structured_output import JsonSchema
from tests.conformance.situations import CHAT, Situation
from tests.exchanges.hosts.plain_openai import raw
from tests.exchanges.hosts.recordings import Recording

_SAME = ("temperature", "logprobs", "metadata", "store")
_READ = (
    *("model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools", "tool_choice"),
    *("reasoning_effort", "thinking", "response_format", "prompt_cache_key", *_SAME),
)


def chat_of(recording: Recording) -> ChatRequest:
    asked = recording.asked
    wanted: dict[str, Any] = asked.get("response_format") or {}
    format: Any = wanted.get("json_schema")
    same: dict[str, Any] = {key: asked[key] for key in _SAME if key in asked}
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=tuple(_message(each) for each in asked["messages"]),
        tools=tuple(tool_of(each["function"]) for each in asked.get("tools", ())),
        tool_choice=choice_of(asked.get("tool_choice")),
        output=None if format is None else JsonSchema(raw(format["schema"]), format["name"], format.get("description"), format["strict"]),
        thinking=_thinking(asked),
        max_tokens=asked.get("max_completion_tokens") or asked.get("max_tokens"),
        cache_key=asked.get("prompt_cache_key"),
        extra={key: raw(value) for key, value in asked.items() if key not in _READ},
        **same,
    )


def _thinking(asked: dict[str, Any]) -> Thinking | None:
    """DeepSeek's default is "high"."""
    match asked.get("thinking"):
        case {"type": "disabled"}:
            return Thinking("none")
        case {"type": "enabled"}:
            return Thinking("high")
        case _:
            return None if "reasoning_effort" not in asked else Thinking(asked["reasoning_effort"])


def tool_of(said: dict[str, Any]) -> Tool:
    return Tool(said["name"], said.get("description"), raw(said["parameters"]), said.get("strict"))


def choice_of(said: Any) -> ToolChoice | None:
    match said:
        case None:
            return None
        case {"function": {"name": str(name)}}:
            return ToolChoice("named", name)
        case _:
            return ToolChoice(said)


def _message(said: dict[str, Any]) -> Message:
    content = said.get("content")
    parts: list[Content] = []
    if said.get("reasoning_content"):
        parts.append(Reasoning(said["reasoning_content"]))
    parts += [Text(content)] if isinstance(content, str) else [_part(each) for each in content or ()]
    if said["role"] == "tool":
        return Message("user", (ToolResult(said["tool_call_id"], tuple(part for part in parts if isinstance(part, Text))),))
    parts += [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in said.get("tool_calls", ())]
    return Message(said["role"], tuple(part for part in parts if part != Text("")))


def _part(said: dict[str, Any]) -> Content:
    match said:
        case {"type": "text", "text": str(text), **rest}:
            return Text(text, extra={key: raw(value) for key, value in rest.items()})
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            return Image(_source(url), rest.get("detail"))
        case {"type": "file", "file": {"file_data": str(data), **rest}}:
            return File(_source(data), rest.get("filename"))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return Audio(Inline(f"audio/{kind}", data))
        case _:
            raise AssertionError(f"a part that no recording had before: {said}")


def _source(url: str) -> Source:
    head, _, data = url.partition(";base64,")
    return Inline(head.removeprefix("data:"), data) if url.startswith("data:") else Url(url)


def alike(body: Any) -> Any:
    """Without what says nothing, by one name what has two, and in the one place that clients know for it."""
    told: dict[str, Any] = {key: body[key] for key in body if body[key] is not None and key not in ("model", "stream", "stream_options")}
    idle: dict[str, Any] = {"store": False, "thinking": {"type": "enabled"}}
    told = {key: value for key, value in told.items() if key not in idle or idle[key] != value}
    most = told.pop("max_completion_tokens", None) or told.pop("max_tokens", None)
    if "tools" in told:
        tools = [each["function"] for each in told["tools"]]
        told["tools"] = [{key: value for key, value in each.items() if value not in (None, False, "")} for each in tools]
    return {**told, "most": most, "messages": [_plain(each) for each in body["messages"]]}


def _plain(said: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in said.items() if value not in (None, "")}
    match told.get("content"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            told["content"] = text
        case _:
            pass
    if "tool_calls" in told:
        told["tool_calls"] = [{key: value for key, value in each.items() if key != "index"} for each in told["tool_calls"]]
    return told


def situation_of(recording: Recording) -> Situation:
    """An answer with one choice, whole or in chunks."""
    thoughts, text, refusal, finish = "", "", "", ""
    calls: dict[int, list[str]] = {}
    usage: Any = None
    logprobs: list[Any] = []
    for body in recording.events if recording.streamed else [recording.body]:
        usage = body.get("usage") or usage
        for choice in body["choices"]:
            said = choice["delta"] if recording.streamed else choice["message"]
            thoughts += said.get("reasoning_content") or ""
            text += said.get("content") or ""
            refusal += said.get("refusal") or ""
            for at, each in enumerate(said.get("tool_calls") or ()):
                known = calls.setdefault(each.get("index", at), [each.get("id"), each["function"].get("name"), ""])
                known[2] += each["function"].get("arguments") or ""
            told: dict[str, Any] = choice.get("logprobs") or {}
            logprobs += told.get("content") or []
            finish = choice.get("finish_reason") or finish
    parts: list[Part] = [kind(said) for kind, said in ((Reasoning, thoughts), (Text, text), (Refusal, refusal)) if said]
    parts += [ToolCall(id, name, arguments) for id, name, arguments in calls.values()]
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish=finish,
        usage=None if usage is None else _usage(recording, usage),
        logprobs=tuple(raw(each) for each in logprobs) or None,
    )


def _usage(recording: Recording, told: dict[str, Any]) -> Usage:
    """xAI counts reasoning beside the output."""
    asked: dict[str, Any] = told.get("prompt_tokens_details") or {}
    made: dict[str, Any] = told.get("completion_tokens_details") or {}
    reasoning = made.get("reasoning_tokens")
    return Usage(
        input=told["prompt_tokens"],
        output=told["completion_tokens"] + (reasoning if recording.folder == "xai" else 0),
        cached=asked.get("cached_tokens"),
        reasoning=reasoning,
        cache_written=asked.get("cache_write_tokens"),
    )
