"""Recorded bodies of generateContent, read plainly: what was asked, what must be heard, and what of a body means the same."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

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
from tests.conformance.situations import Situation
from tests.exchanges.hosts.recordings import Recording

_MINTED = "call_" + "0" * 24
# What stands for a signature of no one's.
_UNSIGNED = "skip_thought_signature_validator"
_FINISHES = {"MAX_TOKENS": "length", "SAFETY": "content_filter"}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def one_spelling(value: Any) -> Any:
    """Google takes the names of its fields in two spellings; the names within schemas, arguments and results are the caller's."""
    if isinstance(value, list):
        return [one_spelling(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    told: dict[str, Any] = {}
    for key, inner in cast(dict[str, Any], value).items():
        name = re.sub("_([a-z])", lambda found: found[1].upper(), key)
        told[name] = inner if name in ("args", "response", "parametersJsonSchema", "responseJsonSchema") else one_spelling(inner)
    return told


def chat_of(recording: Recording) -> ChatRequest:
    asked = one_spelling(recording.asked)
    config: dict[str, Any] = asked.get("generationConfig") or {}
    thinking = config.get("thinkingConfig")
    schema = config.get("responseJsonSchema")
    instruction: Any = (asked.get("systemInstruction") or {"parts": ()})["parts"]
    messages = [Message("system", tuple(Text(each["text"]) for each in instruction))] if instruction else []
    return ChatRequest(
        origin="openai_chat",
        model=recording.path.rpartition("/")[2].partition(":")[0],
        messages=(*messages, *(_message(each) for each in asked["contents"])),
        tools=tuple(_tool(each) for tools in asked.get("tools") or () for each in tools.get("functionDeclarations", ())),
        tool_choice=_choice(asked.get("toolConfig")),
        output=None if schema is None else JsonSchema(raw(schema)),
        thinking=None if thinking is None else Thinking(thinking["thinkingLevel"]),
        max_tokens=config.get("maxOutputTokens"),
    )


def _choice(config: dict[str, Any] | None) -> ToolChoice | None:
    if config is None or "functionCallingConfig" not in config:
        return None
    calling = config["functionCallingConfig"]
    assert calling["mode"] == "ANY"
    return ToolChoice("named", *calling["allowedFunctionNames"]) if "allowedFunctionNames" in calling else ToolChoice("required")


def _message(said: dict[str, Any]) -> Message:
    parts: list[Content] = []
    for each in said["parts"]:
        parts += _content(each)
    return Message("assistant" if said.get("role") == "model" else "user", tuple(parts))


def _content(part: dict[str, Any]) -> list[Content]:
    seal = None if part.get("thoughtSignature", _UNSIGNED) == _UNSIGNED else OpaqueState("gemini", part["thoughtSignature"])
    match part:
        case {"functionCall": call}:
            return [ToolCall(call["id"], call["name"], json.dumps(call["args"]), opaque_state=seal)]
        case {"functionResponse": result}:
            return [_result(result)]
        case {"inlineData": {"mimeType": kind, "data": data}}:
            return [_media(kind, Inline(kind, data))]
        case {"thought": True}:
            return [Reasoning(part.get("text", ""), seal)]
        case {"text": text}:
            return [Text(text)]
        case _:
            raise AssertionError(f"a part that no recording had before: {part}")


def _media(kind: str, source: Source) -> Image | Audio | File:
    return Image(source) if kind.startswith("image/") else Audio(source) if kind.startswith("audio/") else File(source)


def _result(said: dict[str, Any]) -> ToolResult:
    response = said["response"]
    media = tuple(Image(Url(each["fileData"]["fileUri"])) for each in said.get("parts", ()))
    texts = tuple(Text(response[key]) for key in ("error", "output") if key in response)
    return ToolResult(said["id"], (*texts, *media), is_error=True if "error" in response else None)


def _tool(said: dict[str, Any]) -> Tool:
    return Tool(said["name"], said.get("description"), raw(_schema(said)))


def _schema(declaration: dict[str, Any]) -> Any:
    """One in OpenAPI's words as the JSON schema that it is."""
    return declaration.get("parametersJsonSchema") or _lowered(declaration["parameters"])


def _lowered(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    said = cast(dict[str, Any], schema)
    told = {key: value.lower() if key == "type" else _lowered(value) for key, value in said.items()}
    return {key: value for key, value in told.items() if (key, value) != ("required", [])}


def alike(body: Any) -> Any:
    """Without what says nothing; a signature stands on the text that it came with, not in a thought of its own before it."""
    told = {key: value for key, value in one_spelling(body).items() if value not in (None, {})}
    told["contents"] = [{"role": each.get("role", "user"), "parts": _signed(each["parts"])} for each in told["contents"]]
    if "systemInstruction" in told:
        told["systemInstruction"] = [each["text"] for each in told["systemInstruction"]["parts"]]
    config = told.pop("generationConfig", {})
    idle = {"responseModalities": ["TEXT"], "responseMimeType": "text/plain"}
    told["config"] = {key: value for key, value in config.items() if idle.get(key) != value}
    if "tools" in told:
        listed: list[dict[str, Any]] = told["tools"]
        told["tools"] = [{key: value for key, value in _tools(tools).items() if value is not None} for tools in listed]
    return told


def _tools(tools: dict[str, Any]) -> dict[str, Any]:
    declared = [
        {"name": each["name"], "description": each.get("description") or None, "parametersJsonSchema": _lowered(_schema(each))}
        for each in tools.get("functionDeclarations", ())
    ]
    return {**tools, "functionDeclarations": declared}


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    signature = None
    for part in parts:
        part = {key: value for key, value in part.items() if (key, value) != ("thought", False)}
        if part.get("thought") and not part.get("text"):
            signature = part["thoughtSignature"]
            continue
        told.append(part if signature is None else {**part, "thoughtSignature": signature})
        signature = None
    return told


def situation_of(recording: Recording) -> Situation:
    """An answer with one candidate, whole or in frames."""
    frames = recording.events if recording.streamed else [recording.body]
    parts: list[Part] = []
    finish = ""
    cited: tuple[Citation, ...] = ()
    for frame in frames:
        for candidate in frame.get("candidates", ()):
            cited += tuple(_cited(candidate))
            content: dict[str, Any] = candidate.get("content") or {}
            for part in content.get("parts", ()):
                _hear(part, parts)
            finish = candidate.get("finishReason", finish)
    called = any(isinstance(part, ToolCall) for part in parts)
    if cited and recording.fidelity == "constructed":
        parts = [Text(part.text, cited) if isinstance(part, Text) else part for part in parts]
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish=("tool_calls" if called else "stop") if finish == "STOP" else _FINISHES[finish],
        told=finish if finish == "SAFETY" else None,
        usage=_usage(frames[-1]["usageMetadata"]),
    )


def _cited(candidate: dict[str, Any]) -> Iterator[Citation]:
    """Pages of the web, and what was recited."""
    grounding: dict[str, Any] = candidate.get("groundingMetadata") or {}
    for each in grounding.get("groundingChunks", ()):
        if "web" in each:
            yield Citation("gemini", raw(each), each["web"]["uri"])
    recited: dict[str, Any] = candidate.get("citationMetadata") or {}
    for each in recited.get("citationSources") or recited.get("citations") or ():
        yield Citation("gemini", raw(each), each["uri"])


def _hear(part: dict[str, Any], parts: list[Part]) -> None:
    signature = part.get("thoughtSignature")
    seal = None if signature is None else OpaqueState("gemini", signature)
    if "functionCall" in part:
        call = part["functionCall"]
        parts.append(ToolCall(call.get("id", _MINTED), call["name"], json.dumps(call["args"]), opaque_state=seal))
    elif part.get("thought"):
        parts.append(Reasoning(part["text"], seal))
    elif "text" in part:
        if seal is not None:
            parts.append(Reasoning("", seal))
        last = parts[-1] if parts else None
        if isinstance(last, Text):
            parts[-1] = Text(last.text + part["text"])
        elif part["text"]:
            parts.append(Text(part["text"]))
    else:
        parts.append(Opaque("gemini", raw({"type": next(key for key in part if key != "thoughtSignature"), **part})))


def _usage(told: dict[str, Any]) -> Usage:
    thoughts = told.get("thoughtsTokenCount")
    return Usage(
        cached=told.get("cachedContentTokenCount"),
        input=told["promptTokenCount"] + told.get("toolUsePromptTokenCount", 0),
        output=told.get("candidatesTokenCount", 0) + (thoughts or 0),
        reasoning=thoughts,
    )
