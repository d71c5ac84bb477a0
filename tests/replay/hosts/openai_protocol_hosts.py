"""The recordings of OpenAI, Azure, DeepSeek, Fireworks and xAI: chat, Responses, and what is asked beside chats."""

import json
from collections.abc import Callable
from typing import Any

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.replay.hosts import anthropic_messages_bodies, openai_chat_bodies, openai_responses_bodies
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_AUDIO_ONLY_IN_CHAT = "audio is spoken to OpenAI's chat alone, and heard by nobody else"


def _provider_target(adapter: str, **options: Any) -> Callable[[Recording], ProviderTarget]:
    def reached(recording: Recording) -> ProviderTarget:
        dialect = _dialect(recording) if _is_chat(recording) else None
        return ProviderTarget(adapter=adapter, model=recording.request_body["model"], options=options, dialect=dialect)

    return reached


_BODIES = {RESPONSES: openai_responses_bodies, ANTHROPIC: anthropic_messages_bodies, CHAT: openai_chat_bodies}


def _dialect(recording: Recording) -> str:
    return RESPONSES if recording.path.endswith("/responses") else ANTHROPIC if recording.path.endswith("/messages") else CHAT


def _is_chat(recording: Recording) -> bool:
    return _dialect(recording) != CHAT or "/chat/completions" in recording.path


def _chat(recording: Recording) -> ChatRequest | None:
    if not _is_chat(recording) or recording.id in _NOT_TRANSLATABLE:
        return None
    return _BODIES[_dialect(recording)].chat_of(recording)


def _expected(recording: Recording) -> Situation:
    return _BODIES[_dialect(recording)].situation_of(recording)


def _normalize(body: Any) -> Any:
    if "messages" in body:
        is_anthropics = any("input_schema" in tool for tool in body.get("tools", ()))
        return (anthropic_messages_bodies if is_anthropics else openai_chat_bodies).normalize(body)
    if "prompt" in body:
        return {key: value for key, value in body.items() if key not in ("model", "stream", "extra_body")}
    if isinstance(body["input"], str) or all(isinstance(each, str) for each in body["input"]):
        return {key: value for key, value in body.items() if key not in ("model", "stream")}
    return openai_responses_bodies.normalize(body)


# Chats that only their own callers can ask or hear: a message of no kind, an answer that is spoken.
_NOT_TRANSLATABLE = ("openai/38-error-400-c", "openai/39-error-400-d", "openai/44-chat-audio-output")


_SHORTENED_VECTORS = ("openai/35-embeddings",)


def _non_chat(recording: Recording) -> NonChatRequest | None:
    if _chat(recording) is not None:
        return None
    # Of 768 numbers that were asked for the recording keeps 16.
    left_out = ("model", "stream", "extra_body", *(("dimensions",) if recording.id in _SHORTENED_VECTORS else ()))
    body = {key: value for key, value in recording.request_body.items() if key not in left_out}
    route = "/v1/embeddings" if recording.path.endswith("/embeddings") else "/v1" + recording.path.rpartition("/v1")[2]

    def check(response: Any) -> None:
        if "embeddings" in route:
            assert response["data"] == recording.body["data"]
            return
        (choice,), (wanted,) = response["choices"], recording.body["choices"]
        message = "text" if "text" in wanted else "message"
        assert (choice[message], choice["finish_reason"]) == (wanted[message], wanted["finish_reason"])
        assert response["usage"] == recording.body["usage"]

    return NonChatRequest(route, json.loads(json.dumps(body)), check)


def _without_dimensions(body: Any) -> Any:
    return {key: value for key, value in body.items() if key != "dimensions"}


_COUNT_NOT_OFFERED = "its count is a route of Responses (/v1/responses/input_tokens), which the gateway does not offer"

OPENAI = Host(
    folder="openai",
    recordings=recordings("openai"),
    provider_target=_provider_target("openai", dialects=["openai_responses", "openai_chat", "openai_embeddings"]),
    chat=_chat,
    non_chat=_non_chat,
    expected=_expected,
    normalize=_normalize,
    expected_errors={
        "36-error-400-a": ExpectedError(400, "model_not_found"),
        "40-error-401": ExpectedError(502, "invalid_api_key"),
        "41-error-404-a": ExpectedError(404, "model_not_found"),
        "62-error-429-quota": ExpectedError(429, "insufficient_quota"),
        "63-error-429-rate": ExpectedError(429, "rate_limit_exceeded"),
    },
    refused_params={"38-error-400-c": "messages", "39-error-400-d": "temperature"},
    known_differences={"35-embeddings": ("the recording keeps fewer numbers than were asked for", _without_dimensions)},
    excluded_callers={
        ("18-chat-audio-input", ANTHROPIC): _AUDIO_ONLY_IN_CHAT,
        ("18-chat-audio-input", RESPONSES): _AUDIO_ONLY_IN_CHAT,
        ("03-chat-developer-role", ANTHROPIC): "instructions alone are no conversation there: they are the user's message",
        ("11-chat-json-schema", ANTHROPIC): "a schema has no name there",
    },
    missing_features={"token counting": _COUNT_NOT_OFFERED},
)


