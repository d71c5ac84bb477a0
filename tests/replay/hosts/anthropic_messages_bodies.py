"""Recorded exchanges of Anthropic Messages: the request as a ChatRequest, the response as a Situation, and bodies in a comparable form.

Independent of providers/, which the tests check against it.
"""

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
from providers.canonical.output_format import JsonSchema
from tests.conformance.situations import ANTHROPIC, Situation
from tests.replay.hosts.recordings import Recording

_KNOWN_FIELDS = {
    *("model", "messages", "system", "stream", "max_tokens", "tools", "tool_choice", "anthropic_version", "temperature", "stop_sequences"),
    *("thinking", "output_config"),
}
# The canonical finish reason, and Anthropic's own where it is more specific.
_FINISHES: dict[str, tuple[str, str | None]] = {
    "end_turn": ("stop", None),
    "stop_sequence": ("stop", "stop_sequence"),
    "tool_use": ("tool_calls", None),
    "max_tokens": ("length", None),
    "refusal": ("content_filter", "refusal"),
}
# The field of a block that a delta extends, by the type of the delta.
_DELTA_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}


def chat_of(recording: Recording) -> ChatRequest:
    request_body = recording.request_body
    assert request_body.keys() <= _KNOWN_FIELDS, request_body.keys() - _KNOWN_FIELDS
    system = [Message("system", tuple(_content(each) for each in _blocks(request_body["system"])))] if "system" in request_body else []
    choice = request_body.get("tool_choice")
    disable_parallel = None if choice is None else choice.get("disable_parallel_tool_use")
    config: dict[str, Any] = request_body.get("output_config") or {}
    return ChatRequest(
        origin=ANTHROPIC,
        model="",
        messages=(*system, *(Message(each["role"], tuple(map(_content, _blocks(each["content"])))) for each in request_body["messages"])),
        tools=tuple(_tool(each) for each in request_body.get("tools", ())),
        tool_choice=None if choice is None else _choice(choice),
        parallel_calls=None if disable_parallel is None else not disable_parallel,
        output=JsonSchema(_raw(config["format"]["schema"])) if "format" in config else None,
        thinking=_thinking(request_body.get("thinking"), config.get("effort")),
        max_tokens=request_body["max_tokens"],
        temperature=request_body.get("temperature"),
        stop=tuple(request_body.get("stop_sequences", ())),
    )


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _extra(block: dict[str, Any], *known: str) -> dict[str, Raw]:
    return {key: _raw(value) for key, value in block.items() if key not in ("type", *known)}


def _tool(tool: dict[str, Any]) -> Tool:
    extra = _extra(tool, "name", "description", "input_schema", "strict")
    return Tool(tool["name"], tool.get("description"), _raw(tool["input_schema"]), tool.get("strict"), extra=extra)


def _thinking(thinking: dict[str, Any] | None, effort: Any) -> Thinking | None:
    if thinking is None:
        return None if effort is None else Thinking(effort)
    display = thinking.get("display")
    return Thinking(effort, thinking.get("budget_tokens"), thinking["type"] == "adaptive", "auto" if display == "summarized" else display)


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


def _source(source: dict[str, Any]) -> Source:
    match source["type"]:
        case "base64":
            return Inline(source["media_type"], source["data"])
        case "url":
            return Url(source["url"])
        case kind:
            raise AssertionError(kind)


def _choice(choice: dict[str, Any]) -> ToolChoice:
    if choice["type"] == "tool":
        return ToolChoice("named", choice["name"])
    return ToolChoice({"auto": "auto", "any": "required", "none": "none"}[choice["type"]])  # pyright: ignore[reportArgumentType]


def normalize(body: Any) -> Any:
    """Returns the body with every text in blocks, and without default values (tool choice auto, `strict: false`)."""
    normalized = {key: value for key, value in body.items() if key not in ("model", "stream")}
    choice = {key: value for key, value in normalized.pop("tool_choice", {}).items() if value is not False}
    if choice and choice != {"type": "auto"}:
        normalized["tool_choice"] = choice
    if "system" in normalized:
        normalized["system"] = _blocks(normalized["system"])
    if "tools" in normalized:
        normalized["tools"] = [
            {key: value for key, value in each.items() if (key, value) != ("strict", False)} for each in normalized["tools"]
        ]
    return {
        **normalized,
        "messages": [{**each, "content": [_normalize_block(block) for block in _blocks(each["content"])]} for each in body["messages"]],
    }


def _normalize_block(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "content": _blocks(block["content"])} if block["type"] == "tool_result" else block


def situation_of(recording: Recording) -> Situation:
    """The unstreamed response, or the one that the events add up to."""
    response = _assemble_stream(recording.events) if recording.streamed else recording.body
    usage = response["usage"]
    cached, cache_written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    input_tokens = usage["input_tokens"] + (cached or 0) + (cache_written or 0)
    details: dict[str, Any] = usage.get("output_tokens_details") or {}
    finish, native_finish = _FINISHES[response["stop_reason"]]
    return Situation(
        name=recording.name,
        parts=tuple(map(_part, response["content"])),
        finish=finish,
        native_finish_reason=native_finish,
        stop_sequence=response["stop_sequence"],
        usage=Usage(
            input=input_tokens,
            output=usage["output_tokens"],
            cached=cached,
            cache_written=cache_written,
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


def _citation(citation: dict[str, Any]) -> Citation:
    title = citation.get("title") or citation.get("document_title")
    return Citation(ANTHROPIC, _raw(citation), url=citation.get("url"), title=title, quote=citation["cited_text"])


def _assemble_stream(events: list[Any]) -> dict[str, Any]:
    (start,) = [each["message"] for each in events if each["type"] == "message_start"]
    (end,) = [each for each in events if each["type"] == "message_delta"]
    blocks: list[Any] = [{**each["content_block"]} for each in events if each["type"] == "content_block_start"]
    for each in events:
        if each["type"] == "content_block_delta":
            block, delta = blocks[each["index"]], each["delta"]
            if delta["type"] == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            else:
                name = _DELTA_FIELDS[delta["type"]]
                block[name] = block.get(name, "") + delta[name]
    for block in blocks:
        if "input" in block:
            block["input"] = json.loads(block.pop("partial_json", "") or "{}")
    return {**start, **end["delta"], "content": blocks, "usage": {**start["usage"], **end["usage"]}}
