"""Google AI Studio: generateContent and embeddings."""

import json
from typing import Any

from providers.canonical.chat import ChatRequest
from tests.replay.hosts.gemini_bodies import chat_of, normalize, situation_of
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_EMBEDDINGS = "21-embeddings"


def _model(recording: Recording) -> str:
    return recording.path.rpartition("/")[2].partition(":")[0]


def _provider_target(recording: Recording) -> ProviderTarget:
    return ProviderTarget(adapter="gemini", model=_model(recording))


def _chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name == _EMBEDDINGS else chat_of(recording)


def _embeddings(recording: Recording) -> NonChatRequest | None:
    """Returns the request of the recorded embeddings, or None for any other recording.

    The request leaves out the dimensions, because the recording keeps only 16 of the 768 numbers.
    """
    if recording.name != _EMBEDDINGS:
        return None

    def check(response: Any) -> None:
        assert response["data"] == [{"object": "embedding", "index": 0, "embedding": recording.body["embeddings"][0]["values"]}]
        assert response["usage"] == {"prompt_tokens": 8, "total_tokens": 8}

    (request_body,) = recording.request_body["requests"]
    return NonChatRequest("/v1/embeddings", {"input": request_body["content"]["parts"][0]["text"]}, check)


def _normalize_any(body: Any) -> Any:
    return normalize(body) if "contents" in body else body


def _without_dimensions(body: Any) -> Any:
    return {"requests": [{key: value for key, value in each.items() if key != "outputDimensionality"} for each in body["requests"]]}


def _without_search(body: Any) -> Any:
    return {key: value for key, value in body.items() if key not in ("tools", "toolConfig")}


AI_STUDIO = Host(
    folder="google_ai_studio",
    recordings=recordings("google_ai_studio"),
    provider_target=_provider_target,
    chat=_chat,
    expected=situation_of,
    normalize=_normalize_any,
    non_chat=_embeddings,
    expected_errors={
        "22-error-400-a": ExpectedError(502, "API_KEY_INVALID"),
        "24-error-404": ExpectedError(404, "NOT_FOUND"),
        "quota-of-a-minute": ExpectedError(429, "RESOURCE_EXHAUSTED"),
    },
    known_differences={
        _EMBEDDINGS: ("the recording keeps fewer numbers than requested", _without_dimensions),
        "18-grounding": ("callers have no tool for a search of files that are stored at Google", _without_search),
    },
)

HOSTS = (AI_STUDIO,)


def frames_of(recording: Recording) -> bytes:
    """The response body as bytes."""
    return recording.raw if recording.streamed else json.dumps(recording.body).encode()
