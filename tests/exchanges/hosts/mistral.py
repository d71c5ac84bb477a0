"""The recordings of Mistral: chats with images and documents, tools, schemas, thinking in lists of content; embeddings."""

import json
from typing import Any

from msgspec import Raw

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
    Source,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    Usage,
)
from providers.structured_output import JsonObject, JsonSchema, OutputFormat
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings


def _reached(recording: Recording) -> Reached:
    return Reached(adapter="mistral", model=recording.asked["model"])


def _chat(recording: Recording) -> ChatRequest | None:
    asked = recording.asked
    if "messages" not in asked:
        return None
    n = asked.get("n")
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=tuple(_message(each) for each in asked["messages"]),
        tools=tuple(Tool(each["name"], each["description"], _raw(each["parameters"])) for each in _functions(asked)),
        tool_choice=ToolChoice("required" if asked["tool_choice"] == "any" else asked["tool_choice"]) if "tool_choice" in asked else None,
        output=_output(asked.get("response_format")),
        max_tokens=asked.get("max_tokens"),
        temperature=asked.get("temperature"),
        top_p=asked.get("top_p"),
        n=None if n == 1 else n,
        frequency_penalty=asked.get("frequency_penalty"),
        presence_penalty=asked.get("presence_penalty"),
        logprobs=asked.get("logprobs"),
        top_logprobs=asked.get("top_logprobs"),
    )


def _message(said: dict[str, Any]) -> Message:
    content = said["content"]
    parts: list[Content] = [Text(content)] if isinstance(content, str) else [_part(each) for each in content]
    if said["role"] == "tool":
        return Message("user", (ToolResult(said["tool_call_id"], (Text(content),)),))
    parts += [_call(each) for each in said.get("tool_calls", ())]
    return Message(said["role"], tuple(parts))


def _call(said: dict[str, Any]) -> ToolCall:
    return ToolCall(said["id"], said["function"]["name"], said["function"]["arguments"])


def _part(said: dict[str, Any]) -> Content:
    match said["type"]:
        case "text":
            return Text(said["text"])
        case "image_url":
            return Image(_source(said["image_url"]["url"]), said["image_url"].get("detail"))
        case "input_audio":
            return Audio(Inline("audio/wav", said["input_audio"]))
        case "thinking":
            return Reasoning("".join(each["text"] for each in said["thinking"]))
        case "document_url":
            return File(_source(said["document_url"]), said.get("document_name"))
        case other:
            raise AssertionError(other)


def _source(url: str) -> Source:
    if not url.startswith("data:"):
        return Url(url)
    head, _, data = url.removeprefix("data:").partition(";base64,")
    return Inline(head, data)


def _output(format: dict[str, Any] | None) -> OutputFormat | None:
    if format is None:
        return None
    if format["type"] == "json_object":
        return JsonObject()
    schema = format["json_schema"]
    return JsonSchema(_raw(schema["schema"]), schema["name"], None, schema["strict"])


def _functions(asked: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["function"] for each in asked.get("tools", ())]


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _alike(body: Any) -> Any:
    """Without what says nothing; and by one word what has two."""
    told = {key: value for key, value in body.items() if value is not None and key not in ("model", "stream") and (key, value) != ("n", 1)}
    if told.get("tool_choice") == "required":
        told["tool_choice"] = "any"
    if "tools" in told:
        told["tools"] = [{key: value for key, value in each.items() if value not in ("", False)} for each in _functions(told)]
    if "messages" in told:
        told["messages"] = [_plain(each) for each in told["messages"]]
    return told


def _plain(said: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in said.items() if value not in (None, False, [])}
    match told.get("content"):
        case [{"type": "text", "text": str(text)}]:
            told["content"] = text
        case [*parts]:
            told["content"] = [_plain_image(each) if each["type"] == "image_url" else each for each in parts]
        case _:
            pass
    if "tool_calls" in told:
        told["tool_calls"] = [{key: each[key] for key in ("id", "function")} for each in told["tool_calls"]]
    return told


def _plain_image(said: dict[str, Any]) -> dict[str, Any]:
    return {**said, "image_url": {key: value for key, value in said["image_url"].items() if (key, value) != ("detail", "auto")}}


def _expected(recording: Recording) -> Situation:
    bodies = recording.events if recording.streamed else [recording.body]
    thoughts, texts, finish, usage = "", dict[int, str](), "", dict[str, Any]()
    calls: list[ToolCall] = []
    for body in bodies:
        usage = body.get("usage") or usage
        for choice in body["choices"]:
            said = choice["delta"] if recording.streamed else choice["message"]
            thought, text = _content(said.get("content"))
            thoughts += thought
            texts[choice["index"]] = texts.get(choice["index"], "") + text
            # Each whole in one chunk.
            calls += [
                ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in said.get("tool_calls") or ()
            ]
            finish = choice.get("finish_reason") or finish
    parts: list[Part] = [Reasoning(thoughts)] if thoughts else []
    parts += [Text(texts[0])] if texts[0] else []
    details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    cached: int | None = details.get("cached_tokens", usage.get("num_cached_tokens"))
    return Situation(
        name=recording.name,
        parts=(*parts, *calls),
        finish=finish,
        usage=Usage(usage["prompt_tokens"], usage["completion_tokens"], cached),
        more_choices=tuple(texts[at] for at in sorted(texts) if at),
    )


def _content(content: str | list[Any] | None) -> tuple[str, str]:
    """Thinking, or text."""
    if isinstance(content, list):
        return "".join(inner["text"] for each in content for inner in each["thinking"]), ""
    return "", content or ""


def _beside(recording: Recording) -> Plain | None:
    if "input" not in recording.asked:
        return None

    def embedded(told: Any) -> None:
        assert [each["embedding"] for each in told["data"]] == [each["embedding"] for each in recording.body["data"]]
        assert told["usage"]["prompt_tokens"] == recording.body["usage"]["prompt_tokens"]

    return Plain("/v1/embeddings", {"input": recording.asked["input"]}, embedded)


_SEVERAL = "their APIs have one answer"
MISTRAL = Host(
    folder="mistral",
    recordings=recordings("mistral"),
    reached=_reached,
    chat=_chat,
    expected=_expected,
    alike=_alike,
    plain=_beside,
    refusals={
        "24-error-400-b": Refusal(400, "1500"),
        "25-error-400-c": Refusal(400, "3210"),
        "26-error-400-d": Refusal(400, "1500"),
        # A key that is refused is ours: the caller is told 502.
        "27-error-401": Refusal(502),
        "limit-of-requests": Refusal(429, "1300"),
    },
    lacks={
        "citations": "its references name results of the caller's own tools by number, without an address: told as they came "
        "(`content_chunks`, tests/laws/test_mistral.py).",
        "safety stops": "it has no finish reason for them (mistralai/client-python, ChatCompletionChoice).",
        "token counting": "it has no such API.",
    },
    refused_here={"23-error-400-a": "logprobs"},
    unsaid={
        **{("21-n-2", caller): _SEVERAL for caller in (RESPONSES, ANTHROPIC)},
        ("23-error-400-a", ANTHROPIC): "it has no word for log probabilities",
    },
)

HOSTS = (MISTRAL,)
