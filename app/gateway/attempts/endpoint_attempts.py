"""Attempts at one endpoint: with one credential after the other, where the first are refused or rate limited."""

import asyncio
import time
from typing import Protocol

import httpx2

from app.domain.exchange import Attempt
from app.domain.routing import Target
from app.gateway.credentials.client import CredentialClient
from app.gateway.credentials.cooldown import Cooldown
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.state.stages import Attempted, Stage
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.abort import AbortSender
from app.gateway.upstream.call import UpstreamCall
from app.gateway.upstream.client import UpstreamClient
from app.gateway.upstream.outbound_stream import OutboundStream
from app.gateway.upstream.progress import Charge
from app.gateway.upstream.timeouts import AttemptTimeouts
from app.otel.trace_context import TraceContext
from app.settings import Settings
from providers.canonical.errors import (
    CallerCredentialRequired,
    ConstraintViolation,
    CredentialRefused,
    InvalidUpstreamResponse,
    Overloaded,
    QuotaExhausted,
    TimedOut,
    TokenUnavailable,
    UpstreamError,
)
from providers.credentials import CredentialError
from providers.dialect import OutboundResponse, ResponseMeta

MAX_ATTEMPTS = 8
# Statuses with which a host reports that it is overloaded for everyone: another credential has no more room there.
_HOST_BUSY_STATUSES = (503, 529)
_DISCONNECTED = "ClientDisconnected"
_ABORTED = "Aborted"


class AttemptStage(Protocol):
    """The place where an attempt notes that it has begun, such as a RequestContext.

    So whatever ends the attempt, it is recorded and released.
    """

    stage: Stage

    @property
    def trace(self) -> TraceContext | None: ...

    @property
    def disconnected(self) -> bool: ...


