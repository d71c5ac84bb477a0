"""Upstream: a request at an engine, and what comes of it before anybody has read it."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping

import httpx

from app.gateway.asked import Prepared
from app.gateway.fleet import Endpoint
from app.gateway.identity import Identity, Where
from providers.answer_stream import AnswerStream, AnswerTooLarge
from providers.errors import CutShort, Garbled, NoToken, TimedOut, Unreachable, UpstreamError
from providers.wire import Unwrapping

log = logging.getLogger(__name__)

_STREAMS = (b"text/event-stream", b"application/x-ndjson", b"application/vnd.amazon.eventstream")
# By which hosts know a request: https://docs.claude.com/en/api/errors and /reference/providers.md part 5, read 2026-11.
_REQUEST_IDS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"apim-request-id", b"mistral-correlation-id")


class Upstream:
    """A request at an engine. release() ends it there, unless it has ended, and counts it out of the endpoint's load.

    `model`: the host's. `asked`: it was on its way. `id`: by which the engine knows it, if it does.
    `abort`: asks an engine to stop, for those that go on after their caller has gone.
    """

    def __init__(
        self, endpoint: Endpoint, identity: Identity, model: str, id: str | None, abort: Callable[[Endpoint, Identity, str], None]
    ) -> None:
        self.endpoint = endpoint
        self.identity = identity
        self.model = model
        self.response: httpx.Response | None = None
        self.asked = False
        self._id = id
        self._abort = abort
        endpoint.in_flight += 1

    async def request(self, prepared: Prepared, body: bytes, timeout: Mapping[str, float]) -> httpx.Request:
        """Raises NoCredential, NoToken."""
        endpoint = self.endpoint
        where = Where(prepared.dialect.name, prepared.model, prepared.stream, prepared.betas)
        # Most wait for nobody, and are to be had without a coroutine.
        request = self.identity.ready(where, body, timeout)
        if request is not None:
            return request
        try:
            return await self.identity.request(endpoint.provider, endpoint.base_url, where, body, timeout)
        except httpx.TransportError as fault:
            hide = self.identity.hiding.hide
            log.info("no token for a credential", extra={"provider": endpoint.provider.configured_as, "fault": hide(repr(fault))})
            raise NoToken(f"No token for the gateway's credential at {endpoint.provider.configured_as} could be fetched.") from None

    @property
    def request_id(self) -> str | None:
        """By which the host knows it."""
        if self.response is None:
            return None
        said = next((value for name, value in self.response.headers.raw if name.lower() in _REQUEST_IDS), None)
        return None if said is None else self.identity.hiding.hide(said.decode("latin-1"))[:200]

    async def release(self) -> None:
        self.endpoint.in_flight -= 1
        complete = False
        if self.response is not None:
            stream = stream_of(self.response)
            complete = stream.answer.complete
            await stream.aclose()
        if not complete and self._id is not None:
            self._abort(self.endpoint, self.identity, self._id)

    def detail(self, fault: UpstreamError) -> None:
        """What the host said of its error, for those who have to ask it."""
        if fault.told is None or fault.details is not None:
            return
        said = {"provider": self.endpoint.provider.configured_as, "provider_status": fault.told}
        more = {"provider_code": fault.said_code, "provider_request_id": self.request_id}
        fault.details = {key: value for key, value in {**said, **more}.items() if value is not None}

    def told(self, fault: httpx.TransportError) -> UpstreamError:
        """A failure of the connection, in words that name the provider and not its address, which is for the log."""
        who, address = self.endpoint.provider.configured_as, self.endpoint.base_url
        log.info("an engine failed", extra={"provider": who, "endpoint": address, "fault": self.identity.hiding.hide(repr(fault))})
        match fault:
            case httpx.ConnectTimeout() | httpx.PoolTimeout():
                return TimedOut(f"No connection to {who} could be made in time.")
            case httpx.TimeoutException():
                return TimedOut(f"{who} did not answer in time.")
            case httpx.ConnectError():
                return Unreachable(f"{who} cannot be reached.")
            case httpx.RemoteProtocolError():
                return CutShort(f"{who} broke off, or did not speak HTTP.")
            case _:
                return Unreachable(f"The connection to {who} broke.")


async def read(response: httpx.Response, limit_bytes: int) -> bytes:
    """The whole body. Raises Garbled over the limit."""
    try:
        return await stream_of(response).read_all(limit_bytes)
    except AnswerTooLarge:
        raise Garbled(f"The engine's answer is larger than {limit_bytes} bytes.") from None


def is_stream(response: httpx.Response, wanted: bool) -> bool:
    """What the engine says it sends, not what it was asked for, unless it says nothing that helps.

    Raises Garbled for an answer in an encoding. Raw: a look-up in httpx.Headers guesses an encoding first.
    """
    kind = b""
    for name, value in response.headers.raw:
        match name.lower():
            case b"content-type":
                kind = value.lower()
            case b"content-encoding" if value.lower() not in (b"identity", b""):
                raise Garbled(f"The engine encoded its answer ({value.decode('latin-1'):.40}), which it was not asked to do.")
            case _:
                pass
    return kind.startswith(_STREAMS) or (wanted and not kind.startswith(b"application/"))


def blocks_of(response: httpx.Response, unwrapping: Unwrapping | None) -> AsyncIterator[bytes]:
    """The body as it comes, undecoded: we ask for no content encoding. Out of the frames that a host puts around it."""
    blocks = aiter(stream_of(response))
    return blocks if unwrapping is None else _unwrapped(blocks, unwrapping)


async def _unwrapped(blocks: AsyncIterator[bytes], unwrapping: Unwrapping) -> AsyncIterator[bytes]:
    async for block in blocks:
        inner = unwrapping.feed(block)
        if inner:
            yield inner
    # What failed in the last block is told by the call after it.
    if inner := unwrapping.feed(b""):
        yield inner


def stream_of(response: httpx.Response) -> AnswerStream:
    assert isinstance(response.stream, AnswerStream)
    return response.stream
