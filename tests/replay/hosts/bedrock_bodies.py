"""Recorded exchanges of Bedrock Converse: the request as a ChatRequest, the response as a Situation, and bodies in a comparable form.

Independent of providers/, which the tests check against it.
"""

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
from providers.canonical.output_format import JsonSchema
from tests.conformance.situations import ANTHROPIC, CHAT, Situation
from tests.replay.hosts.aws_event_stream import decode_events
from tests.replay.hosts.recordings import Recording

_TYPES = {
    "pdf": "application/pdf",
    "txt": "text/plain",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
_FINISHES = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "guardrail_intervened": "content_filter"}
_KNOWN_FIELDS = {
    *("messages", "system", "inferenceConfig", "toolConfig", "outputConfig", "additionalModelRequestFields", "guardrailConfig"),
}
# Some recordings only callers of Anthropic's API can express, and these always send max_tokens.
MAX_TOKENS = 20_000


def only_anthropic_can_request(recording: Recording) -> bool:
    request_text = json.dumps(recording.request_body)
    return any(marker in request_text for marker in ("cachePoint", '"citations"', "budget_tokens", "s3://"))


def chat_of(recording: Recording) -> ChatRequest:
    request_body = recording.request_body
    assert request_body.keys() <= _KNOWN_FIELDS, request_body.keys() - _KNOWN_FIELDS
    config, fields = request_body.get("inferenceConfig", {}), request_body.get("additionalModelRequestFields", {})
    format = request_body.get("outputConfig", {}).get("textFormat")
    system = [Message("system", tuple(_contents(request_body["system"])))] if request_body.get("system") else []
    return ChatRequest(
        origin=ANTHROPIC if only_anthropic_can_request(recording) else CHAT,
        model="",
        messages=(*system, *(Message(each["role"], tuple(_contents(each["content"]))) for each in request_body["messages"])),
        tools=tuple(_tools(request_body.get("toolConfig", {}).get("tools", []))),
        tool_choice=_choice(request_body.get("toolConfig", {}).get("toolChoice")),
        output=None if format is None else _schema(format["structure"]["jsonSchema"]),
        thinking=Thinking(budget_tokens=fields["thinking"]["budget_tokens"]) if "thinking" in fields else None,
        max_tokens=config.get("maxTokens", MAX_TOKENS if only_anthropic_can_request(recording) else None),
        temperature=config.get("temperature"),
        top_p=config.get("topP"),
        top_k=fields.get("inferenceConfig", {}).get("topK"),
        extra={"guardrailConfig": _raw(request_body["guardrailConfig"])} if "guardrailConfig" in request_body else {},
    )


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _schema(json_schema: dict[str, str]) -> JsonSchema:
    return JsonSchema(Raw(json_schema["schema"].encode()), json_schema["name"], json_schema.get("description"))


def _contents(blocks: list[dict[str, Any]]) -> list[Content]:
    """The contents; a cache point belongs to the content before it."""
    contents: list[tuple[dict[str, Any], dict[str, Raw]]] = []
    for block in blocks:
        if "cachePoint" in block:
            contents[-1][1]["cache_control"] = _raw({"type": "ephemeral"})
        else:
            contents.append((block, {}))
    return [_content(block, extra) for block, extra in contents]


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
            citations = {"citations": _raw(document["citations"])} if "citations" in document else {}
            return File(Inline(_TYPES[document["format"]], data), document["name"], {**citations, **extra})
        case _:
            raise AssertionError(block)


def _tools(tools_of_request: list[dict[str, Any]]) -> list[Tool]:
    tools: list[Tool] = []
    for each in tools_of_request:
        if "cachePoint" in each:
            last = tools.pop()
            tools.append(
                Tool(last.name, last.description, last.parameters, last.strict, extra={"cache_control": _raw({"type": "ephemeral"})})
            )
            continue
        spec = each["toolSpec"]
        tools.append(Tool(spec["name"], spec.get("description"), _raw(spec["inputSchema"]["json"]), spec.get("strict")))
    return tools


def _choice(choice: dict[str, Any] | None) -> ToolChoice | None:
    match choice:
        case {"any": {}}:
            return ToolChoice("required")
        case {"tool": {"name": name}}:
            return ToolChoice("named", name)
        case _:
            return None


def normalize(body: Any) -> Any:
    """Returns the body without empty fields and default values, and with schemas as JSON values instead of text."""
    normalized = {key: value for key, value in json.loads(json.dumps(body)).items() if value}
    for block in (block for turn in normalized.get("messages", ()) for block in turn["content"]):
        if block.get("toolResult", {}).get("status") == "success":
            del block["toolResult"]["status"]
    if normalized.get("toolConfig", {}).get("toolChoice") == {"auto": {}}:
        normalized["toolConfig"] = {"tools": normalized["toolConfig"]["tools"]}
    if "outputConfig" in normalized:
        schema = normalized["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
        schema["schema"] = json.loads(schema["schema"])
    return normalized


def situation_of(recording: Recording) -> Situation:
    response = _assemble_stream(recording) if recording.streamed else recording.body
    parts = [part for block in response["output"]["message"]["content"] for part in _parts(block)]
    usage = response["usage"]
    cached, cache_written = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    by_guardrail = response["stopReason"] == "guardrail_intervened"
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish=_FINISHES[response["stopReason"]],
        native_finish_reason="guardrail_intervened" if by_guardrail else None,
        usage=Usage(
            usage["inputTokens"] + (cached or 0) + (cache_written or 0), usage["outputTokens"], cached, cache_written=cache_written
        ),
    )


def _parts(block: dict[str, Any]) -> list[Part]:
    match block:
        case {"text": text}:
            return [Text(text)]
        case {"toolUse": call}:
            return [ToolCall(call["toolUseId"], call["name"], json.dumps(call["input"], separators=(",", ":")))]
        case {"reasoningContent": {"reasoningText": content}}:
            return [Reasoning(content["text"], OpaqueState("bedrock_converse", content["signature"]))]
        case {"citationsContent": content}:
            return [Text("".join(each["text"] for each in content["content"]), tuple(map(_citation, content["citations"])))]
        case _:
            raise AssertionError(block)


def _citation(citation: dict[str, Any]) -> Citation:
    return Citation("bedrock_converse", _raw(citation), None, citation["title"], citation["sourceContent"][0]["text"])


def _assemble_stream(recording: Recording) -> dict[str, Any]:
    """The unstreamed response that the events add up to."""
    blocks: dict[int, dict[str, Any]] = {}
    end: dict[str, Any] = {}
    for kind, payload in decode_events(recording.raw):
        match kind:
            case "contentBlockStart":
                blocks[payload["contentBlockIndex"]] = {"toolUse": {**payload["start"]["toolUse"], "input": ""}}
            case "contentBlockDelta":
                _apply_delta(blocks.setdefault(payload["contentBlockIndex"], {}), payload["delta"])
            case "messageStop" | "metadata":
                end |= payload
            case _:
                pass
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return {**end, "output": {"message": {"content": [block for _, block in sorted(blocks.items())]}}}


def _apply_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta:
        case {"text": text}:
            block["text"] = block.get("text", "") + text
        case {"toolUse": {"input": piece}}:
            block["toolUse"]["input"] += piece
        case {"reasoningContent": reasoning_delta}:
            reasoning = block.setdefault("reasoningContent", {"reasoningText": {"text": "", "signature": ""}})["reasoningText"]
            for key, value in reasoning_delta.items():
                reasoning[key] += value
        case _:
            raise AssertionError(delta)
