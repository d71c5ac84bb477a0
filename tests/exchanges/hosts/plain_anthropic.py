"""Recorded exchanges in Anthropic's Messages, read plainly: what was asked, what must be heard, what of a body means the same."""

import json
from typing import Any

from msgspec import Raw

from providers.canonical.chat import (
    ChatRequest,
    Citation,
    Content,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Part,
    Reasoning,
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
from tests.conformance.situations import ANTHROPIC, Situation
from tests.exchanges.hosts.recordings import Recording

_READ = {
    *("model", "messages", "system", "stream", "max_tokens", "tools", "tool_choice", "anthropic_version", "temperature", "stop_sequences"),
    *("thinking", "output_config"),
}
# In OpenAI's words, and Anthropic's own where it says more.
_FINISHES: dict[str, tuple[str, str | None]] = {
    "end_turn": ("stop", None),
    "stop_sequence": ("stop", "stop_sequence"),
    "tool_use": ("tool_calls", None),
    "max_tokens": ("length", None),
    "refusal": ("content_filter", "refusal"),
}
# What the pieces of a block are called, by the kind of piece.
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}


def chat_of(recording: Recording) -> ChatRequest:
    asked = recording.asked
    assert asked.keys() <= _READ, asked.keys() - _READ
    system = [Message("system", tuple(_content(each) for each in _blocks(asked["system"])))] if "system" in asked else []
    choice = asked.get("tool_choice")
    alone = None if choice is None else choice.get("disable_parallel_tool_use")
    config: dict[str, Any] = asked.get("output_config") or {}
    return ChatRequest(
        origin=ANTHROPIC,
        model="",
        messages=(*system, *(Message(each["role"], tuple(map(_content, _blocks(each["content"])))) for each in asked["messages"])),
        tools=tuple(_tool(each) for each in asked.get("tools", ())),
        tool_choice=None if choice is None else _choice(choice),
        parallel_calls=None if alone is None else not alone,
        output=JsonSchema(_raw(config["format"]["schema"])) if "format" in config else None,
        thinking=_thinking(asked.get("thinking"), config.get("effort")),
        max_tokens=asked["max_tokens"],
        temperature=asked.get("temperature"),
        stop=tuple(asked.get("stop_sequences", ())),
    )


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _blocks(said: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _extra(block: dict[str, Any], *known: str) -> dict[str, Raw]:
    return {key: _raw(value) for key, value in block.items() if key not in ("type", *known)}


def _tool(said: dict[str, Any]) -> Tool:
    extra = _extra(said, "name", "description", "input_schema", "strict")
    return Tool(said["name"], said.get("description"), _raw(said["input_schema"]), said.get("strict"), extra=extra)


def _thinking(said: dict[str, Any] | None, effort: Any) -> Thinking | None:
    if said is None:
        return None if effort is None else Thinking(effort)
    display = said.get("display")
    return Thinking(effort, said.get("budget_tokens"), said["type"] == "adaptive", "auto" if display == "summarized" else display)


def _content(block: dict[str, Any]) -> Content:
    match block["type"]:
        case "text":
            return Text(block["text"], extra=_extra(block, "text"))
        case "thinking":
            return Reasoning(block["thinking"], OpaqueState(ANTHROPIC, block["signature"]))
        case "redacted_thinking":
            return Opaque(ANTHROPIC, _raw(block))
        case "tool_use":
            return ToolCall(block["id"], block["name"], json.dumps(block["input"]))
        case "tool_result":
            return ToolResult(block["tool_use_id"], tuple(Text(each["text"]) for each in _blocks(block["content"])))
        case "image":
            return Image(_source(block["source"]), extra=_extra(block, "source"))
        case "document":
            return File(_source(block["source"]), block.get("title"), _extra(block, "source", "title"))
        case kind:
            raise AssertionError(kind)


def _source(said: dict[str, Any]) -> Source:
    match said["type"]:
        case "base64":
            return Inline(said["media_type"], said["data"])
        case "url":
            return Url(said["url"])
        case kind:
            raise AssertionError(kind)


def _choice(said: dict[str, Any]) -> ToolChoice:
    if said["type"] == "tool":
        return ToolChoice("named", said["name"])
    return ToolChoice({"auto": "auto", "any": "required", "none": "none"}[said["type"]])  # pyright: ignore[reportArgumentType]


def alike(body: Any) -> Any:
    """With every text in blocks; and without the choices, and `strict: false`, that say what holds if nothing is said."""
    told = {key: value for key, value in body.items() if key not in ("model", "stream")}
    choice = {key: value for key, value in told.pop("tool_choice", {}).items() if value is not False}
    if choice and choice != {"type": "auto"}:
        told["tool_choice"] = choice
    if "system" in told:
        told["system"] = _blocks(told["system"])
    if "tools" in told:
        told["tools"] = [{key: value for key, value in each.items() if (key, value) != ("strict", False)} for each in told["tools"]]
    return {**told, "messages": [{**each, "content": [_plain(block) for block in _blocks(each["content"])]} for each in body["messages"]]}


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "content": _blocks(block["content"])} if block["type"] == "tool_result" else block


def situation_of(recording: Recording) -> Situation:
    """A whole answer, or the one that the events put together."""
    told = _put_together(recording.events) if recording.streamed else recording.body
    usage = told["usage"]
    cached, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    whole = usage["input_tokens"] + (cached or 0) + (written or 0)
    details: dict[str, Any] = usage.get("output_tokens_details") or {}
    finish, own = _FINISHES[told["stop_reason"]]
    return Situation(
        name=recording.name,
        parts=tuple(map(_part, told["content"])),
        finish=finish,
        told=own,
        stop_sequence=told["stop_sequence"],
        usage=Usage(
            input=whole,
            output=usage["output_tokens"],
            cached=cached,
            cache_written=written,
            reasoning=details.get("thinking_tokens"),
        ),
    )


def _part(block: dict[str, Any]) -> Part:
    match block["type"]:
        case "text":
            return Text(block["text"], tuple(_citation(each) for each in block.get("citations") or ()))
        case "tool_use":
            return ToolCall(block["id"], block["name"], json.dumps(block["input"]))
        case "thinking":
            return Reasoning(block["thinking"], OpaqueState(ANTHROPIC, block["signature"]))
        case _:
            return Opaque(ANTHROPIC, _raw(block))


def _citation(said: dict[str, Any]) -> Citation:
    title = said.get("title") or said.get("document_title")
    return Citation(ANTHROPIC, _raw(said), url=said.get("url"), title=title, quote=said["cited_text"])


def _put_together(events: list[Any]) -> dict[str, Any]:
    (start,) = [each["message"] for each in events if each["type"] == "message_start"]
    (end,) = [each for each in events if each["type"] == "message_delta"]
    blocks: list[Any] = [{**each["content_block"]} for each in events if each["type"] == "content_block_start"]
    for each in events:
        if each["type"] == "content_block_delta":
            block, delta = blocks[each["index"]], each["delta"]
            if delta["type"] == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            else:
                name = _PIECES[delta["type"]]
                block[name] = block.get(name, "") + delta[name]
    for block in blocks:
        if "input" in block:
            block["input"] = json.loads(block.pop("partial_json", "") or "{}")
    return {**start, **end["delta"], "content": blocks, "usage": {**start["usage"], **end["usage"]}}
