"""The recordings of hosts that are rows: Together, Groq, OpenRouter, Perplexity, Cerebras, Hyperbolic."""

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


# Together: completions and embeddings beside chats.
_COMPLETIONS = ("02-completions-2024", "11-completions", "12-completions-stream")
_EMBEDDINGS = ("15-embeddings-no-encoding",)


def _together_chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name in (*_COMPLETIONS, *_EMBEDDINGS) else chat_of(recording)


def _together_non_chat(recording: Recording) -> NonChatRequest | None:
    request_body = {key: value for key, value in recording.request_body.items() if key not in ("model", "extra_body")}
    if recording.name in _EMBEDDINGS:

        def embedded(response: Any) -> None:
            assert response["data"] == recording.body["data"] and response["object"] == "list"

        return NonChatRequest("/v1/embeddings", request_body, embedded)
    if recording.name not in _COMPLETIONS:
        return None
    bodies = recording.events if recording.streamed else [recording.body]

    def completed(response: Any) -> None:
        answers: list[dict[str, Any]] = response if recording.streamed else [response]
        choices = [choice for each in answers for choice in each["choices"]]
        wanted = [choice for each in bodies for choice in each["choices"]]
        assert "".join(each["text"] for each in choices) == "".join(each["text"] for each in wanted)
        assert [each["finish_reason"] for each in choices if each.get("finish_reason")] == [wanted[-1]["finish_reason"]]
        if not recording.streamed:
            assert response["usage"] == recording.body["usage"]

    return NonChatRequest("/v1/completions", request_body, completed)


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
        "documents": "refused: its chat reads texts, images and sounds",
        "citations": "its answers cite nothing, by its SDK",
        "safety stops": "its answers have no such reason to end, by its SDK",
        "token counting": "it counts no tokens before it is asked",
    },
)

GROQ = Host(
    folder="groq",
    recordings=recordings("groq"),
    provider_target=_provider_target("groq"),
    chat=chat_of,
    expected=situation_of,
    normalize=normalize,
    # A key that is refused is ours: the caller is told 502.
    expected_errors={
        "08-error-401": ExpectedError(502, "invalid_api_key"),
        "09-error-404": ExpectedError(404, "model_not_found"),
        "c02-error-429": ExpectedError(429, "rate_limit_exceeded"),
    },
    missing_features={
        "documents": "refused: its chat reads texts and images",
        "audio": "refused: its chat reads texts and images",
        "citations": "what its compound systems found stands in a field of their own, which is not read",
        "safety stops": "its answers have no such reason to end, by its SDK",
        "embeddings": "it makes none (https://console.groq.com/docs/openai)",
        "token counting": "it counts no tokens before it is asked",
    },
)

_REQUIRE_PARAMETERS_WHY = "only hosts that know all that is said are asked (option require_parameters)"


def _with_require_parameters(body: Any) -> Any:
    return {**body, "provider": {"require_parameters": True}}


# What it makes beside chats.
_EMBEDDINGS_RECORDING = "c04-embeddings"


def _openrouter_embeddings(recording: Recording) -> NonChatRequest | None:
    if recording.name != _EMBEDDINGS_RECORDING:
        return None

    def embedded(response: Any) -> None:
        assert (response["data"], response["usage"]) == (recording.body["data"], recording.body["usage"])

    return NonChatRequest("/v1/embeddings", {"input": recording.request_body["input"]}, embedded)


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
    missing_features={"token counting": "it counts no tokens before it is asked"},
)


def _with_search_citations(recording: Recording) -> Situation:
    """What it found on the web is cited of the whole text."""
    situation = situation_of(recording)
    found: list[dict[str, Any]] = (recording.events[-1] if recording.streamed else recording.body)["search_results"]
    citations = tuple(Citation("openai_chat", raw({}), each["url"], each["title"], each.get("snippet")) for each in found)
    return replace(situation, parts=tuple(Text(part.text, citations) if isinstance(part, Text) else part for part in situation.parts))


_SONAR_CALLS = "refused: Sonar calls no functions of callers' (https://docs.perplexity.ai/api-reference/chat-completions-post)"
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
        "documents": "refused: it reads them in a part of its own, which no other API has",
        "audio": "refused: it reads texts, images and files",
        **dict.fromkeys(("reasoning", "reasoning sent back"), "its models that reason write `<think>` into their text, where it stays"),
        "prompt caching": "its usage tells of none, by its SDK",
        "safety stops": "its answers have no such reason to end, by its SDK",
        "embeddings": "its own are base64 of int8, which no caller of ours could read: not spoken",
        "token counting": "it counts no tokens before it is asked",
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
        **dict.fromkeys(("images", "documents", "audio"), "refused: it reads texts alone"),
        "citations": "its answers cite nothing, by its SDK",
        "embeddings": "it makes none (https://inference-docs.cerebras.ai/api-reference)",
        "token counting": "it counts no tokens before it is asked",
    },
)

# Made from its documents: evidence of no more than that our reading of them holds.
HYPERBOLIC = Host(
    folder="hyperbolic",
    recordings=recordings("hyperbolic", *EVIDENCE, "constructed-from-docs"),
    # Off, until somebody has seen them work there.
    provider_target=_provider_target("hyperbolic", tools=True, response_format=True),
    chat=chat_of,
    expected=situation_of,
    normalize=normalize,
    expected_errors={"c04-error-429": ExpectedError(429)},
    missing_features={
        **dict.fromkeys(("documents", "audio"), "refused: it reads texts and images"),
        **dict.fromkeys(("reasoning", "reasoning sent back"), "no field for it is documented: DeepSeek R1 writes `<think>` into its text"),
        **dict.fromkeys(("prompt caching", "citations", "safety stops"), "its documents tell of none"),
        "embeddings": "it makes none (https://docs.hyperbolic.xyz/docs/rest-api)",
        "token counting": "it counts no tokens before it is asked",
    },
)

HOSTS = (TOGETHER, GROQ, OPENROUTER, PERPLEXITY, CEREBRAS, HYPERBOLIC)
