"""Cohere: documents and citations, thinking, tools, JSON schemas."""

import base64
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
    Part,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)
from providers.canonical.output_format import JsonSchema
from tests.conformance.situations import CHAT, Situation
from tests.replay.hosts.host import ExpectedError, Host, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_FINISHES = {"COMPLETE": "stop", "TOOL_CALL": "tool_calls", "ERROR_TOXIC": "content_filter"}


def _provider_target(recording: Recording) -> ProviderTarget:
    return ProviderTarget(adapter="cohere", model=recording.request_body["model"])


def _chat(recording: Recording) -> ChatRequest:
    request_body = recording.request_body
    if recording.path != "/v2/chat":
        (earlier,) = request_body["chat_history"]
        messages = (Message("system", (Text(earlier["message"]),)), Message("user", (Text(request_body["message"]),)))
        return ChatRequest(origin=CHAT, model="", messages=messages)
    messages = [_message(each) for each in request_body["messages"]]
    parts = [*messages[-1].parts]
    for each in request_body.get("documents", ()):
        text = base64.b64encode(each["data"]["text"].encode()).decode()
        parts.append(File(Inline("text/plain", text), each["data"]["title"]))
    format = request_body.get("response_format")
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=(*messages[:-1], Message("user", tuple(parts))),
        tools=tuple(Tool(each["name"], each["description"], _raw(each["parameters"])) for each in _functions(request_body)),
        tool_choice=ToolChoice("required") if "tool_choice" in request_body else None,
        output=None if format is None else JsonSchema(_raw(format["json_schema"]), "person"),
        max_tokens=request_body.get("max_tokens"),
    )


def _message(message: dict[str, Any]) -> Message:
    content: list[dict[str, Any]] = _normalize_message(message, listed=True)["content"]
    parts: list[Content] = [_part(each) for each in content]
    if message["role"] == "tool":
        return Message("user", (ToolResult(message["tool_call_id"], tuple(part for part in parts if isinstance(part, Text))),))
    calls = [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    return Message(message["role"], (*parts, *calls))


def _part(part: dict[str, Any]) -> Content:
    match part["type"]:
        case "text":
            return Text(part["text"])
        case "thinking":
            return Reasoning(part["thinking"])
        case "image_url":
            head, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
            return Image(Inline(head, data))
        case other:
            raise AssertionError(other)


def _functions(request_body: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["function"] for each in request_body.get("tools", ())]


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _normalize(body: Any) -> Any:
    """Returns the body without empty lists, and with a single text instead of a list of one."""
    if "messages" not in body:
        return body
    normalized = {key: value for key, value in body.items() if key not in ("model", "stream") and value != []}
    return {**normalized, "messages": [_normalize_message(each) for each in body["messages"]]}


def _normalize_message(message: dict[str, Any], *, listed: bool = False) -> dict[str, Any]:
    """Returns the message with its content in one form: a list if `listed`, otherwise a single text where it is only that."""
    match message:
        case {"content": str(text)} if listed:
            return {**message, "content": [{"type": "text", "text": text}]}
        case _ if listed:
            return message
        case {"content": [{"type": "text", "text": str(text)}]}:
            return {**message, "content": text}
        case _:
            return message


def _expected(recording: Recording) -> Situation:
    message, finish, usage = _response_parts(recording)
    citations = tuple(
        Citation("cohere_chat", _raw(each), None, "facts.txt", None, each["start"], each["end"]) for each in message["citations"]
    )
    parts: list[Part] = []
    if message["thinking"]:
        parts.append(Reasoning(message["thinking"]))
    if message["text"]:
        parts.append(Text(message["text"], citations))
    parts += [ToolCall(*each) for each in message["calls"]]
    processed, billed = usage["tokens"], usage["billed_units"]
    expected_usage = Usage(
        processed["input_tokens"],
        processed["output_tokens"],
        cached=usage.get("cached_tokens"),
        reasoning=processed.get("reasoning_tokens"),
        billed_input=billed["input_tokens"],
        billed_output=billed["output_tokens"],
    )
    return Situation(name=recording.name, parts=tuple(parts), finish=_FINISHES[finish], usage=expected_usage)


def _response_parts(recording: Recording) -> tuple[dict[str, Any], str, dict[str, Any]]:
    collected: dict[str, Any] = {"thinking": "", "text": "", "citations": [], "calls": []}
    if not recording.streamed:
        message = recording.body["message"]
        for each in message.get("content", ()):
            collected[each["type"]] += each[each["type"]]
        collected["citations"] = message.get("citations", [])
        collected["calls"] = [
            (each["id"], each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", ())
        ]
        return collected, recording.body["finish_reason"], recording.body["usage"]
    names: list[tuple[str, str]] = []
    arguments: dict[int, str] = {}
    end: dict[str, Any] = {}
    for event in recording.events:
        delta = event.get("delta", {}).get("message", {})
        match event["type"]:
            case "content-delta":
                for kind in ("thinking", "text"):
                    collected[kind] += delta["content"].get(kind, "")
            case "citation-start":
                collected["citations"].append(delta["citations"])
            case "tool-call-start":
                names.append((delta["tool_calls"]["id"], delta["tool_calls"]["function"]["name"]))
            case "tool-call-delta":
                at = event["index"]
                arguments[at] = arguments.get(at, "") + delta["tool_calls"]["function"]["arguments"]
            case "message-end":
                end = event["delta"]
            case _:
                pass
    collected["calls"] = [(*each, arguments[at]) for at, each in zip(sorted(arguments), names, strict=True)]
    return collected, end["finish_reason"], end["usage"]


def _as_v2_body(body: Any) -> Any:
    (earlier,) = body["chat_history"]
    return {"messages": [{"role": "system", "content": earlier["message"]}, {"role": "user", "content": body["message"]}]}


COHERE = Host(
    folder="cohere",
    recordings=recordings("cohere"),
    provider_target=_provider_target,
    chat=_chat,
    expected=_expected,
    normalize=_normalize,
    normalize_path=lambda path: "/v2/chat" if path == "/v1/chat" else path,
    known_differences={"09-error-404": ("it was recorded with version 1 of its API, which has other field names", _as_v2_body)},
    # A refused key is the gateway's own: the caller gets a 502.
    expected_errors={"08-error-401": ExpectedError(502), "09-error-404": ExpectedError(404), "limit-of-a-minute": ExpectedError(429)},
    missing_features={
        "audio": "refused: its chat reads text and images (https://docs.cohere.com/reference/chat).",
        "token counting": "it tokenizes texts (/v1/tokenize), not chats.",
    },
)

HOSTS = (COHERE,)
