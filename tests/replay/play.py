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
from tests.support.request_translation import translate_request

CASES = Path(__file__).parent / "cases"
DIALECT = OpenAIChat()


class ProviderOfCase(Struct, frozen=True, forbid_unknown_fields=True):
    adapter: str
    options: dict[str, Any] = {}
    version: tuple[int, ...] | None = None


class EngineResponse(Struct, frozen=True, forbid_unknown_fields=True):
    """What the engine answers: `body` as JSON (text as it is), or `frames` of a stream."""

    status: int
    headers: dict[str, str] = {}
    body: Any = None
    frames: list[Any] | None = None


class ExpectedError(Struct, frozen=True, forbid_unknown_fields=True):
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
    engine: EngineResponse | None = None
    reply: Any = None
    fails: str | None = None
    refused: ExpectedError | None = None
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
    request = DIALECT.parse_request(json.dumps(case.asked).encode())
    provider = build_provider(case.provider.adapter, "host", case.provider.options).at_version(case.provider.version)
    translated = translate_request(
        request, provider, Target("host", "acme/paint-7b"), lambda field: "all" in case.drop or field in case.drop
    )
    played.sent, played.dropped = json.loads(translated.raw), translated.dropped
    assert case.engine is not None, "the case says nothing of the engine, and the engine was asked"
    answer = case.engine
    if answer.status != 200:
        raise provider.read_error(answer.status, answer.headers, _raw_response(answer))
    meta = ResponseMeta("INFERENCE", "EPISODE", request.model, 1, request.wants_usage)
    if request.stream:
        _stream(request, answer, meta, played)
        return
    edited = _assemble_stream(answer, meta) if answer.frames is not None else DIALECT.edit_response(_raw_response(answer), meta)
    played.reply, played.usage, played.finish_reason = json.loads(edited.raw), edited.usage, edited.finish_reason


def _stream(request: InboundRequest, answer: EngineResponse, meta: ResponseMeta, played: Played) -> None:
    stream_editor = make_stream_editor(DIALECT, DIALECT, meta, streamed=answer.frames is not None)
    out = stream_editor.feed(_raw_response(answer))
    if not out and stream_editor.failure is not None:
        raise stream_editor.failure
    try:
        out += stream_editor.finish()
        played.done = True
    except UpstreamError as error:
        out += DIALECT.write_error_frame(error)
        played.fails = type(error).__name__
    datas = SSEDecoder().feed(out)
    assert (datas[-1] == b"[DONE]") == played.done
    played.reply = [json.loads(data) for data in datas if data != b"[DONE]"]
    played.usage, played.finish_reason = stream_editor.usage, stream_editor.finish_reason


def _assemble_stream(answer: EngineResponse, meta: ResponseMeta) -> OutboundResponse:
    assembler = StreamAssembler(DIALECT, DIALECT, meta)
    assembler.feed(_raw_response(answer))
    return assembler.finish()


def _raw_response(answer: EngineResponse) -> bytes:
    if answer.frames is None:
        return answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
    return b"".join(sse_frame(each.encode() if isinstance(each, str) else json.dumps(each).encode()) for each in answer.frames)
