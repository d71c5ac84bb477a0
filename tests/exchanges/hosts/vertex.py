"""The recordings of Vertex: Claude, whose body is Anthropic's own, and Gemini, whose body is that of AI Studio."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Content, Reasoning, ToolCall
from tests.conformance.situations import CHAT, RESPONSES
from tests.exchanges.hosts import gemini_bodies, plain_anthropic
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.recordings import Recording, recordings

_PLACE = re.compile(r"/projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/publishers/[^/]+/models/(?P<model>[^/:]+):")
_EMBEDDINGS = "17-embeddings"
_MOST = 1000
_SIGNED = ("01-plain", "06-tool-result", "18-error-400-a")


def _reached(recording: Recording) -> Reached:
    place = _PLACE.search(recording.path)
    assert place is not None
    options = {"project": place["project"], "location": place["location"]}
    return Reached(adapter="vertex", model=place["model"], options=options)


CLAUDE = Host(
    folder="gcp_vertex_anthropic",
    recordings=recordings("gcp_vertex_anthropic"),
    reached=_reached,
    chat=plain_anthropic.chat_of,
    expected=plain_anthropic.situation_of,
    alike=plain_anthropic.alike,
    refusals={"quota-of-a-minute": Refusal(429, "RESOURCE_EXHAUSTED")},
    unsaid={
        ("thinking-parallel-calls-stream", caller): "they have signatures in carriers alone, and without them Claude goes on with no calls"
        for caller in (CHAT, RESPONSES)
    },
    lacks={
        "audio": "Claude reads texts, images and documents; refused by name (https://docs.claude.com/en/api/messages).",
        "embeddings": "Anthropic has none; asked for with a Claude they are a 501 (tests/laws/test_vertex.py).",
    },
)


def _chat(recording: Recording) -> ChatRequest | None:
    """Without signatures: callers have them out of our carriers, and only there (tests/laws/test_gemini_carriers.py).

    A caller of Anthropic's API, who alone can say that a tool failed, always says how much may be written.
    """
    if recording.name == _EMBEDDINGS:
        return None
    chat = gemini_bodies.chat_of(recording)
    if recording.name in _SIGNED:
        chat = replace(chat, max_tokens=_MOST)
    return replace(chat, messages=tuple(replace(each, parts=tuple(_unsealed(each.parts))) for each in chat.messages))


def _unsealed(parts: Iterable[Content]) -> Iterator[Content]:
    for part in parts:
        if isinstance(part, ToolCall):
            yield replace(part, opaque_state=None)
        elif not isinstance(part, Reasoning) or part.text:
            yield part


def _unsigned(body: Any) -> Any:
    """As Google says that a call is told that has lost its signature: https://ai.google.dev/gemini-api/docs/thought-signatures."""
    contents = [{**each, "parts": [_as_lost(part) for part in each["parts"]]} for each in body["contents"]]
    return {**body, "contents": contents, "config": {**body["config"], "maxOutputTokens": _MOST}}


def _as_lost(part: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in part.items() if key != "thoughtSignature"}
    return {**told, "thoughtSignature": "skip_thought_signature_validator"} if "functionCall" in part else told


def _embedded(recording: Recording) -> Plain | None:
    if recording.name != _EMBEDDINGS:
        return None
    texts = [each["content"] for each in recording.asked["instances"]]
    vectors = [each["embeddings"] for each in recording.body["predictions"]]
    tokens = sum(each["statistics"]["token_count"] for each in vectors)

    def check(told: Any) -> None:
        assert [each["embedding"] for each in told["data"]] == [each["values"] for each in vectors]
        assert told["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}

    return Plain("/v1/embeddings", {"input": texts}, check)


def _never_cut(body: Any) -> Any:
    return {**body, "parameters": {"autoTruncate": False}}


def _alike(body: Any) -> Any:
    return gemini_bodies.alike(body) if "contents" in body else body


GEMINI = Host(
    folder="gcp_vertex_gemini",
    recordings=recordings("gcp_vertex_gemini"),
    reached=_reached,
    chat=_chat,
    expected=gemini_bodies.situation_of,
    alike=_alike,
    plain=_embedded,
    differs={
        _EMBEDDINGS: ("what is too long for the model is an error, and not cut short without a word", _never_cut),
        **{name: ("callers have signatures in carriers, and this one has none", _unsigned) for name in _SIGNED},
    },
    refusals={"18-error-400-a": Refusal(400, "INVALID_ARGUMENT"), "quota-of-a-minute": Refusal(429, "RESOURCE_EXHAUSTED")},
)

HOSTS = (CLAUDE, GEMINI)
