"""Plays one exchange of our own through all that has no I/O: from what a caller asks to what the caller gets.

A case is one JSON file: `asked` by the caller; `sent` to the engine; the `engine`'s answer, whole (`body`) or streamed (`frames`); the
`reply` to the caller, or how it is `refused`. INFERENCE and EPISODE stand for the ids that the gateway gives.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from app.domain import Target
from app.gateway.response_translation.translate import StreamAssembler, make_stream_editor
from providers.canonical.chat import Usage
from providers.canonical.errors import NarthexError, UpstreamError
from providers.canonical.raw_json import SSEDecoder, sse_frame
from providers.catalogue import build_provider
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.dialects.openai_chat import OpenAIChat
from tests.laws.asking import sent

CASES = Path(__file__).parent / "cases"
DIALECT = OpenAIChat()


class ProviderOfCase(Struct, frozen=True, forbid_unknown_fields=True):
    adapter: str
    options: dict[str, Any] = {}
    version: tuple[int, ...] | None = None


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What the engine answers: `body` as JSON (text as it is), or `frames` of a stream."""

    status: int
    headers: dict[str, str] = {}
    body: Any = None
    frames: list[Any] | None = None


class Refusal(Struct, frozen=True, forbid_unknown_fields=True):
    """`says`: a part of the message."""

    status: int
    type: str
    param: str | None
    says: str
    retry_after_s: float | None = None


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """`drop`: what the caller lets go. `fails`: the error that a stream which had begun ends with. See the module."""

    about: str
    provider: ProviderOfCase
    asked: dict[str, Any]
    sent: dict[str, Any] | None = None
    drop: list[str] = []
    dropped: list[str] = []
    engine: Answer | None = None
    reply: Any = None
    fails: str | None = None
    refused: Refusal | None = None
    usage: Usage | None = None
    finish_reason: str | None = None


class Played(Struct):
    """What came of it. `blocks`: how many pieces of the engine's stream were used."""

    sent: dict[str, Any] | None = None
    dropped: list[str] = []
    reply: Any = None
    error: NarthexError | None = None
    fails: str | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    done: bool = False


def cases() -> dict[str, Case]:
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=Case) for path in sorted(CASES.glob("*.json"))}


def play(case: Case) -> Played:
    """As app/gateway/attempts.py and serve.py do it, without the waiting."""
    played = Played()
    try:
        _play(case, played)
    except NarthexError as error:
        played.error = error
    return played


def _play(case: Case, played: Played) -> None:
    ask = DIALECT.parse_request(json.dumps(case.asked).encode())
    provider = build_provider(case.provider.adapter, "host", case.provider.options).at_version(case.provider.version)
    prepared = sent(ask, provider, Target("host", "acme/paint-7b"), lambda field: "all" in case.drop or field in case.drop)
    played.sent, played.dropped = json.loads(prepared.raw), prepared.dropped
    assert case.engine is not None, "the case says nothing of the engine, and the engine was asked"
    answer = case.engine
    if answer.status != 200:
        raise provider.read_error(answer.status, answer.headers, _raw(answer))
    stamp = ResponseMeta("INFERENCE", "EPISODE", ask.model, 1, ask.wants_usage)
    if ask.stream:
        _stream(ask, answer, stamp, played)
        return
    edited = _folded(answer, stamp) if answer.frames is not None else DIALECT.edit_response(_raw(answer), stamp)
    played.reply, played.usage, played.finish_reason = json.loads(edited.raw), edited.usage, edited.finish_reason


def _stream(ask: InboundRequest, answer: Answer, stamp: ResponseMeta, played: Played) -> None:
    editing = make_stream_editor(DIALECT, DIALECT, stamp, streamed=answer.frames is not None)
    out = editing.feed(_raw(answer))
    if not out and editing.failure is not None:
        raise editing.failure
    try:
        out += editing.finish()
        played.done = True
    except UpstreamError as error:
        out += DIALECT.write_error_frame(error)
        played.fails = type(error).__name__
    datas = SSEDecoder().feed(out)
    assert (datas[-1] == b"[DONE]") == played.done
    played.reply = [json.loads(data) for data in datas if data != b"[DONE]"]
    played.usage, played.finish_reason = editing.usage, editing.finish_reason


def _folded(answer: Answer, stamp: ResponseMeta) -> OutboundResponse:
    folding = StreamAssembler(DIALECT, DIALECT, stamp)
    folding.feed(_raw(answer))
    return folding.finish()


def _raw(answer: Answer) -> bytes:
    if answer.frames is None:
        return answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
    return b"".join(sse_frame(each.encode() if isinstance(each, str) else json.dumps(each).encode()) for each in answer.frames)
