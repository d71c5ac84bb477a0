"""Recorded bodies of Responses, read plainly: what was asked, what must be heard, and what of a body means the same."""

from typing import Any

from providers.canonical.chat import (
    ChatRequest,
    Citation,
    Content,
    File,
    HostTool,
    Image,
    Inline,
    Message,
    Opaque,
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
from tests.conformance.situations import RESPONSES, Situation
from tests.exchanges.hosts.plain_openai import raw
from tests.exchanges.hosts.recordings import Recording


def chat_of(recording: Recording) -> ChatRequest:
    asked = recording.asked
    instructions = [Message("system", (Text(asked["instructions"]),))] if "instructions" in asked else []
    return ChatRequest(
        origin=RESPONSES,
        model="",
        messages=(*instructions, *map(_message, asked["input"])),
        tools=tuple(map(_tool, asked.get("tools", ()))),
        tool_choice=None if "tool_choice" not in asked else ToolChoice(asked["tool_choice"]),
        thinking=None if "reasoning" not in asked else Thinking(asked["reasoning"]["effort"]),
        max_tokens=asked.get("max_output_tokens"),
        store=asked.get("store"),
    )


def _tool(said: dict[str, Any]) -> Tool | HostTool:
    if said["type"] != "function":
        return HostTool(RESPONSES, said["type"], raw(said))
    return Tool(said["name"], said["description"], raw(said["parameters"]), said["strict"])


def _message(said: dict[str, Any]) -> Message:
    match said:
        case {"type": "reasoning"}:
            (told,) = said["summary"]
            return Message("assistant", (Reasoning(told["text"], OpaqueState(RESPONSES, said["encrypted_content"])),))
        case {"type": "function_call"}:
            return Message("assistant", (ToolCall(said["call_id"], said["name"], said["arguments"]),))
        case {"type": "function_call_output"}:
            return Message("user", (ToolResult(said["call_id"], (Text(said["output"]),)),))
        case {"content": str(text)}:
            return Message(said["role"], (Text(text),))
        case _:
            return Message(said["role"], tuple(_content(each) for each in said["content"]))


def _content(said: dict[str, Any]) -> Content:
    if said["type"] in ("input_text", "output_text"):
        return Text(said["text"])
    if "file_url" in said:
        return File(Url(said["file_url"]))
    if "file_data" in said:
        head, _, data = said["file_data"].partition(";base64,")
        return File(Inline(head.removeprefix("data:"), data), said["filename"])
    head, _, data = said["image_url"].partition(";base64,")
    return Image(Inline(head.removeprefix("data:"), data))


def alike(body: Any) -> Any:
    """Without what says nothing; a text as a list of one; instructions as the first item of the input."""
    told = {key: value for key, value in body.items() if value is not None and key not in _IDLE}
    items = [_plain(each) for each in body["input"]]
    if "instructions" in told:
        items.insert(0, _plain({"role": "system", "content": told.pop("instructions")}))
    return {**told, "input": items}


# The gateway keeps answers itself, and always wants reasoning that it can give back.
_IDLE = ("model", "stream", "store", "include")


_SAYS_NOTHING = (("type", "message"), ("status", "completed"))


def _plain(said: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in said.items() if value is not None and (key, value) not in _SAYS_NOTHING and key != "id"}
    if told.get("role") == "developer":
        told["role"] = "system"
    kind = "output_text" if told.get("role") == "assistant" else "input_text"
    if isinstance(told.get("content"), str):
        told["content"] = [{"type": kind, "text": told["content"]}]
    if "content" in told:
        told["content"] = [{key: value for key, value in each.items() if value not in ([], "auto")} for each in told["content"]]
    return told


_FINISHES = {None: "stop", "content_filter": "content_filter", "max_output_tokens": "length"}


def situation_of(recording: Recording) -> Situation:
    """Of a stream its last event tells it all."""
    told = recording.events[-1]["response"] if recording.streamed else recording.body
    parts: list[Part] = []
    for item in told["output"]:
        parts += _parts(item)
    called = any(isinstance(part, ToolCall) for part in parts)
    usage, cut = told["usage"], told["incomplete_details"]
    into, out = usage["input_tokens_details"], usage["output_tokens_details"]
    return Situation(
        name=recording.name,
        parts=tuple(parts),
        finish="tool_calls" if called else _FINISHES[cut["reason"] if cut else None],
        usage=Usage(
            usage["input_tokens"], usage["output_tokens"], into["cached_tokens"], out["reasoning_tokens"], into.get("cache_write_tokens")
        ),
    )


def _parts(item: dict[str, Any]) -> list[Part]:
    match item:
        case {"type": "reasoning"}:
            text = "\n\n".join(each["text"] for each in item.get("content") or item["summary"])
            sealed = item.get("encrypted_content")
            return [Reasoning(text, None if sealed is None else OpaqueState(RESPONSES, sealed))] if text or sealed else []
        case {"type": "function_call"}:
            return [ToolCall(item["call_id"], item["name"], item["arguments"])]
        case {"type": "message"}:
            return [_cited(each) for each in item["content"]]
        case _:
            return [Opaque(RESPONSES, raw(item))]


def _cited(said: dict[str, Any]) -> Text:
    return Text(said["text"], tuple(Citation(RESPONSES, raw(each), each["url"]) for each in said["annotations"]))