def _azure_target(recording: Recording) -> ProviderTarget:
    options: dict[str, Any] = {}
    if recording.path.startswith("/models"):
        options = {"api": "models"}
    elif "/deployments/" in recording.path:
        options = {"api_version": "2025-01-01-preview"}
    return _provider_target("azure", **options)(recording)


# The version is the operator's: the recorder took one away, and kept another.
AZURE = Host(
    folder="azure_openai",
    recordings=recordings("azure_openai"),
    provider_target=_azure_target,
    chat=_chat,
    non_chat=_non_chat,
    expected=_expected,
    normalize=_normalize,
    normalize_path=lambda path: path.removesuffix("?api-version=2025-01-01-preview"),
    expected_errors={
        "06-error-401": ExpectedError(502),
        "08-error-429": ExpectedError(429, "RateLimitReached"),
        "22-error-400-content-filter": ExpectedError(400, "content_filter"),
    },
    excluded_callers={("23-chat-schema", ANTHROPIC): "a schema has no name there"},
    missing_features={"token counting": _COUNT_NOT_OFFERED},
)

DEEPSEEK = Host(
    folder="deepseek",
    recordings=recordings("deepseek"),
    provider_target=_provider_target("deepseek"),
    chat=_chat,
    expected=_expected,
    normalize=_normalize,
    expected_errors={
        "22-error-400-a": ExpectedError(400, "invalid_request_error"),
        "26-error-401": ExpectedError(502, "invalid_request_error"),
    },
    # Thinking allows no choice of a tool; sounds it does not read; and its Responses are not known to hold to `strict`.
    refused_params={"23-error-400-b": "tool_choice", "24-error-400-c": "messages[0].content[1]", "21-responses-tool": "tools[0].strict"},
    excluded_callers={
        ("21-responses-tool", CHAT): "it says `tools[0].function.strict` for that",
        ("24-error-400-c", RESPONSES): "it says `input[0].content[1]` for that",
        ("24-error-400-c", ANTHROPIC): _AUDIO_ONLY_IN_CHAT,
    },
    missing_features={
        "documents": "it reads none (https://api-docs.deepseek.com/guides/anthropic_api); refused by name",
        "audio": "it reads none (recorded: 24-error-400-c); refused by name",
        "citations": "its answers cite nothing (https://api-docs.deepseek.com/guides/anthropic_api)",
        "embeddings": "it has none (https://api-docs.deepseek.com/api/deepseek-api)",
        "token counting": "it has no such route (https://api-docs.deepseek.com/quick_start/token_usage)",
    },
)

FIREWORKS = Host(
    folder="fireworks",
    recordings=recordings("fireworks"),
    provider_target=_provider_target("fireworks"),
    chat=_chat,
    non_chat=_non_chat,
    expected=_expected,
    normalize=_normalize,
    expected_errors={
        "22-messages-error-400": ExpectedError(400, "invalid_request_error"),
        "24-chat-error-429": ExpectedError(429, "rate_limit_exceeded"),
    },
    missing_features={
        "documents": "its chat reads texts and images (https://docs.fireworks.ai/api-reference/post-chatcompletions); refused by name",
        "audio": "its chat reads texts and images (https://docs.fireworks.ai/api-reference/post-chatcompletions); refused by name",
        "citations": "its answers cite nothing (https://docs.fireworks.ai/api-reference/post-chatcompletions)",
        "safety stops": "it names no such ending (https://docs.fireworks.ai/api-reference/post-chatcompletions)",
        "token counting": "it has no such route (https://docs.fireworks.ai/api-reference)",
    },
)

XAI = Host(
    folder="xai",
    recordings=recordings("xai"),
    provider_target=_provider_target("xai"),
    chat=_chat,
    expected=_expected,
    normalize=_normalize,
    expected_errors={"19-error-400-a": ExpectedError(502, "invalid-argument"), "20-error-400-b": ExpectedError(400, "invalid-argument")},
    missing_features={
        "audio": "its chat hears nothing (https://docs.x.ai/developers/rest-api-reference); refused by name",
        "embeddings": "it has none in public (https://docs.x.ai/developers/rest-api-reference)",
        "token counting": "it counts texts alone (/v1/tokenize-text), and no chats",
    },
)

HOSTS = (OPENAI, AZURE, DEEPSEEK, FIREWORKS, XAI)
