"""Upstream: a request at an engine, and what comes of it before anybody has read it."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping

import httpx

from app.gateway.credentials.client import CredentialClient, RequestTemplateKey
from app.gateway.fleet.fleet import Endpoint
from app.gateway.request_translation.translator import TranslatedRequest
from providers.canonical.errors import InvalidUpstreamResponse, StreamTruncated, TimedOut, TokenUnavailable, Unreachable, UpstreamError
from providers.canonical.raw_json import StreamUnwrapper
from providers.transport.response_stream import ResponseStream, ResponseTooLarge

log = logging.getLogger(__name__)

_STREAM_CONTENT_TYPES = (b"text/event-stream", b"application/x-ndjson", b"application/vnd.amazon.eventstream")
# By which hosts know a request: https://docs.claude.com/en/api/errors and /reference/providers.md part 5, read 2026-11.
_REQUEST_ID_HEADERS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"apim-request-id", b"mistral-correlation-id")


class UpstreamCall:
    """A request at an engine. release() ends it there, unless it has ended, and counts it out of the endpoint's load.

    `model`: the host's. `asked`: it was on its way. `id`: by which the engine knows it, if it does.
    `abort`: asks an engine to stop, for those that go on after their caller has gone.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        credential_client: CredentialClient,
        model: str,
        id: str | None,
        abort: Callable[[Endpoint, CredentialClient, str], None],
    ) -> None:
        self.endpoint = endpoint
        self.credential_client = credential_client
        self.model = model
        self.response: httpx.Response | None = None
        self.was_sent = False
        self._id = id
        self._abort = abort
        endpoint.in_flight += 1

    async def build_request(self, translated: TranslatedRequest, body: bytes, timeout: Mapping[str, float]) -> httpx.Request:
        """Raises NoCredential, NoToken."""
        endpoint = self.endpoint
        template_key = RequestTemplateKey(translated.dialect.name, translated.model, translated.stream, translated.betas)
        # Most wait for nobody, and are to be had without a coroutine.
        request = self.credential_client.try_build_request(template_key, body, timeout)
        if request is not None:
            return request
        try:
            return await self.credential_client.build_request(endpoint.provider, endpoint.base_url, template_key, body, timeout)
        except httpx.TransportError as fault:
            mask = self.credential_client.secret_mask.mask
            log.info("no token for a credential", extra={"provider": endpoint.provider.configured_as, "fault": mask(repr(fault))})
            raise TokenUnavailable(
                f"No token for the gateway's credential at {endpoint.provider.configured_as} could be fetched."
            ) from None

    @property
    def request_id(self) -> str | None:
        """By which the host knows it."""
        if self.response is None:
            return None
        header_value = next((value for name, value in self.response.headers.raw if name.lower() in _REQUEST_ID_HEADERS), None)
        return None if header_value is None else self.credential_client.secret_mask.mask(header_value.decode("latin-1"))[:200]

    async def release(self) -> None:
        self.endpoint.in_flight -= 1
        complete = False
        if self.response is not None:
            stream = response_stream(self.response)
            complete = stream.response.complete
            await stream.aclose()
        if not complete and self._id is not None:
            self._abort(self.endpoint, self.credential_client, self._id)

    def add_details(self, fault: UpstreamError) -> None:
        """What the host said of its error, for those who have to ask it."""
        if fault.upstream_status is None or fault.details is not None:
            return
        provider_details = {"provider": self.endpoint.provider.configured_as, "provider_status": fault.upstream_status}
        request_details = {"provider_code": fault.upstream_code, "provider_request_id": self.request_id}
        fault.details = {key: value for key, value in {**provider_details, **request_details}.items() if value is not None}

    def connection_error(self, fault: httpx.TransportError) -> UpstreamError:
        """A failure of the connection, in words that name the provider and not its address, which is for the log."""
        provider_name, address = self.endpoint.provider.configured_as, self.endpoint.base_url
        log.info(
            "an engine failed",
            extra={"provider": provider_name, "endpoint": address, "fault": self.credential_client.secret_mask.mask(repr(fault))},
        )
        match fault:
            case httpx.ConnectTimeout() | httpx.PoolTimeout():
                return TimedOut(f"No connection to {provider_name} could be made in time.")
            case httpx.TimeoutException():
                return TimedOut(f"{provider_name} did not answer in time.")
            case httpx.ConnectError():
                return Unreachable(f"{provider_name} cannot be reached.")
            case httpx.RemoteProtocolError():
                return StreamTruncated(f"{provider_name} broke off, or did not speak HTTP.")
            case _:
                return Unreachable(f"The connection to {provider_name} broke.")


async def read_body(response: httpx.Response, limit_bytes: int) -> bytes:
    """The whole body. Raises Garbled over the limit."""
    try:
        return await response_stream(response).read_all(limit_bytes)
    except ResponseTooLarge:
        raise InvalidUpstreamResponse(f"The engine's answer is larger than {limit_bytes} bytes.") from None


def is_stream(response: httpx.Response, stream_requested: bool) -> bool:
    """What the engine says it sends, not what it was asked for, unless it says nothing that helps.

    Raises Garbled for an answer in an encoding. Raw: a look-up in httpx.Headers guesses an encoding first.
    """
    content_type = b""
    for name, value in response.headers.raw:
        match name.lower():
            case b"content-type":
                content_type = value.lower()
            case b"content-encoding" if value.lower() not in (b"identity", b""):
                raise InvalidUpstreamResponse(
                    f"The engine encoded its answer ({value.decode('latin-1'):.40}), which it was not asked to do."
                )
            case _:
                pass
    return content_type.startswith(_STREAM_CONTENT_TYPES) or (stream_requested and not content_type.startswith(b"application/"))


def iter_blocks(response: httpx.Response, unwrapping: StreamUnwrapper | None) -> AsyncIterator[bytes]:
    """The body as it comes, undecoded: we ask for no content encoding. Out of the frames that a host puts around it."""
    blocks = aiter(response_stream(response))
    return blocks if unwrapping is None else _unwrap(blocks, unwrapping)


async def _unwrap(blocks: AsyncIterator[bytes], unwrapping: StreamUnwrapper) -> AsyncIterator[bytes]:
    async for block in blocks:
        inner = unwrapping.feed(block)
        if inner:
            yield inner
    # What failed in the last block is told by the call after it.
    if inner := unwrapping.feed(b""):
        yield inner


def response_stream(response: httpx.Response) -> ResponseStream:
    assert isinstance(response.stream, ResponseStream)
    return response.stream
