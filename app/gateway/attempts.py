"""Trying targets in order until one serves. Nothing is tried again once a byte has gone to the caller."""

import asyncio
import logging
import time

import httpx

from app.domain import Attempt, Plan, Target
from app.gateway.billing import estimate_model_usage
from app.gateway.context import RequestContext
from app.gateway.credentials.client import CredentialClient
from app.gateway.fleet.fleet import Endpoint, Fleet
from app.gateway.limits.limits import Limits
from app.gateway.request_translation.translator import RequestTranslator, TranslatedRequest
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.call import UpstreamCall, response_stream
from app.gateway.upstream.client import OutboundStream, UpstreamClient
from app.settings import Settings
from providers.canonical.errors import (
    CallerCredentialRequired,
    ConstraintViolation,
    CredentialRefused,
    LimitExceeded,
    OperationNotSupported,
    Overloaded,
    QuotaExhausted,
    TokenUnavailable,
    Unavailable,
    Unreachable,
    Unsupported,
    UpstreamError,
    UpstreamNotFound,
)
from providers.credentials import CredentialError
from providers.dialect import InboundRequest, OutboundResponse, ResponseMeta
from providers.engine_routes.route import Route

log = logging.getLogger(__name__)

_MAX_ATTEMPTS = 8
# With which a host says that it has too much to do itself, whoever asks: another credential has no more room there.
_HOST_BUSY_STATUSES = (503, 529)


