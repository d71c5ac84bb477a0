"""What a caller hears of an answer through its SDK, in its own API's words; and an SDK's transport that recites one answer."""

import json
from typing import Any, TypeVar

import httpx2
from msgspec import Struct
from pydantic import BaseModel

from providers.canonical.raw_json import SSEDecoder

Model = TypeVar("Model", bound=BaseModel)
SdkPart = tuple[str, ...]


class SdkResponse(Struct, frozen=True):
    """`parts`: kind and words of each, calls with id, name and arguments. `usage`: input, output, cached, reasoning, written to a cache;
    None: not told. `urls`: what is cited. `tokens`: those with logprobs. `others`: the texts of further choices.
    """

    parts: tuple[SdkPart, ...]
    finish: str
    stop_sequence: str | None = None
    usage: tuple[int, int, int, int, int] | None = None
    cited_urls: tuple[str, ...] = ()
    logprob_tokens: tuple[str, ...] = ()
    other_choices: tuple[str, ...] = ()


class FixedStreamTransport(httpx2.BaseTransport):
    """Gives every request the same stream."""

    def __init__(self) -> None:
        self._body = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self._body)

    def set_stream(self, body: bytes) -> None:
        self._body = body


def canonical_json(text: str) -> str:
    """Arguments as JSON that compares; a call that needs none may say so with nothing. What is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except ValueError:
        return text


def merge_adjacent(parts: list[SdkPart]) -> tuple[SdkPart, ...]:
    """Texts side by side as one: where one ends and the next begins has no meaning."""
    out: list[SdkPart] = []
    for part in parts:
        if len(part) == 2 and out and out[-1][0] == part[0]:
            out[-1] = (part[0], out[-1][1] + part[1])
        elif part[1:] != ("",):
            out.append(part)
    return tuple(out)


def event_payloads(stream: bytes) -> list[Any]:
    """The JSON of each event, [DONE] left out."""
    frames = SSEDecoder()
    return [json.loads(data) for data in [*frames.feed(stream), *frames.finish()] if data != b"[DONE]"]


def event_names(stream: bytes) -> list[str]:
    """The `event:` of each event."""
    return [line.removeprefix("event: ") for line in stream.decode().split("\n") if line.startswith("event: ")]


def dump_for_next_request(model: BaseModel) -> Any:
    """What an SDK sends when its user puts an answer, or a part of one, into the next request."""
    return model.model_dump(mode="json", exclude_unset=True, exclude=getattr(model, "__api_exclude__", None))
