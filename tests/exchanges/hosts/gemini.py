"""The recordings of Google's generateContent: at AI Studio, and at Vertex."""

import json
from typing import Any

from providers.canonical.chat import ChatRequest
from tests.exchanges.hosts.gemini_bodies import alike, chat_of, situation_of
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings

_EMBEDDINGS = "21-embeddings"


def _model(recording: Recording) -> str:
    return recording.path.rpartition("/")[2].partition(":")[0]


def _reached(recording: Recording) -> Reached:
    return Reached(adapter="gemini", model=_model(recording))


def _chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name == _EMBEDDINGS else chat_of(recording)


def _embedded(recording: Recording) -> Plain | None:
    """Without the dimensions that were asked for: of the 768 numbers the recording keeps 16."""
    if recording.name != _EMBEDDINGS:
        return None

    def check(told: Any) -> None:
        assert told["data"] == [{"object": "embedding", "index": 0, "embedding": recording.body["embeddings"][0]["values"]}]
        assert told["usage"] == {"prompt_tokens": 8, "total_tokens": 8}

    (asked,) = recording.asked["requests"]
    return Plain("/v1/embeddings", {"input": asked["content"]["parts"][0]["text"]}, check)


def _any_alike(body: Any) -> Any:
    return alike(body) if "contents" in body else body


def _without_dimensions(body: Any) -> Any:
    return {"requests": [{key: value for key, value in each.items() if key != "outputDimensionality"} for each in body["requests"]]}


def _without_search(body: Any) -> Any:
    return {key: value for key, value in body.items() if key not in ("tools", "toolConfig")}


AI_STUDIO = Host(
    folder="google_ai_studio",
    recordings=recordings("google_ai_studio"),
    reached=_reached,
    chat=_chat,
    expected=situation_of,
    alike=_any_alike,
    plain=_embedded,
    refusals={
        "22-error-400-a": Refusal(502, "API_KEY_INVALID"),
        "24-error-404": Refusal(404, "NOT_FOUND"),
        "quota-of-a-minute": Refusal(429, "RESOURCE_EXHAUSTED"),
    },
    differs={
        _EMBEDDINGS: ("the recording keeps fewer numbers than were asked for", _without_dimensions),
        "18-grounding": ("a search of files that Google keeps is no tool that a caller could name", _without_search),
    },
)

HOSTS = (AI_STUDIO,)


def frames_of(recording: Recording) -> bytes:
    """An answer as it came."""
    return recording.raw if recording.streamed else json.dumps(recording.body).encode()