class Attempts:
    """Serves plans: `fleet` tells which endpoints a target has, `transport` speaks to them."""

    def __init__(
        self, settings: Settings, fleet: Fleet, limits: Limits, checks: ConstraintChecks, transport: httpx.AsyncBaseTransport
    ) -> None:
        self._settings = settings
        self._aborting: set[asyncio.Task[None]] = set()
        self._fleet = fleet
        self._limits = limits
        self._transport = transport
        self._client = UpstreamClient(settings, checks, transport)

    async def serve(
        self, translator: RequestTranslator, plan: Plan, meta: ResponseMeta, context: RequestContext
    ) -> OutboundResponse | OutboundStream:
        """The first answer that a target gives. Raises the last target's UpstreamError; Unsupported if none can honour the ask, and

        NotOffered if none has the API for it.
        """
        failed: UpstreamError | None = None
        unsupported: Unsupported | None = None
        not_offered: OperationNotSupported | None = None
        limit_error: LimitExceeded | Unavailable | None = None
        credential_required: CallerCredentialRequired | None = None
        reserved = {plan.name}
        repairs = 0
        for target, model_name in self._fleet.rank_targets(plan):
            if model_name not in reserved:
                try:
                    await self._reserve(translator.request, plan, model_name, context)
                except (LimitExceeded, Unavailable) as refusal:
                    limit_error = limit_error or refusal
                    continue
                reserved.add(model_name)
            candidates = self._fleet.rank_endpoints(target)
            for endpoint in candidates:
                if len(context.attempts) >= _MAX_ATTEMPTS:
                    break
                try:
                    translated = await translate_request(translator, endpoint, target)
                except (UpstreamNotFound, Unreachable) as reason:  # a LoRA adapter that is known not to be there, or not known to be
                    failed = reason
                    continue
                except OperationNotSupported as reason:
                    not_offered = not_offered or reason
                    break
                except Unsupported as reason:
                    unsupported = unsupported or reason
                    break
                try:
                    response = await self._try_credentials(endpoint, target, translated, translator, meta, context)
                except ConstraintViolation as error:
                    failed = error
                    context.record_discarded_response(error, translator.request.input_tokens)
                    if repairs == translator.max_repairs:
                        break  # its other endpoints serve the same model: to ask them is a second try, which the caller did not allow
                    repairs += 1
                    translator.add_repair_messages(error)
                    candidates.append(endpoint)
                    continue
                except CallerCredentialRequired as reason:
                    credential_required = credential_required or reason
                    break
                except UpstreamError as error:
                    self._fleet.record_failure(endpoint, error)
                    if not error.retry_elsewhere:
                        raise
                    failed = error
                    continue
                self._fleet.record_success(endpoint)
                context.dropped = translated.dropped
                context.guided = None if translated.constraint_plan is None else translated.constraint_plan.enforcement
                return response
        if credential_required is not None:  # what only the caller can mend
            raise credential_required
        if failed is not None:
            raise failed
        if unsupported is not None:
            raise unsupported
        if limit_error is not None:
            raise limit_error
        if not_offered is not None:
            raise not_offered
        raise Unreachable(f"No target of {translator.request.model!r} has an address to be reached at.")

    async def _reserve(self, request: InboundRequest, plan: Plan, model_name: str, context: RequestContext) -> None:
        """What a fallback has rules of its own for. Raises LimitReached or Unavailable: another may have room."""
        assert context.caller is not None
        estimate = estimate_model_usage(request, plan, model_name, self._settings.limits_output_tokens, context.received_us / 1e6)
        context.reservation = await self._limits.extend_reservation(
            context.reservation, context.id, context.caller, model_name, context.tags, estimate
        )

    def _abort_request(self, endpoint: Endpoint, credential_client: CredentialClient, id: str) -> None:
        """Without waiting for it: whoever lets go has no time."""
        abort_parts = endpoint.provider.abort_request(endpoint.base_url, id)
        if abort_parts is None:
            return
        try:
            request = endpoint.build_request(*abort_parts, credential_client=credential_client)
        except CredentialError:  # it is gone from where it was
            return
        task = asyncio.create_task(self._send_abort(request))
        self._aborting.add(task)
        task.add_done_callback(self._aborting.discard)

    async def _send_abort(self, request: httpx.Request) -> None:
        try:
            response = await self._transport.handle_async_request(request)
            await response_stream(response).aclose()
        except httpx.TransportError as fault:
            log.info("an engine could not be told to stop a request", extra={"url": str(request.url), "fault": repr(fault)})

    def connection_error(self, fault: httpx.TransportError, context: RequestContext) -> UpstreamError:
        """The error for a connection that failed in the middle of the answer that is under way."""
        assert isinstance(context.upstream_handle, UpstreamCall)
        return context.upstream_handle.connection_error(fault)

    def masked(self, text: str, context: RequestContext) -> str:
        """What is to be logged of a request, without the secret that it went with."""
        return (
            context.upstream_handle.credential_client.secret_mask.mask(text) if isinstance(context.upstream_handle, UpstreamCall) else text
        )

    def mask_error(self, error: UpstreamError, context: RequestContext) -> None:
        """See Identity.hide: of an answer that is under way. And what else there is to say of it."""
        if isinstance(context.upstream_handle, UpstreamCall):
            context.upstream_handle.credential_client.mask_error(error)
            context.upstream_handle.add_details(error)

    async def _try_credentials(
        self,
        endpoint: Endpoint,
        target: Target,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        context: RequestContext,
    ) -> OutboundResponse | OutboundStream:
        """With one credential after the other, where the first are refused or have no room.

        Raises NoKey where callers have to bring one, and have not, or one that is refused.
        """
        try:
            credential_clients = endpoint.credential_pool.candidates(translator.headers, target.model)
        except CredentialError as fault:
            raise CallerCredentialRequired(str(fault)) from None
        if not credential_clients:
            header_names = " or ".join(endpoint.credential_pool.caller_header_names)
            raise CallerCredentialRequired(
                f"{endpoint.provider.configured_as} is asked with a credential of your own: send it in the header {header_names}."
            )
        failed: UpstreamError | None = None
        for credential_client in credential_clients:
            if failed is not None and len(context.attempts) >= _MAX_ATTEMPTS:
                break
            generation, requested_at = credential_client.generation, time.monotonic()
            try:
                try:
                    response = await self._try(endpoint, credential_client, target, translated, translator, meta, context)
                except CredentialRefused:
                    # It may have been replaced where it is kept, or have been by another request: a rotation must cost none.
                    if credential_client.generation == generation and not credential_client.reload():
                        raise
                    response = await self._try(endpoint, credential_client, target, translated, translator, meta, context)
            except CredentialRefused as error:
                if credential_client.is_callers_own:
                    refused = CallerCredentialRequired(
                        f"{endpoint.provider.configured_as} refused the credential that you sent: {error.reason}"
                    )
                    refused.details = error.details
                    raise refused from None
                credential_client.cooldown.record_refusal()
                failed = failed or error
            except TokenUnavailable as error:
                credential_client.cooldown.record_token_unavailable()
                failed = failed or error
            except Overloaded as error:
                failed = _prefer_shorter_wait(failed, error)
                if error.upstream_status in _HOST_BUSY_STATUSES:
                    break
                if isinstance(error, QuotaExhausted):
                    credential_client.cooldown.record_quota_exhausted(error.retry_after_s)
                else:
                    credential_client.cooldown.record_model_overload(target.model, error.retry_after_s)
            else:
                credential_client.cooldown.record_success(target.model, requested_at)
                return response
        assert failed is not None
        raise failed

    async def _try(
        self,
        endpoint: Endpoint,
        credential_client: CredentialClient,
        target: Target,
        translated: TranslatedRequest,
        translator: RequestTranslator,
        meta: ResponseMeta,
        context: RequestContext,
    ) -> OutboundResponse | OutboundStream:
        started_us = context.now_us()
        context.usage, context.written_tokens = None, 0
        call = UpstreamCall(endpoint, credential_client, target.model, translated.id, self._abort_request)
        context.upstream_handle = call
        message: str | None = None
        error: str | None = None
        code: str | None = None
        try:
            return await self._client.send(call, translated, translator, meta, context)
        except UpstreamError as fault:
            credential_client.mask_error(fault)
            error, message, code = type(fault).__name__, fault.message, fault.upstream_code
            call.add_details(fault)
            await context.release()
            raise
        except asyncio.CancelledError:
            error = "HungUp" if context.disconnected else "Cut"
            raise
        finally:
            attempt = Attempt(
                provider=target.provider,
                model=target.model,
                endpoint=endpoint.base_url,
                started_us=started_us,
                duration_us=context.now_us() - started_us,
                status=call.response.status_code if call.response is not None else None,
                error=error,
                message=message,
                code=code,
                request_id=call.request_id if error else None,
            )
            context.attempts.append(attempt)
            if error is None or (error in ("HungUp", "Cut") and call.was_sent):
                context.served = attempt


