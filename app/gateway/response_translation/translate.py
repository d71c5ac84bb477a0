"""Translates an engine's response for the caller. Same dialect: the bytes are edited. Another: through the canonical events.

Each side may stream or not, independently of the other.
"""

from typing import cast

import httpx2
from msgspec.structs import replace

from app.gateway.emulation.emulation import Emulation
from app.gateway.emulation.response_trimmer import ResponseTrimmer, trim_response
from app.gateway.response_translation.dialect_pair import TargetDialect, chat_dialects
from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.stream_assembler import StreamAssembler
from app.gateway.response_translation.stream_translator import StreamTranslator
from app.gateway.response_translation.write_response import check_finished, write_response
from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.upstream_errors import add_upstream_message
from providers.dialect import CallerDialect, Dialect, OutboundResponse, ResponseMeta, StreamEditor
from providers.engine_routes.route import Route
from providers.engine_routes.route_binding import RouteBinding
from providers.host_operation import HostOperation

_NO_HEADERS = httpx2.Headers()


def make_stream_editor(
    caller_dialect: CallerDialect,
    target_dialect: TargetDialect,
    meta: ResponseMeta,
    *,
    streamed: bool,
    emulation: Emulation | None = None,
    choices: int = 1,
) -> StreamEditor:
    """Turns the engine's response into the caller's stream; `streamed` says whether the engine streams.

    `emulation` is that by which the response is trimmed, in the same dialect too, and `choices` how many it will have.
    """
    if streamed and emulation is None and (caller_dialect is target_dialect or isinstance(target_dialect, RouteBinding)):
        return cast("Dialect", caller_dialect).stream_editor(meta)  # as the target speaks it
    chat_dialect, engine_dialect = chat_dialects(caller_dialect, target_dialect)
    if streamed:
        return StreamTranslator(chat_dialect, engine_dialect, meta, None if emulation is None else ResponseTrimmer(emulation, choices))
    return ResponseStreamer(chat_dialect, engine_dialect, meta, emulation)


def make_assembler(
    caller_dialect: CallerDialect,
    target_dialect: TargetDialect,
    meta: ResponseMeta,
    *,
    emulation: Emulation | None = None,
    choices: int = 1,
) -> StreamAssembler:
    """Turns the engine's stream into the caller's non-streaming response. `emulation` and `choices` are those of make_stream_editor()."""
    chat_dialect, engine_dialect = chat_dialects(caller_dialect, target_dialect)
    return StreamAssembler(chat_dialect, engine_dialect, meta, None if emulation is None else ResponseTrimmer(emulation, choices))


def translate_response(
    raw: bytes,
    caller_dialect: CallerDialect,
    target_dialect: TargetDialect,
    meta: ResponseMeta,
    headers: httpx2.Headers = _NO_HEADERS,
    emulation: Emulation | None = None,
) -> OutboundResponse:
    """The engine's non-streaming response as the caller's.

    `headers` are the host's; some report usage there, not in the body. `emulation` is that by which the response is trimmed.

    Raises UpstreamError: InvalidUpstreamResponse for a response that is no answer, though its status is 200.
    """
    try:
        if caller_dialect is target_dialect and emulation is None:
            return cast("Dialect", caller_dialect).edit_response(raw, meta)
        if isinstance(target_dialect, HostOperation):
            response = cast("Dialect", caller_dialect).edit_response(target_dialect.read_response(raw, headers, meta), meta)
            billed = target_dialect.read_billed_input(raw) if target_dialect.read_billed_input is not None else None
            return response if billed is None else replace(response, usage=replace(response.usage or Usage(), billed_input=billed))
        if isinstance(target_dialect, RouteBinding) and isinstance(caller_dialect, Route):
            return caller_dialect.read_engine_response(raw, target_dialect, meta)
        chat_dialect, engine_dialect = chat_dialects(caller_dialect, target_dialect)
        response = check_finished(engine_dialect.read_response(raw))
        return write_response(response if emulation is None else trim_response(response, emulation), chat_dialect, meta)
    except InvalidUpstreamResponse as error:
        raise add_upstream_message(error, raw) from None
