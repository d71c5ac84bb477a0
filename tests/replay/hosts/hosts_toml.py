"""Hosts that are rows of hosts.toml: Together, Groq, OpenRouter, Perplexity, Cerebras, Hyperbolic."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Citation, Text
from tests.conformance.situations import Situation
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.openai_compatible_bodies import chat_of, normalize, raw, situation_of
from tests.replay.hosts.recordings import EVIDENCE, Recording, recordings


def _provider_target(adapter: str, **options: Any) -> Callable[[Recording], ProviderTarget]:
    return lambda recording: ProviderTarget(adapter=adapter, model=recording.request_body["model"], options=options)


# Together's recordings that are not chats.
_COMPLETIONS = ("02-completions-2024", "11-completions", "12-completions-stream")
_EMBEDDINGS = ("15-embeddings-no-encoding",)


def _together_chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name in (*_COMPLETIONS, *_EMBEDDINGS) else chat_of(recording)


def _together_non_chat(recording: Recording) -> NonChatRequest | None:
    request_body = {key: value for key, value in recording.request_body.items() if key not in ("model", "extra_body")}
    if recording.name in _EMBEDDINGS:

        def check_embeddings(response: Any) -> None:
            assert response["data"] == recording.body["data"] and response["object"] == "list"

        return NonChatRequest("/v1/embeddings", request_body, check_embeddings)
    if recording.name not in _COMPLETIONS:
        return None
    bodies = recording.events if recording.streamed else [recording.body]

    def check_completion(response: Any) -> None:
        responses: list[dict[str, Any]] = response if recording.streamed else [response]
        choices = [choice for each in responses for choice in each["choices"]]
        expected_choices = [choice for each in bodies for choice in each["choices"]]
        assert "".join(each["text"] for each in choices) == "".join(each["text"] for each in expected_choices)
        assert [each["finish_reason"] for each in choices if each.get("finish_reason")] == [expected_choices[-1]["finish_reason"]]
        if not recording.streamed:
            assert response["usage"] == recording.body["usage"]

    return NonChatRequest("/v1/completions", request_body, check_completion)


def _normalize_any(body: Any) -> Any:
    return (
        normalize(body)
        if "messages" in body
        else {key: value for key, value in body.items() if value is not None and key in _NON_CHAT_FIELDS}
    )


_NON_CHAT_FIELDS = ("prompt", "input", "max_tokens")

TOGETHER = Host(
    folder="together",
    recordings=recordings("together"),
    provider_target=_provider_target("together"),
    chat=_together_chat,
    non_chat=_together_non_chat,
    expected=situation_of,
    normalize=_normalize_any,
    expected_errors={"c03-error-429": ExpectedError(429, "model_rate_limit")},
    missing_features={
        "documents": "refused: its chat reads text, images and audio",
        "citations": "its responses have no citations, by its SDK",
        "safety stops": "it has no finish reason for them, by its SDK",
        "token counting": "it has no API that counts tokens before a request",
    },
)

GROQ = Host(
    folder="groq",
    recordings=recordings("groq"),
    provider_target=_provider_target("groq"),
    chat=chat_of,
    expected=situation_of,
    normalize=normalize,
    # A refused key is the gateway's own: the caller gets a 502.
    expected_errors={
        "08-error-401": ExpectedError(502, "invalid_api_key"),
        "09-error-404": ExpectedError(404, "model_not_found"),
        "c02-error-429": ExpectedError(429, "rate_limit_exceeded"),
    },
    missing_features={
        "documents": "refused: its chat reads text and images",
        "audio": "refused: its chat reads text and images",
        "citations": "the sources of its compound systems are in a field of their own, which is not read",
        "safety stops": "it has no finish reason for them, by its SDK",
        "embeddings": "it has no embeddings (https://console.groq.com/docs/openai)",
        "token counting": "it has no API that counts tokens before a request",
    },
)

_REQUIRE_PARAMETERS_WHY = "only hosts that support all parameters are used (option require_parameters)"


def _with_require_parameters(body: Any) -> Any:
    return {**body, "provider": {"require_parameters": True}}


# OpenRouter's recording that is not a chat.
_EMBEDDINGS_RECORDING = "c04-embeddings"


def _openrouter_embeddings(recording: Recording) -> NonChatRequest | None:
    if recording.name != _EMBEDDINGS_RECORDING:
        return None

    def check_embeddings(response: Any) -> None:
        assert (response["data"], response["usage"]) == (recording.body["data"], recording.body["usage"])

    return NonChatRequest("/v1/embeddings", {"input": recording.request_body["input"]}, check_embeddings)


OPENROUTER = Host(
    folder="openrouter",
    recordings=recordings("openrouter"),
    provider_target=_provider_target("openrouter"),
    chat=lambda recording: None if recording.name == _EMBEDDINGS_RECORDING else chat_of(recording),
    non_chat=_openrouter_embeddings,
    expected=situation_of,
    normalize=_normalize_any,
    known_differences=dict.fromkeys(
        ("04-tool-stream", "05-reasoning", "06-structured"), (_REQUIRE_PARAMETERS_WHY, _with_require_parameters)
    ),
    expected_errors={"08-error-401": ExpectedError(502), "09-error-429": ExpectedError(429)},
    missing_features={"token counting": "it has no API that counts tokens before a request"},
)


def _with_search_citations(recording: Recording) -> Situation:
    """The search results are citations of the complete text."""
    situation = situation_of(recording)
    found: list[dict[str, Any]] = (recording.events[-1] if recording.streamed else recording.body)["search_results"]
    citations = tuple(Citation("openai_chat", raw({}), each["url"], each["title"], each.get("snippet")) for each in found)
    return replace(situation, parts=tuple(Text(part.text, citations) if isinstance(part, Text) else part for part in situation.parts))


_SONAR_CALLS = "refused: Sonar has no function calls (https://docs.perplexity.ai/api-reference/chat-completions-post)"
PERPLEXITY = Host(
    folder="perplexity",
    recordings=recordings("perplexity"),
    provider_target=_provider_target("perplexity"),
    chat=chat_of,
    expected=_with_search_citations,
    normalize=normalize,
    expected_errors={
        "03-error-400": ExpectedError(400, "too_many_prompt_tokens"),
        "04-error-401": ExpectedError(502, "invalid_api_key"),
        "c02-error-429": ExpectedError(429, "request_rate_limit_exceeded"),
    },
    missing_features={
        **dict.fromkeys(("tools", "tools, streamed", "parallel calls", "tool choice", "tool results"), _SONAR_CALLS),
        "documents": "refused: it reads them in a part that no other API has",
        "audio": "refused: it reads text, images and files",
        **dict.fromkeys(("reasoning", "reasoning sent back"), "its reasoning models write `<think>` into their text, where it stays"),
        "prompt caching": "its usage has no cached tokens, by its SDK",
        "safety stops": "it has no finish reason for them, by its SDK",
        "embeddings": "its embeddings are base64 of int8, which no supported API has",
        "token counting": "it has no API that counts tokens before a request",
    },
)

CEREBRAS = Host(
    folder="cerebras",
    recordings=recordings("cerebras"),
    provider_target=_provider_target("cerebras"),
    chat=chat_of,
    expected=situation_of,
    normalize=normalize,
    expected_errors={"c03-error-429": ExpectedError(429, "token_quota_exceeded")},
    missing_features={
        **dict.fromkeys(("images", "documents", "audio"), "refused: it reads only text"),
        "citations": "its responses have no citations, by its SDK",
        "embeddings": "it has no embeddings (https://inference-docs.cerebras.ai/api-reference)",
        "token counting": "it has no API that counts tokens before a request",
    },
)

# Constructed from its documentation: evidence only that the adapter follows our reading of it.
HYPERBOLIC = Host(
    folder="hyperbolic",
    recordings=recordings("hyperbolic", *EVIDENCE, "constructed-from-docs"),
    # Off by default until somebody has seen them work at Hyperbolic.
    provider_target=_provider_target("hyperbolic", tools=True, response_format=True),
    chat=chat_of,
    expected=situation_of,
    normalize=normalize,
    expected_errors={"c04-error-429": ExpectedError(429)},
    missing_features={
        **dict.fromkeys(("documents", "audio"), "refused: it reads text and images"),
        **dict.fromkeys(("reasoning", "reasoning sent back"), "no field is documented: DeepSeek R1 writes `<think>` into its text"),
        **dict.fromkeys(("prompt caching", "citations", "safety stops"), "its documentation has none"),
        "embeddings": "it has no embeddings (https://docs.hyperbolic.xyz/docs/rest-api)",
        "token counting": "it has no API that counts tokens before a request",
    },
)

HOSTS = (TOGETHER, GROQ, OPENROUTER, PERPLEXITY, CEREBRAS, HYPERBOLIC)
