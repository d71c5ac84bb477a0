"""Responses as the official SDKs return them, in one comparable form; and a transport that gives an SDK one fixed stream."""

import json
from typing import Any, TypeVar

import httpx2
from msgspec import Struct
from pydantic import BaseModel

from providers.canonical.sse import SSEDecoder

Model = TypeVar("Model", bound=BaseModel)
SdkPart = tuple[str, ...]
# The usage where the gateway counted, and the number of input tokens by which it is known: Anthropic's SDK keeps no mark in a stream.
ESTIMATED_USAGE = (-1, -1, -1, -1, -1)
ESTIMATED_INPUT = 987


class SdkResponse(Struct, frozen=True):
    """A response as a caller sees it."""

    parts: tuple[SdkPart, ...]  # the kind and text of each; of calls the id, name and arguments
    finish: str
    stop_sequence: str | None = None
    # tokens of input, output, cached, reasoning, written to a cache; ESTIMATED_USAGE if it is marked as an estimate
    usage: tuple[int, int, int, int, int] | None = None
    cited_urls: tuple[str, ...] = ()
    logprob_tokens: tuple[str, ...] = ()  # the tokens that have logprobs
    other_choices: tuple[str, ...] = ()  # the texts of further choices


class FixedStreamTransport(httpx2.BaseTransport):
    """Answers every request with the same stream."""

    def __init__(self) -> None:
        self._body = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self._body)

    def set_stream(self, body: bytes) -> None:
        self._body = body


def canonical_json(text: str) -> str:
    """Arguments as sorted JSON; empty arguments as `{}`, and invalid JSON unchanged."""
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except ValueError:
        return text


def merge_adjacent(parts: list[SdkPart]) -> tuple[SdkPart, ...]:
    """Join neighbouring texts of one kind, and leave out empty ones: where a text is split has no meaning."""
    out: list[SdkPart] = []
    for part in parts:
        if len(part) == 2 and out and out[-1][0] == part[0]:
            out[-1] = (part[0], out[-1][1] + part[1])
        elif part[1:] != ("",):
            out.append(part)
    return tuple(out)


def event_payloads(stream: bytes) -> list[Any]:
    """The JSON of each event but [DONE]."""
    frames = SSEDecoder()
    return [json.loads(data) for data in [*frames.feed(stream), *frames.finish()] if data != b"[DONE]"]


def event_names(stream: bytes) -> list[str]:
    """The `event:` of each event."""
    return [line.removeprefix("event: ") for line in stream.decode().split("\n") if line.startswith("event: ")]


def dump_for_next_request(model: BaseModel) -> Any:
    """Returns what an SDK sends when its user puts a response, or a part of one, into the next request."""
    return model.model_dump(mode="json", exclude_unset=True, exclude=getattr(model, "__api_exclude__", None))