async def translate_request(translator: RequestTranslator, endpoint: Endpoint, target: Target) -> TranslatedRequest:
    """In the best dialect of the endpoint that can say the ask. Raises Unsupported for what the best of all cannot say, or NotOffered."""
    provider = endpoint.provider
    if isinstance(translator.caller_dialect, Route):
        return translator.translate_route(translator.caller_dialect, provider, target)
    dialect_names = endpoint.dialects_for(target.model)
    host_operation = provider.host_operations.get(translator.caller_dialect.name) if provider.host_operations else None
    if host_operation is not None and translator.caller_dialect.name not in dialect_names:
        return translator.translate_host_operation(host_operation, provider, target)
    unsupported: Unsupported | None = None
    for dialect in translator.candidate_dialects(provider, dialect_names if target.dialect is None else (target.dialect,)):
        try:
            edited = (
                await translator.run_in_thread_if_slow(translator.edit_request, provider, target)
                if dialect is translator.caller_dialect
                else None
            )
            return edited or await translator.translate_chat(dialect, provider, target)
        except Unsupported as reason:
            unsupported = unsupported or reason
    assert unsupported is not None
    raise unsupported


def _prefer_shorter_wait(failed: UpstreamError | None, error: Overloaded) -> UpstreamError:
    """What is told of several credentials: that there is no room now rather than that one was refused; of two, the shorter wait."""
    if not isinstance(failed, Overloaded):
        return error
    waits = (failed.retry_after_s, error.retry_after_s)
    return failed if waits[1] is None or (waits[0] is not None and waits[0] <= waits[1]) else error
