"""The recordings of OpenAI, Azure, DeepSeek, Fireworks and xAI: chat, Responses, and what is asked beside chats."""

import json
from collections.abc import Callable
from typing import Any

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES, Situation
from tests.exchanges.hosts import openai_bodies, plain_anthropic, responses_bodies
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings

_AUDIO = "audio is spoken to OpenAI's chat alone, and heard by nobody else"


def _reached(adapter: str, **options: Any) -> Callable[[Recording], Reached]:
    def reached(recording: Recording) -> Reached:
        dialect = _spoken(recording) if _is_chat(recording) else None
        return Reached(adapter=adapter, model=recording.asked["model"], options=options, dialect=dialect)

    return reached


_BODIES = {RESPONSES: responses_bodies, ANTHROPIC: plain_anthropic, CHAT: openai_bodies}


def _spoken(recording: Recording) -> str:
    return RESPONSES if recording.path.endswith("/responses") else ANTHROPIC if recording.path.endswith("/messages") else CHAT


def _is_chat(recording: Recording) -> bool:
    return _spoken(recording) != CHAT or "/chat/completions" in recording.path


def _chat(recording: Recording) -> ChatRequest | None:
    if not _is_chat(recording) or recording.id in _BESIDE:
        return None
    return _BODIES[_spoken(recording)].chat_of(recording)


def _expected(recording: Recording) -> Situation:
    return _BODIES[_spoken(recording)].situation_of(recording)


def _alike(body: Any) -> Any:
    if "messages" in body:
        is_anthropics = any("input_schema" in tool for tool in body.get("tools", ()))
        return (plain_anthropic if is_anthropics else openai_bodies).alike(body)
    if "prompt" in body:
        return {key: value for key, value in body.items() if key not in ("model", "stream", "extra_body")}
    if isinstance(body["input"], str) or all(isinstance(each, str) for each in body["input"]):
        return {key: value for key, value in body.items() if key not in ("model", "stream")}
    return responses_bodies.alike(body)


# Chats that only their own callers can ask or hear: a message of no kind, an answer that is spoken.
_BESIDE = ("openai/38-error-400-c", "openai/39-error-400-d", "openai/44-chat-audio-output")


_CUT = ("openai/35-embeddings",)


def _plain(recording: Recording) -> Plain | None:
    if _chat(recording) is not None:
        return None
    # Of 768 numbers that were asked for the recording keeps 16.
    left_out = ("model", "stream", "extra_body", *(("dimensions",) if recording.id in _CUT else ()))
    ask = {key: value for key, value in recording.asked.items() if key not in left_out}
    route = "/v1/embeddings" if recording.path.endswith("/embeddings") else "/v1" + recording.path.rpartition("/v1")[2]

    def check(told: Any) -> None:
        if "embeddings" in route:
            assert told["data"] == recording.body["data"]
            return
        (choice,), (wanted,) = told["choices"], recording.body["choices"]
        said = "text" if "text" in wanted else "message"
        assert (choice[said], choice["finish_reason"]) == (wanted[said], wanted["finish_reason"])
        assert told["usage"] == recording.body["usage"]

    return Plain(route, json.loads(json.dumps(ask)), check)


def _without_dimensions(body: Any) -> Any:
    return {key: value for key, value in body.items() if key != "dimensions"}


_ITS_OWN_COUNT = "its count is a route of Responses (/v1/responses/input_tokens), which the gateway does not offer"

OPENAI = Host(
    folder="openai",
    recordings=recordings("openai"),
    reached=_reached("openai", dialects=["openai_responses", "openai_chat", "openai_embeddings"]),
    chat=_chat,
    plain=_plain,
    expected=_expected,
    alike=_alike,
    refusals={
        "36-error-400-a": Refusal(400, "model_not_found"),
        "40-error-401": Refusal(502, "invalid_api_key"),
        "41-error-404-a": Refusal(404, "model_not_found"),
        "62-error-429-quota": Refusal(429, "insufficient_quota"),
        "63-error-429-rate": Refusal(429, "rate_limit_exceeded"),
    },
    refused_here={"38-error-400-c": "messages", "39-error-400-d": "temperature"},
    differs={"35-embeddings": ("the recording keeps fewer numbers than were asked for", _without_dimensions)},
    unsaid={
        ("18-chat-audio-input", ANTHROPIC): _AUDIO,
        ("18-chat-audio-input", RESPONSES): _AUDIO,
        ("03-chat-developer-role", ANTHROPIC): "instructions alone are no conversation there: they are the user's message",
        ("11-chat-json-schema", ANTHROPIC): "a schema has no name there",
    },
    lacks={"token counting": _ITS_OWN_COUNT},
)


def _azure(recording: Recording) -> Reached:
    options: dict[str, Any] = {}
    if recording.path.startswith("/models"):
        options = {"api": "models"}
    elif "/deployments/" in recording.path:
        options = {"api_version": "2025-01-01-preview"}
    return _reached("azure", **options)(recording)


# The version is the operator's: the recorder took one away, and kept another.
AZURE = Host(
    folder="azure_openai",
    recordings=recordings("azure_openai"),
    reached=_azure,
    chat=_chat,
    plain=_plain,
    expected=_expected,
    alike=_alike,
    path=lambda path: path.removesuffix("?api-version=2025-01-01-preview"),
    refusals={
        "06-error-401": Refusal(502),
        "08-error-429": Refusal(429, "RateLimitReached"),
        "22-error-400-content-filter": Refusal(400, "content_filter"),
    },
    unsaid={("23-chat-schema", ANTHROPIC): "a schema has no name there"},
    lacks={"token counting": _ITS_OWN_COUNT},
)

DEEPSEEK = Host(
    folder="deepseek",
    recordings=recordings("deepseek"),
    reached=_reached("deepseek"),
    chat=_chat,
    expected=_expected,
    alike=_alike,
    refusals={"22-error-400-a": Refusal(400, "invalid_request_error"), "26-error-401": Refusal(502, "invalid_request_error")},
    # Thinking allows no choice of a tool; sounds it does not read; and its Responses are not known to hold to `strict`.
    refused_here={"23-error-400-b": "tool_choice", "24-error-400-c": "messages[0].content[1]", "21-responses-tool": "tools[0].strict"},
    unsaid={
        ("21-responses-tool", CHAT): "it says `tools[0].function.strict` for that",
        ("24-error-400-c", RESPONSES): "it says `input[0].content[1]` for that",
        ("24-error-400-c", ANTHROPIC): _AUDIO,
    },
    lacks={
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
    reached=_reached("fireworks"),
    chat=_chat,
    plain=_plain,
    expected=_expected,
    alike=_alike,
    refusals={
        "22-messages-error-400": Refusal(400, "invalid_request_error"),
        "24-chat-error-429": Refusal(429, "rate_limit_exceeded"),
    },
    lacks={
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
    reached=_reached("xai"),
    chat=_chat,
    expected=_expected,
    alike=_alike,
    refusals={"19-error-400-a": Refusal(502, "invalid-argument"), "20-error-400-b": Refusal(400, "invalid-argument")},
    lacks={
        "audio": "its chat hears nothing (https://docs.x.ai/developers/rest-api-reference); refused by name",
        "embeddings": "it has none in public (https://docs.x.ai/developers/rest-api-reference)",
        "token counting": "it counts texts alone (/v1/tokenize-text), and no chats",
    },
)

HOSTS = (OPENAI, AZURE, DEEPSEEK, FIREWORKS, XAI)
