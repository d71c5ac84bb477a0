"""Mistral: chats with images and documents, tools, schemas, thinking in lists of content; embeddings."""

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
from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings


def _provider_target(recording: Recording) -> ProviderTarget:
    return ProviderTarget(adapter="mistral", model=recording.request_body["model"])


def _chat(recording: Recording) -> ChatRequest | None:
    request_body = recording.request_body
    if "messages" not in request_body:
        return None
    n = request_body.get("n")
    return ChatRequest(
        origin=CHAT,
        model="",
        messages=tuple(_message(each) for each in request_body["messages"]),
        tools=tuple(Tool(each["name"], each["description"], _raw(each["parameters"])) for each in _functions(request_body)),
        tool_choice=ToolChoice("required" if request_body["tool_choice"] == "any" else request_body["tool_choice"])
        if "tool_choice" in request_body
        else None,
        output=_output(request_body.get("response_format")),
        max_tokens=request_body.get("max_tokens"),
        temperature=request_body.get("temperature"),
        top_p=request_body.get("top_p"),
        n=None if n == 1 else n,
        frequency_penalty=request_body.get("frequency_penalty"),
        presence_penalty=request_body.get("presence_penalty"),
        logprobs=request_body.get("logprobs"),
        top_logprobs=request_body.get("top_logprobs"),
    )


def _message(message: dict[str, Any]) -> Message:
    content = message["content"]
    parts: list[Content] = [Text(content)] if isinstance(content, str) else [_part(each) for each in content]
    if message["role"] == "tool":
        return Message("user", (ToolResult(message["tool_call_id"], (Text(content),)),))
    parts += [_call(each) for each in message.get("tool_calls", ())]
    return Message(message["role"], tuple(parts))


def _call(call: dict[str, Any]) -> ToolCall:
    return ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])


def _part(part: dict[str, Any]) -> Content:
    match part["type"]:
        case "text":
            return Text(part["text"])
        case "image_url":
            return Image(_source(part["image_url"]["url"]), part["image_url"].get("detail"))
        case "input_audio":
            return Audio(Inline("audio/wav", part["input_audio"]))
        case "thinking":
            return Reasoning("".join(each["text"] for each in part["thinking"]))
        case "document_url":
            return File(_source(part["document_url"]), part.get("document_name"))
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


def _functions(request_body: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["function"] for each in request_body.get("tools", ())]


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def _normalize(body: Any) -> Any:
    """Returns the body without empty fields and default values, and with one name for synonyms."""
    normalized = {
        key: value for key, value in body.items() if value is not None and key not in ("model", "stream") and (key, value) != ("n", 1)
    }
    if normalized.get("tool_choice") == "required":
        normalized["tool_choice"] = "any"
    if "tools" in normalized:
        normalized["tools"] = [{key: value for key, value in each.items() if value not in ("", False)} for each in _functions(normalized)]
    if "messages" in normalized:
        normalized["messages"] = [_normalize_message(each) for each in normalized["messages"]]
    return normalized


def _normalize_message(message: dict[str, Any]) -> dict[str, Any]:
    normalized = {key: value for key, value in message.items() if value not in (None, False, [])}
    match normalized.get("content"):
        case [{"type": "text", "text": str(text)}]:
            normalized["content"] = text
        case [*parts]:
            normalized["content"] = [_normalize_image(each) if each["type"] == "image_url" else each for each in parts]
        case _:
            pass
    if "tool_calls" in normalized:
        normalized["tool_calls"] = [{key: each[key] for key in ("id", "function")} for each in normalized["tool_calls"]]
    return normalized


def _normalize_image(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "image_url": {key: value for key, value in part["image_url"].items() if (key, value) != ("detail", "auto")}}


def _expected(recording: Recording) -> Situation:
    bodies = recording.events if recording.streamed else [recording.body]
    reasoning, texts, finish, usage = "", dict[int, str](), "", dict[str, Any]()
    calls: list[ToolCall] = []
    for body in bodies:
        usage = body.get("usage") or usage
        for choice in body["choices"]:
            message = choice["delta"] if recording.streamed else choice["message"]
            thought, text = _thinking_and_text(message.get("content"))
            reasoning += thought
            texts[choice["index"]] = texts.get(choice["index"], "") + text
            # Each call is complete in one chunk.
            calls += [
                ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls") or ()
            ]
            finish = choice.get("finish_reason") or finish
    parts: list[Part] = [Reasoning(reasoning)] if reasoning else []
    parts += [Text(texts[0])] if texts[0] else []
    details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    cached: int | None = details.get("cached_tokens", usage.get("num_cached_tokens"))
    return Situation(
        name=recording.name,
        parts=(*parts, *calls),
        finish=finish,
        usage=Usage(usage["prompt_tokens"], usage["completion_tokens"], cached),
        other_choices=tuple(texts[at] for at in sorted(texts) if at),
    )


def _thinking_and_text(content: str | list[Any] | None) -> tuple[str, str]:
    """The thinking and the text of a message's content; one of them is empty."""
    if isinstance(content, list):
        return "".join(inner["text"] for each in content for inner in each["thinking"]), ""
    return "", content or ""


def _embeddings(recording: Recording) -> NonChatRequest | None:
    if "input" not in recording.request_body:
        return None

    def check(response: Any) -> None:
        assert [each["embedding"] for each in response["data"]] == [each["embedding"] for each in recording.body["data"]]
        assert response["usage"]["prompt_tokens"] == recording.body["usage"]["prompt_tokens"]

    return NonChatRequest("/v1/embeddings", {"input": recording.request_body["input"]}, check)


_ONE_CHOICE_ONLY = "their APIs have one choice"
MISTRAL = Host(
    folder="mistral",
    recordings=recordings("mistral"),
    provider_target=_provider_target,
    chat=_chat,
    expected=_expected,
    normalize=_normalize,
    non_chat=_embeddings,
    expected_errors={
        "24-error-400-b": ExpectedError(400, "1500"),
        "25-error-400-c": ExpectedError(400, "3210"),
        "26-error-400-d": ExpectedError(400, "1500"),
        # A refused key is the gateway's own: the caller gets a 502.
        "27-error-401": ExpectedError(502),
        "limit-of-requests": ExpectedError(429, "1300"),
    },
    missing_features={
        "citations": "its references name results of the caller's own tools by number, without a URL: returned unchanged "
        "(`content_chunks`, tests/unit/hosted/test_mistral.py).",
        "safety stops": "it has no finish reason for them (mistralai/client-python, ChatCompletionChoice).",
        "token counting": "it has no API that counts tokens before a request.",
    },
    refused_params={"23-error-400-a": "logprobs"},
    excluded_callers={
        **{("21-n-2", caller): _ONE_CHOICE_ONLY for caller in (RESPONSES, ANTHROPIC)},
        ("23-error-400-a", ANTHROPIC): "it has no field for log probabilities",
    },
)

HOSTS = (MISTRAL,)
