"""Attempts: targets are tried in order until one serves. After the first byte to the caller nothing is tried again."""

import enum

import httpx

from app.domain import Target
from app.gateway.charges import estimate_model_usage
from app.gateway.context import RequestContext
from app.gateway.emulation.emulation import Emulation
from app.gateway.endpoint_attempts import MAX_ATTEMPTS, EndpointAttempts
from app.gateway.fleet.fleet import Fleet
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.limits.limits import Limits
from app.gateway.other_models import name_other_models
from app.gateway.request_headers import session_of
from app.gateway.request_translation.choose_dialect import translate_request
from app.gateway.request_translation.translator import RequestTranslator
from app.gateway.stages import Attempted, Planned
from app.gateway.structured_output.constraint_checks import ConstraintChecks
from app.gateway.upstream.client import OutboundStream
from app.gateway.upstream.progress import charge_response
from app.settings import Settings
from providers.canonical.errors import (
    CallerCredentialRequired,
    ConstraintUnchecked,
    ConstraintViolation,
    LimitExceeded,
    NarthexError,
    OperationNotSupported,
    Unavailable,
    Unreachable,
    Unsupported,
    UpstreamError,
    UpstreamNotFound,
)
from providers.canonical.token_estimate import text_tokens
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens, estimate_response


class _Rank(enum.IntEnum):
    """Which of several failures tells the caller most: the highest."""

    OPERATION_NOT_SUPPORTED = 1
    LIMITED = 2
    UNSUPPORTED = 3
    UPSTREAM = 4
    CALLER_CREDENTIAL = 5  # the caller alone can correct it


class _Failures:
    """Why targets did not serve. The error that is raised in the end: of the highest rank; of several, the first, or upstream's last."""

    def __init__(self) -> None:
        self._rank = 0
        self._error: NarthexError | None = None

    def add(self, rank: _Rank, error: NarthexError) -> None:
        if rank > self._rank or rank == self._rank == _Rank.UPSTREAM:
            self._rank, self._error = rank, error
        error.without_frames()

    def most_useful(self, model: str) -> NarthexError:
        return self._error or Unreachable(f"No target of {model!r} has an endpoint.")


