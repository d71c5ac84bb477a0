"""The recordings of Cohere: documents and citations, thinking, tools, JSON of a schema."""

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
from providers.structured_output import JsonSchema
from tests.conformance.situations import CHAT, Situation
from tests.exchanges.hosts.host import Host, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings

_FINISHES = {"COMPLETE": "stop", "TOOL_CALL": "tool_calls", "ERROR_TOXIC": "content_filter"}


def _reached(recording: Recording) -> Reached:
    return Reached(adapter="cohere", model=recording.asked["model"])


def _chat(recording: Recording) -> ChatRequest:
    asked = recording.asked
    if recording.path != "/v2/chat":
        (before,) = asked["chat_history"]
        messages = (Message("system", (Text(before["message"]),)), Message("user", (Text(asked["message"]),)))
        return ChatRequest(origin=CHAT, model="", messages=messages)
    messages = [_message(each) for each in asked["messages"]]
    parts = [*messages[-1].parts]
    for each in asked.get("documents", ()):
        text = base64.b64encode(each["data"]["text"].encode()).decode()
        parts.append(File(Inline("text/plain", text), each["data"]["title"]))
    format = asked.get("response_format")
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=(*messages[:-1], Message("user", tuple(parts))),
        tools=tuple(Tool(each["name"], each["description"], _raw(each["parameters"])) for each in _functions(asked)),
        tool_choice=ToolChoice("required") if "tool_choice" in asked else None,
        output=None if format is None else JsonSchema(_raw(format["json_schema"]), "person"),
        max_tokens=asked.get("max_tokens"),
    )


def _message(said: dict[str, Any]) -> Message:
    content: list[dict[str, Any]] = _plain(said, listed=True)["content"]
    parts: list[Content] = [_part(each) for each in content]
    if said["role"] == "tool":
        return Message("user", (ToolResult(said["tool_call_id"], tuple(part for part in parts if isinstance(part, Text))),))
    calls = [ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in said.get("tool_calls", ())]
    return Message(said["role"], (*parts, *calls))


def _part(said: dict[str, Any]) -> Content:
    match said["type"]:
        case "text":
            return Text(said["text"])
        case "thinking":
            return Reasoning(said["thinking"])
        case "image_url":
            head, _, data = said["image_url"]["url"].removeprefix("data:").partition(";base64,")
            return Image(Inline(head, data))
        case other:
            raise AssertionError(other)


def _functions(asked: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["function"] for each in asked.get("tools", ())]


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _alike(body: Any) -> Any:
    """Without what says nothing; a single text for a list of it."""
    if "messages" not in body:
        return body
    told = {key: value for key, value in body.items() if key not in ("model", "stream") and value != []}
    return {**told, "messages": [_plain(each) for each in body["messages"]]}


def _plain(said: dict[str, Any], *, listed: bool = False) -> dict[str, Any]:
    """Its content in one form."""
    match said:
        case {"content": str(text)} if listed:
            return {**said, "content": [{"type": "text", "text": text}]}
        case _ if listed:
            return said
        case {"content": [{"type": "text", "text": str(text)}]}:
            return {**said, "content": text}
        case _:
            return said


def _expected(recording: Recording) -> Situation:
    message, finish, usage = _said(recording)
    cited = tuple(Citation("cohere_chat", _raw(each), None, "facts.txt", None, each["start"], each["end"]) for each in message["citations"])
    parts: list[Part] = []
    if message["thinking"]:
        parts.append(Reasoning(message["thinking"]))
    if message["text"]:
        parts.append(Text(message["text"], cited))
    parts += [ToolCall(*each) for each in message["calls"]]
    billed = usage["billed_units"]
    counted = Usage(billed["input_tokens"], billed["output_tokens"], reasoning=usage["tokens"].get("reasoning_tokens"))
    return Situation(name=recording.name, parts=tuple(parts), finish=_FINISHES[finish], usage=counted)


def _said(recording: Recording) -> tuple[dict[str, Any], str, dict[str, Any]]:
    said: dict[str, Any] = {"thinking": "", "text": "", "citations": [], "calls": []}
    if not recording.streamed:
        told = recording.body["message"]
        for each in told.get("content", ()):
            said[each["type"]] += each[each["type"]]
        said["citations"] = told.get("citations", [])
        said["calls"] = [(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in told.get("tool_calls", ())]
        return said, recording.body["finish_reason"], recording.body["usage"]
    names: list[tuple[str, str]] = []
    arguments: dict[int, str] = {}
    end: dict[str, Any] = {}
    for event in recording.events:
        grown = event.get("delta", {}).get("message", {})
        match event["type"]:
            case "content-delta":
                for kind in ("thinking", "text"):
                    said[kind] += grown["content"].get(kind, "")
            case "citation-start":
                said["citations"].append(grown["citations"])
            case "tool-call-start":
                names.append((grown["tool_calls"]["id"], grown["tool_calls"]["function"]["name"]))
            case "tool-call-delta":
                at = event["index"]
                arguments[at] = arguments.get(at, "") + grown["tool_calls"]["function"]["arguments"]
            case "message-end":
                end = event["delta"]
            case _:
                pass
    said["calls"] = [(*each, arguments[at]) for at, each in zip(sorted(arguments), names, strict=True)]
    return said, end["finish_reason"], end["usage"]


def _anew(body: Any) -> Any:
    (before,) = body["chat_history"]
    return {"messages": [{"role": "system", "content": before["message"]}, {"role": "user", "content": body["message"]}]}


COHERE = Host(
    folder="cohere",
    recordings=recordings("cohere"),
    reached=_reached,
    chat=_chat,
    expected=_expected,
    alike=_alike,
    path=lambda path: "/v2/chat" if path == "/v1/chat" else path,
    differs={"09-error-404": ("it was asked in its first API, which has other words for the same", _anew)},
    # A key that is refused is ours: the caller is told 502.
    refusals={"08-error-401": Refusal(502), "09-error-404": Refusal(404), "limit-of-a-minute": Refusal(429)},
    lacks={
        "audio": "its chat reads texts and images; refused by name (https://docs.cohere.com/reference/chat).",
        "prompt caching": "`cached_tokens` is told of all tokens and not of those that are billed, which are what is counted here.",
        "token counting": "it splits texts (/v1/tokenize), and has no count of what a chat is read as.",
    },
)

HOSTS = (COHERE,)
