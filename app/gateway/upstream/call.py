"""UpstreamCall: one request to one endpoint with one credential, from before it is sent until it is released."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2
from msgspec.structs import replace

from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.request_template import RequestTemplateKey
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.upstream.abort import AbortSender
from app.gateway.upstream.body import response_stream
from app.gateway.upstream.progress import Charge, charge_response, sum_charges
from app.gateway.upstream.timeouts import AttemptTimeouts
from providers.canonical.chat import Usage
from providers.canonical.errors import CredentialRefused, StreamTruncated, TimedOut, TokenUnavailable, Unreachable, UpstreamError
from providers.credentials import CredentialError
from providers.transport.address_guard import AddressRefused

log = logging.getLogger(__name__)

# Response headers that carry the host's request id: https://docs.claude.com/en/api/errors and docs/sources.md#host-errors.
_REQUEST_ID_HEADERS = (b"x-request-id", b"request-id", b"x-amzn-requestid", b"apim-request-id", b"mistral-correlation-id")
_MAX_REQUEST_ID_CHARS = 200


class UpstreamCall:
    """Counts in the endpoint's load until release(), which ends the request there unless it has ended.

    The engine knows the request by `id`; where that is None, by its connection alone. The endpoint has to read `prompt_tokens`, because it
    does not have them cached. A call that `is_shadow` neither takes the one request that a half-open breaker lets through, nor do its
    response headers count.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        credential_client: CredentialClient,
        model: str,
        id: str | None,
        streamed: bool,
        abort_sender: AbortSender,
        timeouts: AttemptTimeouts,
        prompt_tokens: int = 0,
        *,
        is_part: bool = False,
        is_shadow: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.credential_client = credential_client
        self.model = model  # as the host names it
        self.is_shadow = is_shadow
        self.response: httpx2.Response | None = None
        self.streamed = streamed  # whether a stream was requested
        self.extensions: Mapping[str, Any] = {}  # those of the newest request, in which the transport notes that it was sent
        self._broken_by_engine = False
        self._released = False
        self._id = id
        self._abort_sender = abort_sender
        self.timeouts = timeouts
        self._release_place: Callable[[], None] | None = None
        self._close: Callable[[], Awaitable[None]] | None = None
        self.part_count = 1  # how many requests are sent instead of this one
        self.trace_lines = b""  # header lines with the trace that its requests belong to; b"": none, or the endpoint gets none
        self._parts: list[PartCall] = []
        self._has_failed_part = False
        now = time.monotonic()
        self._load = endpoint.load.begin_request(prompt_tokens, now, awaits_first_block=streamed and not is_part)
        if endpoint.breaker.open_until and not is_shadow:
            endpoint.breaker.begin_request(now)

    def for_part(self, id: str | None, input_tokens: int) -> "PartCall":
        """A call of its own for one of the requests that are sent instead of this one. Whoever gets it releases it."""
        part = PartCall(
            *(self.endpoint, self.credential_client, self.model, id, self.streamed, self._abort_sender, self.timeouts),
            is_part=True,
            is_shadow=self.is_shadow,
        )
        part.input_tokens = input_tokens
        part.trace_lines = self.trace_lines
        self._parts.append(part)
        return part

    def note_part(self, part: "PartCall") -> None:
        """Notes what came back for the newest part, for the record of this call, unless a part has failed."""
        if not self._has_failed_part:
            self.response = part.response

    def note_failed_part(self, part: "PartCall", error: UpstreamError) -> None:
        """Notes what came back for the first part that fails. The error gets what identifies it at the host."""
        part.explain(error)
        self.note_part(part)
        self._has_failed_part = True

    def charge_parts(self, reserved_output: int) -> Charge | None:
        """Returns the charge for the requests that were sent instead of this one, whoever got the responses.

        Returns None if there are none, or if their engine has worked on none. `reserved_output` is for all of
        them.
        """
        if not self._parts:
            return None
        charges = [part.charge(reserved_output // self.part_count) for part in self._parts if part.has_worked]
        return sum_charges(charges) if charges else None

    def mark_answered(self) -> None:
        """There is something for the caller: the endpoint has read the prompt."""
        self._load.mark_answered(time.monotonic())

    def release_with(self, release: Callable[[], None]) -> None:
        """Sets what release() calls to give back what the request holds at its target."""
        self._release_place = release

    def close_on_release(self, close: Callable[[], Awaitable[None]]) -> None:
        """Sets what release() calls to end what reads the parts."""
        self._close = close

    def try_build_request(self, translated: TranslatedRequest, body: bytes, timeout: Mapping[str, float]) -> httpx2.Request | None:
        """The request, if it was prepared by one before; None: build_request() makes it."""
        template_key = RequestTemplateKey(translated.dialect.name, translated.model, translated.stream, translated.betas)
        request = self.credential_client.try_build_request(template_key, body, timeout)
        if request is not None and (added_lines := self.trace_lines + translated.header_lines):
            _add_lines(request, added_lines)
        return request

    async def build_request(self, translated: TranslatedRequest, body: bytes, timeout: Mapping[str, float]) -> httpx2.Request:
        """Raises CredentialError, TokenUnavailable."""
        endpoint = self.endpoint
        template_key = RequestTemplateKey(translated.dialect.name, translated.model, translated.stream, translated.betas)
        try:
            request = await self.credential_client.build_request(endpoint.provider, endpoint.base_url, template_key, body, timeout)
        except httpx2.TransportError as fault:
            mask = self.credential_client.secret_mask.mask
            log.info("no token for a credential", extra={"provider": endpoint.provider.configured_as, "fault": mask(repr(fault))})
            raise TokenUnavailable(
                f"No token for the gateway's credential at {endpoint.provider.configured_as} could be fetched."
            ) from None
        if added_lines := self.trace_lines + translated.header_lines:
            _add_lines(request, added_lines)
        return request

    @property
    def request_id(self) -> str | None:
        """The host's own id of the request; None: it sent none."""
        if self.response is None:
            return None
        header_value = next((value for name, value in self.response.headers.raw if name.lower() in _REQUEST_ID_HEADERS), None)
        if header_value is None:
            return None
        bounded = header_value[: 2 * _MAX_REQUEST_ID_CHARS].decode("latin-1")
        return self.credential_client.secret_mask.mask(bounded)[:_MAX_REQUEST_ID_CHARS]

    @property
    def was_sent(self) -> bool:
        """Whether the engine may have begun to work."""
        return self.extensions.get("sent", False) or any(part.was_sent for part in self._parts)

    @property
    def may_continue(self) -> bool:
        """Whether the engine may go on, and bill, although the gateway has left or is about to: its response has not ended."""
        if self._parts:
            return any(part.may_continue for part in self._parts)
        stops = self.endpoint.provider.stops_on_disconnect
        if stops == "always" or (stops == "streams" and self.streamed) or self._broken_by_engine:
            return False
        response = self.response
        if response is None:
            return self.was_sent
        return response.status_code < 300 and not response_stream(response).response.complete

    async def release(self) -> None:
        """Once: a second call does nothing."""
        if self._released:
            return
        self._released = True
        self._load.end()
        if self._release_place is not None:
            self._release_place()
        if self._close is not None:
            await self._close()
        complete = False
        if self.response is not None:
            stream = response_stream(self.response)
            complete = stream.response.complete
            await stream.aclose()
        if not complete and self._id is not None:
            self._abort_sender.abort(self.endpoint, self.credential_client, self._id)

    def explain(self, error: UpstreamError) -> None:
        """Masks our secrets in an error of the host, and adds what identifies it there."""
        self.credential_client.mask_error(error)
        if error.upstream_status is None or error.details is not None:
            return
        details = {
            "provider": self.endpoint.provider.configured_as,
            "provider_status": error.upstream_status,
            "provider_code": error.upstream_code,
            "provider_request_id": self.request_id,
        }
        error.details = {key: value for key, value in details.items() if value is not None}

    def credential_error(self, fault: CredentialError) -> CredentialRefused:
        """The error for a credential that cannot be read or used. Where it lies, and what is wrong with it, is for the log only, unless it
        is the caller's own.
        """
        if self.credential_client.is_callers_own:
            return CredentialRefused(str(fault))
        provider_name = self.endpoint.provider.configured_as
        mask = self.credential_client.secret_mask.mask
        log.warning("a credential cannot be used", extra={"provider": provider_name, "fault": mask(str(fault))})
        return CredentialRefused(
            f"The gateway's credential for {provider_name} cannot be used. Its operator finds the reason in the gateway's log, and by"
            f" `narthex providers test {provider_name}`."
        )

    def connection_error(self, fault: httpx2.TransportError) -> UpstreamError:
        """The error for a failed connection: it names the provider; the address is for the log only."""
        provider_name, address = self.endpoint.provider.configured_as, self.endpoint.base_url
        self._broken_by_engine = not isinstance(fault, httpx2.TimeoutException)
        log.info(
            "a connection to an engine failed",
            extra={"provider": provider_name, "endpoint": address, "fault": self.credential_client.secret_mask.mask(repr(fault))},
        )
        if isinstance(fault.__cause__, AddressRefused):
            return Unreachable(f"The address of {provider_name} is one that this gateway does not call; its operator can see why.")
        match fault:
            case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
                return TimedOut(f"No connection to {provider_name} could be made in time.")
            case httpx2.TimeoutException():
                return TimedOut(f"{provider_name} did not answer in time.")
            case httpx2.ConnectError():
                return Unreachable(f"{provider_name} cannot be reached.")
            case httpx2.RemoteProtocolError():
                return StreamTruncated(f"{provider_name} broke off, or did not speak HTTP.")
            case _:
                return Unreachable(f"The connection to {provider_name} broke.")


def _add_lines(request: httpx2.Request, lines: bytes) -> None:
    """Adds header lines to a request, whose head may be shared with others, or be signed: no signature covers these."""
    if "shared_head" in request.extensions:
        request.extensions = {**request.extensions, "added_lines": lines}
        return
    for line in lines.splitlines():
        name, _, value = line.partition(b": ")
        request.headers[name.decode("ascii")] = value.decode("ascii")


class PartCall(UpstreamCall):
    """The call of one of the requests that are sent instead of one, and what is charged for it."""

    input_tokens = 0  # an estimate
    usage: Usage | None = None  # as reported so far; None: nothing was
    written_tokens = 0  # an estimate of what has come
    has_finished = False  # whether the response has come as a whole

    @property
    def has_worked(self) -> bool:
        """Whether the engine has begun a response, or may have."""
        if self.response is not None:
            return self.response.status_code < 300
        return self.was_sent and not self._broken_by_engine

    def charge(self, reserved_output: int) -> Charge:
        """Returns what is charged for this part. `reserved_output` is the least output of a response that may go on without the gateway."""
        usage, written_tokens = self.usage, self.written_tokens
        if self.has_finished:
            return charge_response(usage, self.input_tokens, written_tokens)
        if usage is not None:  # not all
            usage, written_tokens = replace(usage, output=None, billed_output=None, iterations=()), max(written_tokens, usage.output or 0)
        return charge_response(usage, self.input_tokens, written_tokens, reserved_output if self.may_continue else None)
