"""OpenAI, Azure, DeepSeek, Fireworks and xAI: chat, Responses, Messages, completions and embeddings."""

import json
from collections.abc import Callable
from typing import Any

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.replay.hosts import anthropic_messages_bodies, openai_chat_bodies, openai_responses_bodies
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_AUDIO_ONLY_IN_CHAT = "only OpenAI chat has audio"


def _provider_target(adapter: str, **options: Any) -> Callable[[Recording], ProviderTarget]:
    def provider_target(recording: Recording) -> ProviderTarget:
        dialect = _dialect(recording) if _is_chat(recording) else None
        return ProviderTarget(adapter=adapter, model=recording.request_body["model"], options=options, dialect=dialect)

    return provider_target


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
        is_messages_body = any("input_schema" in tool for tool in body.get("tools", ()))
        return (anthropic_messages_bodies if is_messages_body else openai_chat_bodies).normalize(body)
    if "prompt" in body:
        return {key: value for key, value in body.items() if key not in ("model", "stream", "extra_body")}
    if isinstance(body["input"], str) or all(isinstance(each, str) for each in body["input"]):
        return {key: value for key, value in body.items() if key not in ("model", "stream")}
    return openai_responses_bodies.normalize(body)


# Chats that only callers of the same API can send or receive: invalid messages, audio output.
_NOT_TRANSLATABLE = ("openai/38-error-400-c", "openai/39-error-400-d", "openai/44-chat-audio-output")


_SHORTENED_VECTORS = ("openai/35-embeddings",)


def _non_chat(recording: Recording) -> NonChatRequest | None:
    if _chat(recording) is not None:
        return None
    # Of the 768 requested numbers the recording keeps 16.
    excluded_fields = ("model", "stream", "extra_body", *(("dimensions",) if recording.id in _SHORTENED_VECTORS else ()))
    body = {key: value for key, value in recording.request_body.items() if key not in excluded_fields}
    route = "/v1/embeddings" if recording.path.endswith("/embeddings") else "/v1" + recording.path.rpartition("/v1")[2]

    def check(response: Any) -> None:
        if "embeddings" in route:
            assert response["data"] == recording.body["data"]
            return
        (choice,), (recorded_choice,) = response["choices"], recording.body["choices"]
        message = "text" if "text" in recorded_choice else "message"
        assert (choice[message], choice["finish_reason"]) == (recorded_choice[message], recorded_choice["finish_reason"])
        assert response["usage"] == recording.body["usage"]

    return NonChatRequest(route, json.loads(json.dumps(body)), check)


def _without_dimensions(body: Any) -> Any:
    return {key: value for key, value in body.items() if key != "dimensions"}


_COUNT_NOT_OFFERED = "its token count is a route of Responses (/v1/responses/input_tokens), which the gateway does not have"

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
    known_differences={"35-embeddings": ("the recording keeps fewer numbers than requested", _without_dimensions)},
    excluded_callers={
        ("18-chat-audio-input", ANTHROPIC): _AUDIO_ONLY_IN_CHAT,
        ("18-chat-audio-input", RESPONSES): _AUDIO_ONLY_IN_CHAT,
        ("03-chat-developer-role", ANTHROPIC): "a request of instructions alone is not possible there: they become the user's message",
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


# The API version is configured; the recorder kept it in some paths only.
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
    # With thinking it allows no tool_choice; it reads no audio.
    refused_params={"24-error-400-c": "messages[0].content[1]"},
    emulated_params={"23-error-400-b": "tool_choice"},
    excluded_callers={
        # The host answered 400 to two calls in a row whose results come after both, with a text of the assistant between them. In Chat and
        # Messages that is two messages with a call each: the gateway puts each result behind its call, and such a request the host takes
        # (test_deepseek). A caller of Responses gets what was recorded.
        ("22-error-400-a", CHAT): "its results are put right behind their calls, which is what the host wants",
        ("22-error-400-a", ANTHROPIC): "its results are put right behind their calls, which is what the host wants",
        ("24-error-400-c", RESPONSES): "its path is `input[0].content[1]`",
        ("24-error-400-c", ANTHROPIC): _AUDIO_ONLY_IN_CHAT,
    },
    missing_features={
        "documents": "refused: it reads none (https://api-docs.deepseek.com/guides/anthropic_api)",
        "audio": "refused: it reads none (recorded: 24-error-400-c)",
        "citations": "its responses have no citations (https://api-docs.deepseek.com/guides/anthropic_api)",
        "embeddings": "it has no embeddings (https://api-docs.deepseek.com/api/deepseek-api)",
        "token counting": "it has no route for it (https://api-docs.deepseek.com/quick_start/token_usage)",
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
        "documents": "refused: its chat reads text and images (https://docs.fireworks.ai/api-reference/post-chatcompletions)",
        "audio": "refused: its chat reads text and images (https://docs.fireworks.ai/api-reference/post-chatcompletions)",
        "citations": "its responses have no citations (https://docs.fireworks.ai/api-reference/post-chatcompletions)",
        "safety stops": "it has no finish reason for them (https://docs.fireworks.ai/api-reference/post-chatcompletions)",
        "token counting": "it has no route for it (https://docs.fireworks.ai/api-reference)",
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
        "audio": "refused: its chat reads no audio (https://docs.x.ai/developers/rest-api-reference)",
        "embeddings": "it has no public embeddings (https://docs.x.ai/developers/rest-api-reference)",
        "token counting": "it counts tokens of texts (/v1/tokenize-text), not of chats",
    },
)

HOSTS = (OPENAI, AZURE, DEEPSEEK, FIREWORKS, XAI)
