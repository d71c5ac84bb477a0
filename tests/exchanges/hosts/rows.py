"""The recordings of hosts that are rows: Together, Groq, OpenRouter, Perplexity, Cerebras, Hyperbolic."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Citation, Text
from tests.conformance.situations import Situation
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.plain_openai import alike, chat_of, raw, situation_of
from tests.exchanges.hosts.recordings import EVIDENCE, Recording, recordings


def _reached(adapter: str, **options: Any) -> Callable[[Recording], Reached]:
    return lambda recording: Reached(adapter=adapter, model=recording.asked["model"], options=options)


# Together: completions and embeddings beside chats.
_COMPLETIONS = ("02-completions-2024", "11-completions", "12-completions-stream")
_EMBEDDINGS = ("15-embeddings-no-encoding",)


def _together_chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name in (*_COMPLETIONS, *_EMBEDDINGS) else chat_of(recording)


def _together_beside(recording: Recording) -> Plain | None:
    asked = {key: value for key, value in recording.asked.items() if key not in ("model", "extra_body")}
    if recording.name in _EMBEDDINGS:

        def embedded(told: Any) -> None:
            assert told["data"] == recording.body["data"] and told["object"] == "list"

        return Plain("/v1/embeddings", asked, embedded)
    if recording.name not in _COMPLETIONS:
        return None
    bodies = recording.events if recording.streamed else [recording.body]

    def completed(told: Any) -> None:
        answers: list[dict[str, Any]] = told if recording.streamed else [told]
        choices = [choice for each in answers for choice in each["choices"]]
        wanted = [choice for each in bodies for choice in each["choices"]]
        assert "".join(each["text"] for each in choices) == "".join(each["text"] for each in wanted)
        assert [each["finish_reason"] for each in choices if each.get("finish_reason")] == [wanted[-1]["finish_reason"]]
        if not recording.streamed:
            assert told["usage"] == recording.body["usage"]

    return Plain("/v1/completions", asked, completed)


def _any_alike(body: Any) -> Any:
    return alike(body) if "messages" in body else {key: value for key, value in body.items() if value is not None and key in _BESIDE}


_BESIDE = ("prompt", "input", "max_tokens")

TOGETHER = Host(
    folder="together",
    recordings=recordings("together"),
    reached=_reached("together"),
    chat=_together_chat,
    plain=_together_beside,
    expected=situation_of,
    alike=_any_alike,
    refusals={"c03-error-429": Refusal(429, "model_rate_limit")},
    lacks={
        "documents": "refused: its chat reads texts, images and sounds",
        "citations": "its answers cite nothing, by its SDK",
        "safety stops": "its answers have no such reason to end, by its SDK",
        "token counting": "it counts no tokens before it is asked",
    },
)

GROQ = Host(
    folder="groq",
    recordings=recordings("groq"),
    reached=_reached("groq"),
    chat=chat_of,
    expected=situation_of,
    alike=alike,
    # A key that is refused is ours: the caller is told 502.
    refusals={
        "08-error-401": Refusal(502, "invalid_api_key"),
        "09-error-404": Refusal(404, "model_not_found"),
        "c02-error-429": Refusal(429, "rate_limit_exceeded"),
    },
    lacks={
        "documents": "refused: its chat reads texts and images",
        "audio": "refused: its chat reads texts and images",
        "citations": "what its compound systems found stands in a field of their own, which is not read",
        "safety stops": "its answers have no such reason to end, by its SDK",
        "embeddings": "it makes none (https://console.groq.com/docs/openai)",
        "token counting": "it counts no tokens before it is asked",
    },
)

_REQUIRES = "only hosts that know all that is said are asked (option require_parameters)"


def _requiring(body: Any) -> Any:
    return {**body, "provider": {"require_parameters": True}}


# What it makes beside chats.
_VECTORS = "c04-embeddings"


def _openrouter_beside(recording: Recording) -> Plain | None:
    if recording.name != _VECTORS:
        return None

    def embedded(told: Any) -> None:
        assert (told["data"], told["usage"]) == (recording.body["data"], recording.body["usage"])

    return Plain("/v1/embeddings", {"input": recording.asked["input"]}, embedded)


OPENROUTER = Host(
    folder="openrouter",
    recordings=recordings("openrouter"),
    reached=_reached("openrouter"),
    chat=lambda recording: None if recording.name == _VECTORS else chat_of(recording),
    plain=_openrouter_beside,
    expected=situation_of,
    alike=_any_alike,
    differs=dict.fromkeys(("04-tool-stream", "05-reasoning", "06-structured"), (_REQUIRES, _requiring)),
    refusals={"08-error-401": Refusal(502), "09-error-429": Refusal(429)},
    lacks={"token counting": "it counts no tokens before it is asked"},
)


def _searched(recording: Recording) -> Situation:
    """What it found on the web is cited of the whole text."""
    told = situation_of(recording)
    found: list[dict[str, Any]] = (recording.events[-1] if recording.streamed else recording.body)["search_results"]
    citations = tuple(Citation("openai_chat", raw({}), each["url"], each["title"], each.get("snippet")) for each in found)
    return replace(told, parts=tuple(Text(part.text, citations) if isinstance(part, Text) else part for part in told.parts))


_SONAR_CALLS = "refused: Sonar calls no functions of callers' (https://docs.perplexity.ai/api-reference/chat-completions-post)"
PERPLEXITY = Host(
    folder="perplexity",
    recordings=recordings("perplexity"),
    reached=_reached("perplexity"),
    chat=chat_of,
    expected=_searched,
    alike=alike,
    refusals={
        "03-error-400": Refusal(400, "too_many_prompt_tokens"),
        "04-error-401": Refusal(502, "invalid_api_key"),
        "c02-error-429": Refusal(429, "request_rate_limit_exceeded"),
    },
    lacks={
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
    reached=_reached("cerebras"),
    chat=chat_of,
    expected=situation_of,
    alike=alike,
    refusals={"c03-error-429": Refusal(429, "token_quota_exceeded")},
    lacks={
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
    reached=_reached("hyperbolic", tools=True, response_format=True),
    chat=chat_of,
    expected=situation_of,
    alike=alike,
    refusals={"c04-error-429": Refusal(429)},
    lacks={
        **dict.fromkeys(("documents", "audio"), "refused: it reads texts and images"),
        **dict.fromkeys(("reasoning", "reasoning sent back"), "no field for it is documented: DeepSeek R1 writes `<think>` into its text"),
        **dict.fromkeys(("prompt caching", "citations", "safety stops"), "its documents tell of none"),
        "embeddings": "it makes none (https://docs.hyperbolic.xyz/docs/rest-api)",
        "token counting": "it counts no tokens before it is asked",
    },
)

HOSTS = (TOGETHER, GROQ, OPENROUTER, PERPLEXITY, CEREBRAS, HYPERBOLIC)
