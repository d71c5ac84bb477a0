"""Recorded exchanges of Google's generateContent: requests as ChatRequest, responses as Situation, and bodies in a comparable form.

Independent of providers/, which the tests check against it.
"""

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
from providers.canonical.output_format import JsonSchema
from tests.conformance.situations import Situation
from tests.replay.hosts.recordings import Recording

_MINTED = "call_" + "0" * 24
# The placeholder that Google accepts instead of a signature.
_NO_SIGNATURE = "skip_thought_signature_validator"
_FINISHES = {"MAX_TOKENS": "length", "SAFETY": "content_filter"}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def camel_case_fields(value: Any) -> Any:
    """Google accepts field names in camel case and snake case; names within schemas, arguments and results are the caller's."""
    if isinstance(value, list):
        return [camel_case_fields(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    renamed: dict[str, Any] = {}
    for key, inner in cast(dict[str, Any], value).items():
        name = re.sub("_([a-z])", lambda found: found[1].upper(), key)
        renamed[name] = inner if name in ("args", "response", "parametersJsonSchema", "responseJsonSchema") else camel_case_fields(inner)
    return renamed


def chat_of(recording: Recording) -> ChatRequest:
    request_body = camel_case_fields(recording.request_body)
    config: dict[str, Any] = request_body.get("generationConfig") or {}
    thinking = config.get("thinkingConfig")
    schema = config.get("responseJsonSchema")
    instruction: Any = (request_body.get("systemInstruction") or {"parts": ()})["parts"]
    messages = [Message("system", tuple(Text(each["text"]) for each in instruction))] if instruction else []
    return ChatRequest(
        origin="openai_chat",
        model=recording.path.rpartition("/")[2].partition(":")[0],
        messages=(*messages, *(_message(each) for each in request_body["contents"])),
        tools=tuple(_tool(each) for tools in request_body.get("tools") or () for each in tools.get("functionDeclarations", ())),
        tool_choice=_choice(request_body.get("toolConfig")),
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


def _message(message: dict[str, Any]) -> Message:
    parts: list[Content] = []
    for each in message["parts"]:
        parts += _content(each)
    return Message("assistant" if message.get("role") == "model" else "user", tuple(parts))


def _content(part: dict[str, Any]) -> list[Content]:
    state = None if part.get("thoughtSignature", _NO_SIGNATURE) == _NO_SIGNATURE else OpaqueState("gemini", part["thoughtSignature"])
    match part:
        case {"functionCall": call}:
            return [ToolCall(call["id"], call["name"], json.dumps(call["args"]), opaque_state=state)]
        case {"functionResponse": result}:
            return [_result(result)]
        case {"inlineData": {"mimeType": kind, "data": data}}:
            return [_media(kind, Inline(kind, data))]
        case {"thought": True}:
            return [Reasoning(part.get("text", ""), state)]
        case {"text": text}:
            return [Text(text)]
        case _:
            raise AssertionError(f"unknown part: {part}")


def _media(kind: str, source: Source) -> Image | Audio | File:
    return Image(source) if kind.startswith("image/") else Audio(source) if kind.startswith("audio/") else File(source)


def _result(result: dict[str, Any]) -> ToolResult:
    response = result["response"]
    media = tuple(Image(Url(each["fileData"]["fileUri"])) for each in result.get("parts", ()))
    texts = tuple(Text(response[key]) for key in ("error", "output") if key in response)
    return ToolResult(result["id"], (*texts, *media), is_error=True if "error" in response else None)


def _tool(tool: dict[str, Any]) -> Tool:
    return Tool(tool["name"], tool.get("description"), raw(_schema(tool)))


def _schema(declaration: dict[str, Any]) -> Any:
    """The JSON schema of the parameters, also where they are in OpenAPI's form."""
    return declaration.get("parametersJsonSchema") or _lower_case_types(declaration["parameters"])


def _lower_case_types(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    fields = cast(dict[str, Any], schema)
    lowered = {key: value.lower() if key == "type" else _lower_case_types(value) for key, value in fields.items()}
    return {key: value for key, value in lowered.items() if (key, value) != ("required", [])}


def normalize(body: Any) -> Any:
    """Returns the body without empty fields and default values.

    A signature is on its text, not in a separate thought before it.
    """
    normalized = {key: value for key, value in camel_case_fields(body).items() if value not in (None, {})}
    normalized["contents"] = [
        {"role": each.get("role", "user"), "parts": _move_signatures(each["parts"])} for each in normalized["contents"]
    ]
    if "systemInstruction" in normalized:
        normalized["systemInstruction"] = [each["text"] for each in normalized["systemInstruction"]["parts"]]
    config = normalized.pop("generationConfig", {})
    neutral = {"responseModalities": ["TEXT"], "responseMimeType": "text/plain"}
    normalized["config"] = {key: value for key, value in config.items() if neutral.get(key) != value}
    if "tools" in normalized:
        listed: list[dict[str, Any]] = normalized["tools"]
        normalized["tools"] = [{key: value for key, value in _tools(tools).items() if value is not None} for tools in listed]
    return normalized


def _tools(tools: dict[str, Any]) -> dict[str, Any]:
    declared = [
        {"name": each["name"], "description": each.get("description") or None, "parametersJsonSchema": _lower_case_types(_schema(each))}
        for each in tools.get("functionDeclarations", ())
    ]
    return {**tools, "functionDeclarations": declared}


def _move_signatures(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    moved: list[dict[str, Any]] = []
    signature = None
    for part in parts:
        part = {key: value for key, value in part.items() if (key, value) != ("thought", False)}
        if part.get("thought") and not part.get("text"):
            signature = part["thoughtSignature"]
            continue
        moved.append(part if signature is None else {**part, "thoughtSignature": signature})
        signature = None
    return moved


def situation_of(recording: Recording) -> Situation:
    """The response with its one candidate, unstreamed or in frames."""
    frames = recording.events if recording.streamed else [recording.body]
    parts: list[Part] = []
    finish = ""
    citations: tuple[Citation, ...] = ()
    for frame in frames:
        for candidate in frame.get("candidates", ()):
            citations += tuple(_citations(candidate))
            content: dict[str, Any] = candidate.get("content") or {}
            for part in content.get("parts", ()):
                _append_part(part, parts)
            finish = candidate.get("finishReason", finish)
    called = any(isinstance(part, ToolCall) for part in parts)
    if citations and recording.fidelity == "constructed":
        parts = [Text(part.text, citations) if isinstance(part, Text) else part for part in parts]
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish=("tool_calls" if called else "stop") if finish == "STOP" else _FINISHES[finish],
        native_finish_reason=finish if finish == "SAFETY" else None,
        usage=_usage(frames[-1]["usageMetadata"]),
    )


def _citations(candidate: dict[str, Any]) -> Iterator[Citation]:
    """Citations of web pages, and of the sources of recited text."""
    grounding: dict[str, Any] = candidate.get("groundingMetadata") or {}
    for each in grounding.get("groundingChunks", ()):
        if "web" in each:
            yield Citation("gemini", raw(each), each["web"]["uri"])
    citation_metadata: dict[str, Any] = candidate.get("citationMetadata") or {}
    for each in citation_metadata.get("citationSources") or citation_metadata.get("citations") or ():
        yield Citation("gemini", raw(each), each["uri"])


def _append_part(part: dict[str, Any], parts: list[Part]) -> None:
    signature = part.get("thoughtSignature")
    state = None if signature is None else OpaqueState("gemini", signature)
    if "functionCall" in part:
        call = part["functionCall"]
        parts.append(ToolCall(call.get("id", _MINTED), call["name"], json.dumps(call["args"]), opaque_state=state))
    elif part.get("thought"):
        parts.append(Reasoning(part["text"], state))
    elif "text" in part:
        if state is not None:
            parts.append(Reasoning("", state))
        last = parts[-1] if parts else None
        if isinstance(last, Text):
            parts[-1] = Text(last.text + part["text"])
        elif part["text"]:
            parts.append(Text(part["text"]))
    else:
        parts.append(Opaque("gemini", raw({"type": next(key for key in part if key != "thoughtSignature"), **part})))


def _usage(counts: dict[str, Any]) -> Usage:
    reasoning = counts.get("thoughtsTokenCount")
    return Usage(
        cached=counts.get("cachedContentTokenCount"),
        input=counts["promptTokenCount"] + counts.get("toolUsePromptTokenCount", 0),
        output=counts.get("candidatesTokenCount", 0) + (reasoning or 0),
        reasoning=reasoning,
    )
