"""What a caller hears of an answer through its SDK, in its own API's words; and an SDK's transport that recites one answer."""

import json
from typing import Any, TypeVar

import httpx2
from msgspec import Struct
from pydantic import BaseModel

from providers.canonical.raw_json import SSEDecoder

Model = TypeVar("Model", bound=BaseModel)
Spoken = tuple[str, ...]


class Heard(Struct, frozen=True):
    """`parts`: kind and words of each, calls with id, name and arguments. `usage`: input, output, cached, reasoning, written to a cache;
    None: not told. `urls`: what is cited. `tokens`: those with logprobs. `others`: the texts of further choices.
    """

    parts: tuple[Spoken, ...]
    finish: str
    stop_sequence: str | None = None
    usage: tuple[int, int, int, int, int] | None = None
    urls: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Recital(httpx2.BaseTransport):
    """Gives every request the same stream."""

    def __init__(self) -> None:
        self._body = b""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self._body)

    def say(self, body: bytes) -> None:
        self._body = body


def json_of(text: str) -> str:
    """Arguments as JSON that compares; a call that needs none may say so with nothing. What is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except ValueError:
        return text


def merged(parts: list[Spoken]) -> tuple[Spoken, ...]:
    """Texts side by side as one: where one ends and the next begins has no meaning."""
    out: list[Spoken] = []
    for part in parts:
        if len(part) == 2 and out and out[-1][0] == part[0]:
            out[-1] = (part[0], out[-1][1] + part[1])
        elif part[1:] != ("",):
            out.append(part)
    return tuple(out)


def datas(stream: bytes) -> list[Any]:
    """The JSON of each event, [DONE] left out."""
    frames = SSEDecoder()
    return [json.loads(data) for data in [*frames.feed(stream), *frames.finish()] if data != b"[DONE]"]


def names(stream: bytes) -> list[str]:
    """The `event:` of each event."""
    return [line.removeprefix("event: ") for line in stream.decode().split("\n") if line.startswith("event: ")]


def sent_back(model: BaseModel) -> Any:
    """What an SDK sends when its user puts an answer, or a part of one, into the next request."""
    return model.model_dump(mode="json", exclude_unset=True, exclude=getattr(model, "__api_exclude__", None))