class Attempts:
    """Serves plans: `fleet` learns which endpoints fail, `limits` are extended for a fallback with rules of its own."""

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        limits: Limits,
        checks: ConstraintChecks,
        transport: httpx.AsyncBaseTransport,
        large_requests: LargeRequests,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._limits = limits
        self._large_requests = large_requests
        self._endpoint_attempts = EndpointAttempts(settings, checks, transport, large_requests)

    async def serve(
        self, translator: RequestTranslator, planned: Planned, meta: ResponseMeta, context: RequestContext
    ) -> tuple[OutboundResponse | OutboundStream, Attempted]:
        """The first response that a target gives, and what led to it; an estimate, for a request to count tokens that no target can count.

        Raises the failure that tells the caller most: CallerCredentialRequired, UpstreamError, Unsupported, LimitExceeded or
        Unavailable, OperationNotSupported.
        """
        attempted = Attempted(planned, context.progress)
        failures = _Failures()
        reserved = {planned.plan.name}
        for target, model_name in planned.endpoint_table.rank_targets(planned.plan):
            if model_name not in reserved:
                try:
                    await self._reserve_fallback(planned, model_name, context)
                except (LimitExceeded, Unavailable) as refusal:  # another fallback may have room
                    failures.add(_Rank.LIMITED, refusal)
                    continue
                reserved.add(model_name)
            if translator.operator_drops is not None:
                translator.apply_operator_drops(planned.plan.name, model_name, target.provider)
            response = await self._serve_target(target, translator, meta, context, attempted, failures)
            if response is not None:
                return response, attempted
        error = failures.most_useful(translator.request.model)
        if isinstance(error, OperationNotSupported) and translator.caller_dialect.name == AnthropicCountTokens.name:
            context.stage = attempted
            attempted.emulation = Emulation(("input_tokens",))
            return estimate_response(translator.request.input_tokens), attempted
        if isinstance(error, Unsupported):
            raise await name_other_models(error, translator, planned)
        raise error

    async def _serve_target(
        self,
        target: Target,
        translator: RequestTranslator,
        meta: ResponseMeta,
        context: RequestContext,
        attempted: Attempted,
        failures: _Failures,
    ) -> OutboundResponse | OutboundStream | None:
        """None: the next target is to be tried. Raises UpstreamError if retrying elsewhere cannot help."""
        choice = attempted.planned.endpoint_table.choose_endpoints(
            target, translator.request, translator.team_id, session_of(translator.headers)
        )
        for endpoint in choice:
            if len(attempted.attempts) >= MAX_ATTEMPTS:
                break
            try:
                translated = await translate_request(translator, endpoint, target)
            except (UpstreamNotFound, Unreachable) as reason:  # a LoRA adapter that the endpoint does not have, as far as is known
                failures.add(_Rank.UPSTREAM, reason)
                continue
            except OperationNotSupported as reason:
                failures.add(_Rank.OPERATION_NOT_SUPPORTED, reason)
                break
            except Unsupported as reason:
                failures.add(_Rank.UNSUPPORTED, reason)
                break
            try:
                response = await self._endpoint_attempts.try_credentials(
                    endpoint, target, translated, translator, meta, context, attempted, choice.begin(endpoint)
                )
            except ConstraintViolation as error:
                failures.add(_Rank.UPSTREAM, error)
                _discard_response(attempted, error)
                if isinstance(error, ConstraintUnchecked) or len(attempted.discarded) > translator.max_repairs:
                    break  # the target's other endpoints serve the same model: that would be a retry which the caller did not allow
                await translator.add_repair_messages(error, self._large_requests.of_team(translator.team_id))
                choice.try_again(endpoint)
            except CallerCredentialRequired as error:
                failures.add(_Rank.CALLER_CREDENTIAL, error)
                break
            except UpstreamError as error:
                self._fleet.record_failure(endpoint, error)
                if not error.retry_elsewhere:
                    raise
                failures.add(_Rank.UPSTREAM, error)
            else:
                self._fleet.record_success(endpoint)
                attempted.emulation = translated.emulation
                attempted.dropped = [*attempted.planned.admitted.reserved_fields, *translated.dropped]
                constraint_plan = translated.constraint_plan
                if attempted.progress.is_unvalidated:
                    attempted.structured_output = "unvalidated"
                elif constraint_plan is not None:
                    attempted.structured_output = constraint_plan.enforcement
                elif translated.is_checked:  # the calls of strict tools
                    attempted.structured_output = "validated"
                return response
        return None

    async def _reserve_fallback(self, planned: Planned, model_name: str, context: RequestContext) -> None:
        """Reserves against the rules that a fallback has of its own. Raises LimitExceeded or Unavailable."""
        admitted = planned.admitted
        estimate = estimate_model_usage(
            admitted.request, planned.plan, model_name, self._settings.limits_output_tokens, context.received_us / 1e6
        )
        planned.reserved_output = max(planned.reserved_output, estimate.output_tokens)
        planned.reservation = await self._limits.extend_reservation(
            planned.reservation, context.id, admitted.caller, model_name, admitted.tags, estimate, planned.matcher
        )


def _discard_response(attempted: Attempted, violation: ConstraintViolation) -> None:
    """No caller gets this response, but an engine wrote it: it is charged like one that broke off."""
    input_tokens = attempted.planned.admitted.request.input_tokens
    charge = None if attempted.call is None else attempted.call.charge_parts(attempted.planned.reserved_output)
    if charge is None:
        charge = charge_response(violation.usage, input_tokens, text_tokens(len(violation.response_text)))
    attempted.discard(attempted.attempts[-1], charge)
