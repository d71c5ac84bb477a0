"""Vertex: Claude, with bodies of Anthropic Messages, and Gemini, with the bodies of AI Studio."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Content, Reasoning, ToolCall
from tests.conformance.situations import CHAT, RESPONSES
from tests.replay.hosts import anthropic_messages_bodies, gemini_bodies
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_MODEL_PATH = re.compile(r"/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/publishers/[^/]+/models/(?P<model>[^/:]+):")
_EMBEDDINGS = "17-embeddings"
_MAX_TOKENS = 1000
_WITH_SIGNATURES = ("01-plain", "06-tool-result", "18-error-400-a")


def _provider_target(recording: Recording) -> ProviderTarget:
    location = _MODEL_PATH.search(recording.path)
    assert location is not None
    options = {"project": location["project"], "location": location["location"]}
    return ProviderTarget(adapter="vertex", model=location["model"], options=options)


CLAUDE = Host(
    folder="gcp_vertex_anthropic",
    recordings=recordings("gcp_vertex_anthropic"),
    provider_target=_provider_target,
    chat=anthropic_messages_bodies.chat_of,
    expected=anthropic_messages_bodies.situation_of,
    normalize=anthropic_messages_bodies.normalize,
    expected_errors={"quota-of-a-minute": ExpectedError(429, "RESOURCE_EXHAUSTED")},
    excluded_callers={
        (
            "thinking-parallel-calls-stream",
            caller,
        ): "they have signatures only in the gateway's carriers, and Claude does not continue calls without them"
        for caller in (CHAT, RESPONSES)
    },
    missing_features={
        "audio": "refused: Claude reads text, images and documents (https://docs.claude.com/en/api/messages).",
        "embeddings": "Anthropic has no embeddings; with a Claude model they are a 501 (tests/unit/hosted/test_vertex.py).",
    },
)


def _chat(recording: Recording) -> ChatRequest | None:
    """The request without signatures, which callers get only in the gateway's carriers (test_gemini_round_trip.py).

    Only callers of Anthropic's API can say that a tool failed, and they always send max_tokens.
    """
    if recording.name == _EMBEDDINGS:
        return None
    chat = gemini_bodies.chat_of(recording)
    if recording.name in _WITH_SIGNATURES:
        chat = replace(chat, max_tokens=_MAX_TOKENS)
    return replace(chat, messages=tuple(replace(each, parts=tuple(_without_signatures(each.parts))) for each in chat.messages))


def _without_signatures(parts: Iterable[Content]) -> Iterator[Content]:
    for part in parts:
        if isinstance(part, ToolCall):
            yield replace(part, opaque_state=None)
        elif not isinstance(part, Reasoning) or part.text:
            yield part


def _with_placeholder_signatures(body: Any) -> Any:
    """Returns the body with Google's placeholder in calls without a signature, and with the limit that callers of Messages set.

    Source: https://ai.google.dev/gemini-api/docs/thought-signatures.
    """
    contents = [{**each, "parts": [_with_placeholder_signature(part) for part in each["parts"]]} for each in body["contents"]]
    return {**body, "contents": contents, "config": {**body["config"], "maxOutputTokens": _MAX_TOKENS}}


def _with_placeholder_signature(part: dict[str, Any]) -> dict[str, Any]:
    unsigned = {key: value for key, value in part.items() if key != "thoughtSignature"}
    return {**unsigned, "thoughtSignature": "skip_thought_signature_validator"} if "functionCall" in part else unsigned


def _embeddings(recording: Recording) -> NonChatRequest | None:
    if recording.name != _EMBEDDINGS:
        return None
    texts = [each["content"] for each in recording.request_body["instances"]]
    vectors = [each["embeddings"] for each in recording.body["predictions"]]
    tokens = sum(each["statistics"]["token_count"] for each in vectors)

    def check(response: Any) -> None:
        assert [each["embedding"] for each in response["data"]] == [each["values"] for each in vectors]
        assert response["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}

    return NonChatRequest("/v1/embeddings", {"input": texts}, check)


def _without_auto_truncate(body: Any) -> Any:
    return {**body, "parameters": {"autoTruncate": False}}


def _normalize(body: Any) -> Any:
    return gemini_bodies.normalize(body) if "contents" in body else body


GEMINI = Host(
    folder="gcp_vertex_gemini",
    recordings=recordings("gcp_vertex_gemini"),
    provider_target=_provider_target,
    chat=_chat,
    expected=gemini_bodies.situation_of,
    normalize=_normalize,
    non_chat=_embeddings,
    known_differences={
        _EMBEDDINGS: ("a text that is too long for the model is an error, and not truncated silently", _without_auto_truncate),
        **{
            name: ("callers have signatures only in carriers, and this request has none", _with_placeholder_signatures)
            for name in _WITH_SIGNATURES
        },
    },
    expected_errors={
        "18-error-400-a": ExpectedError(400, "INVALID_ARGUMENT"),
        "quota-of-a-minute": ExpectedError(429, "RESOURCE_EXHAUSTED"),
    },
)

HOSTS = (CLAUDE, GEMINI)