class EndpointAttempts:
    """Makes attempts at one endpoint.

    `transport` sends to engines. `checks` validate responses of engines that do not enforce a constraint.
    """

    def __init__(
        self, settings: Settings, checks: ConstraintChecks, transport: httpx2.AsyncBaseTransport, large_requests: LargeRequests
    ) -> None:
        self._client = UpstreamClient(settings, checks, transport, large_requests)
        self._abort_sender = AbortSender(transport)

    async def try_credentials(
        self,
        endpoint: Endpoint,
        target: Target,
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        context: AttemptStage,
        attempted: Attempted,
        timeouts: AttemptTimeouts,
        prompt_tokens: int,
    ) -> OutboundResponse | OutboundStream:
        """The response to the first credential that the endpoint accepts and does not rate limit.

        `prompt_tokens` are those that the endpoint has to read, because it does not have them cached.

        Raises UpstreamError; CallerCredentialRequired where callers send their own credential and this one did not, or it was refused.
        """
        arguments = (endpoint, target, translated, source, meta, context, attempted, timeouts, prompt_tokens)
        failed: UpstreamError | None = None
        only_client = endpoint.credential_pool.only_client
        for client in _candidate_clients(endpoint, target, source) if only_client is None else (only_client,):
            if failed is not None and len(attempted.attempts) >= MAX_ATTEMPTS:
                break
            generation, requested_at = client.generation, time.monotonic()
            cooldown = client.cooldown if attempted.planned.shadow is None else Cooldown()  # a shadow's is forgotten
            try:
                try:
                    response = await self._send_with_credential(client, *arguments)
                except CredentialRefused:
                    # It may have been replaced in its store, or reloaded by another request: a rotation must not cost a request.
                    if client.generation == generation and not client.reload():
                        raise
                    response = await self._send_with_credential(client, *arguments)
            except CredentialRefused as error:
                if client.is_callers_own:
                    raise _caller_credential_refused(endpoint, error) from None
                cooldown.record_refusal()
                failed = failed or error.without_frames()
            except TokenUnavailable as error:
                cooldown.record_token_unavailable()
                failed = failed or error.without_frames()
            except Overloaded as error:
                failed = _prefer_shorter_wait(failed, error.without_frames())
                if error.upstream_status in _HOST_BUSY_STATUSES:
                    break
                if isinstance(error, QuotaExhausted):
                    cooldown.record_quota_exhausted(error.retry_after_s)
                else:
                    cooldown.record_model_overload(target.model, error.retry_after_s)
            else:
                cooldown.record_success(target.model, requested_at)
                return response
        assert failed is not None
        raise failed

    async def _send_with_credential(
        self,
        client: CredentialClient,
        endpoint: Endpoint,
        target: Target,
        translated: TranslatedRequest,
        source: SourceRequest,
        meta: ResponseMeta,
        context: AttemptStage,
        attempted: Attempted,
        timeouts: AttemptTimeouts,
        prompt_tokens: int,
    ) -> OutboundResponse | OutboundStream:
        progress = attempted.progress
        started_us = progress.elapsed_us()
        progress.restart()
        call = attempted.call = UpstreamCall(
            *(endpoint, client, target.model, translated.id, translated.stream, self._abort_sender, timeouts, prompt_tokens),
            is_shadow=attempted.planned.shadow is not None,
        )
        context.stage = attempted
        if context.trace is not None and endpoint.gets_trace:
            call.trace_lines = context.trace.header_lines(meta.id, started_us)
        error: str | None = None
        message: str | None = None
        code: str | None = None
        may_continue = False
        charge_of_parts: Charge | None = None
        try:
            response = await self._client.send(call, translated, source, meta, progress)
            if translated.stream:  # of a response that is complete there is nothing left to do
                call.mark_answered()
            return response
        except UpstreamError as fault:
            call.explain(fault)
            error, message, code = type(fault).__name__, fault.message, fault.upstream_code
            may_continue = isinstance(fault, TimedOut | InvalidUpstreamResponse) and call.may_continue
            if not isinstance(fault, ConstraintViolation):  # whose response is charged as a whole
                charge_of_parts = call.charge_parts(attempted.planned.reserved_output)
            await call.release()
            raise
        except asyncio.CancelledError:
            error = _DISCONNECTED if context.disconnected else _ABORTED
            raise
        finally:
            attempt = Attempt(
                provider=target.provider,
                model=target.model,
                endpoint=endpoint.base_url,
                started_us=started_us,
                duration_us=progress.elapsed_us() - started_us,
                status=call.response.status_code if call.response is not None else None,
                error=error,
                message=message,
                code=code,
                request_id=call.request_id if error else None,
                first_token_us=progress.first_token_us,
                candidates=attempted.candidates,
            )
            attempted.attempts.append(attempt)
            if error is None or (error in (_DISCONNECTED, _ABORTED) and call.was_sent):
                attempted.served = attempt
            elif charge_of_parts is not None:
                attempted.discard(attempt, charge_of_parts)
            elif may_continue:
                input_tokens, reserved_output = source.request.input_tokens, attempted.planned.reserved_output
                attempted.discard(attempt, progress.charge(input_tokens, reserved_output))


def _candidate_clients(endpoint: Endpoint, target: Target, source: SourceRequest) -> list[CredentialClient]:
    """Returns at least one client with a credential to try.

    Raises CallerCredentialRequired if the caller has to send one and did not.
    """
    try:
        clients = endpoint.credential_pool.candidates(source.terms.headers, target.model)
    except CredentialError as fault:
        raise CallerCredentialRequired(str(fault)) from None
    if not clients:
        header_names = " or ".join(endpoint.credential_pool.caller_header_names)
        raise CallerCredentialRequired(
            f"{endpoint.provider.configured_as} needs a credential of your own: send it in the header {header_names}."
        )
    return clients


def _caller_credential_refused(endpoint: Endpoint, error: CredentialRefused) -> CallerCredentialRequired:
    refused = CallerCredentialRequired(f"{endpoint.provider.configured_as} refused the credential that you sent: {error.reason}")
    refused.details = error.details
    return refused


def _prefer_shorter_wait(failed: UpstreamError | None, error: Overloaded) -> UpstreamError:
    """Returns the failure to report of several credentials: overloaded rather than refused; of two waits, the shorter."""
    if not isinstance(failed, Overloaded):
        return error
    waits = (failed.retry_after_s, error.retry_after_s)
    return failed if waits[1] is None or (waits[0] is not None and waits[0] <= waits[1]) else error
