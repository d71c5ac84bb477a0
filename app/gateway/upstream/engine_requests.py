"""EngineRequests: sends one request to one engine, up to the head of a response that is none of an error."""

from collections.abc import AsyncIterator

import httpx2

from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.upstream.body import content_kind, is_event_stream, iter_blocks, read_error_body, response_stream
from app.gateway.upstream.call import UpstreamCall
from providers.canonical.errors import InvalidUpstreamResponse, TokenUnavailable, UpstreamError
from providers.canonical.upstream_errors import MAX_ERROR_BYTES
from providers.credentials import CredentialError
from providers.engine_routes.missing_route import explain_missing_api
from providers.engine_routes.route_binding import RouteBinding

# A longer error closes the connection, which a shorter one leaves open for the next request.
_MAX_ERROR_BODY_BYTES = 1024 * 1024


class EngineRequests:
    """Sends requests to engines through `transport`. A response may have `max_bytes`."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._transport = transport
        self._max_bytes = max_bytes

    async def send(self, call: UpstreamCall, translated: TranslatedRequest) -> httpx2.Response:
        """The engine's response, not read yet. Raises the error that it is."""
        provider, body = call.endpoint.provider, translated.raw
        timeout = call.timeouts.stream if translated.stream else call.timeouts.response
        # Most requests need no token to be fetched first, and are built without a coroutine.
        request = call.try_build_request(translated, body, timeout) or await call.build_request(translated, body, timeout)
        while True:
            call.extensions = request.extensions
            response = call.response = await self._transport.handle_async_request(request)
            if provider.reports_rate_limits and not call.is_shadow:
                call.credential_client.cooldown.record_headers(call.model, response.headers)
            if 200 <= response.status_code < 300:
                return response
            error = await _read_error(call, response, translated)
            if body is not translated.raw:  # it was sent once more already
                raise error
            changed = provider.body_after_refusal(error, translated.dialect.name, body)
            if changed is None:
                raise error
            await response_stream(response).aclose()
            body = changed
            request = await call.build_request(translated, body, timeout)

    async def open_body(
        self, call: UpstreamCall, response: httpx2.Response, translated: TranslatedRequest
    ) -> tuple[AsyncIterator[bytes] | None, bytes]:
        """The blocks of a stream, None for a response that is not streamed; and the content encoding of such a one."""
        streamed, coding = content_kind(response, translated.stream)
        if not streamed and translated.stream and not coding:
            streamed = is_event_stream(await response_stream(response).peek())
        if not streamed:
            return None, coding
        unwrapper = call.endpoint.provider.stream_unwrapper(translated.dialect.name)
        return iter_blocks(response, unwrapper, coding, self._max_bytes), coding

    async def diagnose_empty_stream(self, call: UpstreamCall, translated: TranslatedRequest) -> UpstreamError | None:
        """Why a stream ended before its first byte, at engines that report it in non-streaming responses only."""
        provider, response = call.endpoint.provider, call.response
        if response is None or response_stream(response).response.body_started:
            return None
        raw = provider.diagnostic_request(translated.raw)
        if raw is None:
            return None
        try:
            request = await call.build_request(translated, raw, call.timeouts.stream)
            diagnosis = await self._transport.handle_async_request(request)
            body = call.credential_client.secret_mask.mask_bytes(await _read_error_body(diagnosis))
        except (httpx2.TransportError, TokenUnavailable, CredentialError, InvalidUpstreamResponse):
            return None
        return provider.read_error(diagnosis.status_code, diagnosis.headers, body) if diagnosis.status_code >= 300 else None


async def _read_error(call: UpstreamCall, response: httpx2.Response, translated: TranslatedRequest) -> UpstreamError:
    provider = call.endpoint.provider
    body = call.credential_client.secret_mask.mask_bytes(await _read_error_body(response))
    error = provider.read_error(response.status_code, response.headers, body)
    if isinstance(translated.dialect, RouteBinding):
        return translated.dialect.explain_error(error, provider.configured_as)
    return explain_missing_api(error, response.headers.get("content-type", ""), provider.configured_as)


async def _read_error_body(response: httpx2.Response) -> bytes:
    """The part of an error's body that is read as one. Cut before it is masked: the texts of an error are far from the cut.

    Empty for a body beyond all bounds, which repeats the request: the status says what kind of error it is.
    """
    try:
        return (await read_error_body(response, _MAX_ERROR_BODY_BYTES))[: MAX_ERROR_BYTES + 1]
    except InvalidUpstreamResponse:
        return b""
