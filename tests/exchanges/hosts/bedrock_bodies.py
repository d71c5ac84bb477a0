"""Recorded exchanges with Converse, read plainly: what was asked, what must be heard, and what of a body means the same."""

import json
from base64 import b64encode
from typing import Any

from msgspec import Raw

from providers.canonical.chat import (
    Audio,
    ChatRequest,
    Citation,
    Content,
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
from tests.conformance.situations import ANTHROPIC, CHAT, Situation
from tests.exchanges.hosts.aws_frames import events_of
from tests.exchanges.hosts.recordings import Recording

_TYPES = {
    "pdf": "application/pdf",
    "txt": "text/plain",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_FINISHES = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "guardrail_intervened": "content_filter"}
_READ = {
    *("messages", "system", "inferenceConfig", "toolConfig", "outputConfig", "additionalModelRequestFields", "guardrailConfig"),
}
# What Anthropic's callers alone can say, and with it always how much may be written.
MAX_TOKENS = 20_000


def is_anthropics(recording: Recording) -> bool:
    said = json.dumps(recording.asked)
    return any(word in said for word in ("cachePoint", '"citations"', "budget_tokens", "s3://"))


def chat_of(recording: Recording) -> ChatRequest:
    asked = recording.asked
    assert asked.keys() <= _READ, asked.keys() - _READ
    config, fields = asked.get("inferenceConfig", {}), asked.get("additionalModelRequestFields", {})
    format = asked.get("outputConfig", {}).get("textFormat")
    system = [Message("system", tuple(_contents(asked["system"])))] if asked.get("system") else []
    return ChatRequest(
        origin=ANTHROPIC if is_anthropics(recording) else CHAT,
        model="",
        messages=(*system, *(Message(each["role"], tuple(_contents(each["content"]))) for each in asked["messages"])),
        tools=tuple(_tools(asked.get("toolConfig", {}).get("tools", []))),
        tool_choice=_choice(asked.get("toolConfig", {}).get("toolChoice")),
        output=None if format is None else _schema(format["structure"]["jsonSchema"]),
        thinking=Thinking(budget_tokens=fields["thinking"]["budget_tokens"]) if "thinking" in fields else None,
        max_tokens=config.get("maxTokens", MAX_TOKENS if is_anthropics(recording) else None),
        temperature=config.get("temperature"),
        top_p=config.get("topP"),
        top_k=fields.get("inferenceConfig", {}).get("topK"),
        extra={"guardrailConfig": _raw(asked["guardrailConfig"])} if "guardrailConfig" in asked else {},
    )


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _schema(said: dict[str, str]) -> JsonSchema:
    return JsonSchema(Raw(said["schema"].encode()), said["name"], said.get("description"))


def _contents(blocks: list[dict[str, Any]]) -> list[Content]:
    """A cache point is said of what stands before it."""
    held: list[tuple[dict[str, Any], dict[str, Raw]]] = []
    for block in blocks:
        if "cachePoint" in block:
            held[-1][1]["cache_control"] = _raw({"type": "ephemeral"})
        else:
            held.append((block, {}))
    return [_content(block, extra) for block, extra in held]


def _content(block: dict[str, Any], extra: dict[str, Raw]) -> Content:
    match block:
        case {"text": str(text)} | {"guardContent": {"text": {"text": str(text)}}}:
            return Text(text, extra=extra)
        case {"toolUse": call}:
            return ToolCall(call["toolUseId"], call["name"], json.dumps(call["input"]))
        case {"toolResult": result}:
            parts = tuple(part for each in result["content"] if isinstance(part := _content(each, {}), Text | Image))
            return ToolResult(result["toolUseId"], parts, result["status"] == "error" if "status" in result else None)
        case {"image": {"source": {"s3Location": {"uri": str(uri)}}}}:
            return Image(Url(uri))
        case {"image": {"format": str(kind), "source": {"bytes": str(data)}}}:
            return Image(Inline(f"image/{kind}", data))
        case {"audio": {"format": str(kind), "source": {"bytes": str(data)}}}:
            return Audio(Inline(f"audio/{kind}", data))
        case {"document": document}:
            source = document["source"]
            data = source["bytes"] if "bytes" in source else b64encode(source["text"].encode()).decode()
            cited = {"citations": _raw(document["citations"])} if "citations" in document else {}
            return File(Inline(_TYPES[document["format"]], data), document["name"], {**cited, **extra})
        case _:
            raise AssertionError(block)


def _tools(said: list[dict[str, Any]]) -> list[Tool]:
    tools: list[Tool] = []
    for each in said:
        if "cachePoint" in each:
            last = tools.pop()
            tools.append(
                Tool(last.name, last.description, last.parameters, last.strict, extra={"cache_control": _raw({"type": "ephemeral"})})
            )
            continue
        spec = each["toolSpec"]
        tools.append(Tool(spec["name"], spec.get("description"), _raw(spec["inputSchema"]["json"]), spec.get("strict")))
    return tools


def _choice(said: dict[str, Any] | None) -> ToolChoice | None:
    match said:
        case {"any": {}}:
            return ToolChoice("required")
        case {"tool": {"name": name}}:
            return ToolChoice("named", name)
        case _:
            return None


def alike(body: Any) -> Any:
    """Without what says nothing, or what holds anyway; schemas as JSON and not as its spelling."""
    told = {key: value for key, value in json.loads(json.dumps(body)).items() if value}
    for block in (block for turn in told.get("messages", ()) for block in turn["content"]):
        if block.get("toolResult", {}).get("status") == "success":
            del block["toolResult"]["status"]
    if told.get("toolConfig", {}).get("toolChoice") == {"auto": {}}:
        told["toolConfig"] = {"tools": told["toolConfig"]["tools"]}
    if "outputConfig" in told:
        schema = told["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
        schema["schema"] = json.loads(schema["schema"])
    return told


def situation_of(recording: Recording) -> Situation:
    told = _put_together(recording) if recording.streamed else recording.body
    parts = [part for block in told["output"]["message"]["content"] for part in _parts(block)]
    usage = told["usage"]
    cached, written = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    guarded = told["stopReason"] == "guardrail_intervened"
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish=_FINISHES[told["stopReason"]],
        told="guardrail_intervened" if guarded else None,
        usage=Usage(usage["inputTokens"] + (cached or 0) + (written or 0), usage["outputTokens"], cached, cache_written=written),
    )


def _parts(block: dict[str, Any]) -> list[Part]:
    match block:
        case {"text": text}:
            return [Text(text)]
        case {"toolUse": call}:
            return [ToolCall(call["toolUseId"], call["name"], json.dumps(call["input"], separators=(",", ":")))]
        case {"reasoningContent": {"reasoningText": said}}:
            return [Reasoning(said["text"], OpaqueState("bedrock_converse", said["signature"]))]
        case {"citationsContent": said}:
            return [Text("".join(each["text"] for each in said["content"]), tuple(map(_cited, said["citations"])))]
        case _:
            raise AssertionError(block)


def _cited(said: dict[str, Any]) -> Citation:
    return Citation("bedrock_converse", _raw(said), None, said["title"], said["sourceContent"][0]["text"])


def _put_together(recording: Recording) -> dict[str, Any]:
    """What a whole answer would have said."""
    blocks: dict[int, dict[str, Any]] = {}
    end: dict[str, Any] = {}
    for kind, said in events_of(recording.raw):
        match kind:
            case "contentBlockStart":
                blocks[said["contentBlockIndex"]] = {"toolUse": {**said["start"]["toolUse"], "input": ""}}
            case "contentBlockDelta":
                _grow(blocks.setdefault(said["contentBlockIndex"], {}), said["delta"])
            case "messageStop" | "metadata":
                end |= said
            case _:
                pass
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return {**end, "output": {"message": {"content": [block for _, block in sorted(blocks.items())]}}}


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta:
        case {"text": text}:
            block["text"] = block.get("text", "") + text
        case {"toolUse": {"input": piece}}:
            block["toolUse"]["input"] += piece
        case {"reasoningContent": said}:
            held = block.setdefault("reasoningContent", {"reasoningText": {"text": "", "signature": ""}})["reasoningText"]
            for key, value in said.items():
                held[key] += value
        case _:
            raise AssertionError(delta)
