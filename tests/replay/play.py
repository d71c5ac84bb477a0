"""Plays a case through all code of a request that has no I/O, from the caller's request to the caller's response.

A case is one JSON file: the caller's `request`; the `upstream_request` to the engine and its `upstream_response`, unstreamed (`body`) or
streamed (`frames`); the `response` to the caller, or the `expected_error`. INFERENCE and EPISODE stand for ids that the gateway mints.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from app.domain.routing import Target
from app.gateway.response_translation.stream_assembler import StreamAssembler
from app.gateway.response_translation.translate import make_stream_editor
from providers.canonical.chat import Usage
from providers.canonical.errors import NarthexError, UpstreamError
from providers.canonical.sse import SSEDecoder, sse_frame
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
    """The engine's response: `body` as JSON (a string is sent unchanged), or the `frames` of a stream."""

    status: int
    headers: dict[str, str] = {}
    body: Any = None
    frames: list[Any] | None = None


class ExpectedError(Struct, frozen=True, forbid_unknown_fields=True):
    """The error that the caller gets. `message_contains`: a part of its message."""

    status: int
    type: str
    param: str | None
    message_contains: str
    retry_after_s: float | None = None


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One case file. `drop`: the fields that the caller allows to be dropped. `stream_error`: the error that ends a begun stream."""

    about: str
    provider: ProviderOfCase
    request: dict[str, Any]
    upstream_request: dict[str, Any] | None = None
    drop: list[str] = []
    dropped: list[str] = []
    upstream_response: EngineResponse | None = None
    response: Any = None
    stream_error: str | None = None
    expected_error: ExpectedError | None = None
    usage: Usage | None = None
    finish_reason: str | None = None


class Played(Struct):
    """The outcome of a case."""

    upstream_request: dict[str, Any] | None = None
    dropped: list[str] = []
    response: Any = None
    error: NarthexError | None = None
    stream_error: str | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    done: bool = False  # whether the stream ended with [DONE]


def cases() -> dict[str, Case]:
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=Case) for path in sorted(CASES.glob("*.json"))}


def play(case: Case) -> Played:
    """Serve the case as app/gateway/attempts/attempts.py and app/gateway/pipeline/serve.py do, without I/O."""
    played = Played()
    try:
        _play(case, played)
    except NarthexError as error:
        played.error = error
    return played


def _play(case: Case, played: Played) -> None:
    request = DIALECT.parse_request(json.dumps(case.request).encode())
    provider = build_provider(case.provider.adapter, "host", case.provider.options).at_version(case.provider.version)
    translated = translate_request(
        request, provider, Target("host", "acme/paint-7b"), lambda field: "all" in case.drop or field in case.drop
    )
    played.upstream_request, played.dropped = json.loads(translated.raw), translated.dropped
    assert case.upstream_response is not None, "the case has no upstream_response, but the engine is called"
    response = case.upstream_response
    if response.status != 200:
        raise provider.read_error(response.status, response.headers, _raw_response(response))
    meta = ResponseMeta("INFERENCE", "EPISODE", request.model, 1, request.wants_usage, estimated_input=request.input_tokens)
    if request.stream:
        _stream(request, response, meta, played)
        return
    edited = _assemble_stream(response, meta) if response.frames is not None else DIALECT.edit_response(_raw_response(response), meta)
    played.response, played.usage, played.finish_reason = json.loads(edited.raw), edited.usage, edited.finish_reason


def _stream(request: InboundRequest, response: EngineResponse, meta: ResponseMeta, played: Played) -> None:
    stream_editor = make_stream_editor(DIALECT, DIALECT, meta, streamed=response.frames is not None)
    out = stream_editor.feed(_raw_response(response))
    if not out and stream_editor.failure is not None:
        raise stream_editor.failure
    try:
        out += stream_editor.finish()
        played.done = True
    except UpstreamError as error:
        out += DIALECT.write_error_frame(error)
        played.stream_error = type(error).__name__
    datas = SSEDecoder().feed(out)
    assert (datas[-1] == b"[DONE]") == played.done
    played.response = [json.loads(data) for data in datas if data != b"[DONE]"]
    played.usage, played.finish_reason = stream_editor.usage, stream_editor.finish_reason


def _assemble_stream(response: EngineResponse, meta: ResponseMeta) -> OutboundResponse:
    assembler = StreamAssembler(DIALECT, DIALECT, meta)
    assembler.feed(_raw_response(response))
    return assembler.finish()


def _raw_response(response: EngineResponse) -> bytes:
    if response.frames is None:
        return response.body.encode() if isinstance(response.body, str) else json.dumps(response.body).encode()
    return b"".join(sse_frame(each.encode() if isinstance(each, str) else json.dumps(each).encode()) for each in response.frames)
