"""Outcomes of attempts: what each leaves behind in the record, in the charge, and with its endpoint's breaker."""

from collections.abc import Sequence

from msgspec.structs import replace

from app.domain.exchange import Attempt
from app.gateway.attempts.attempt_failures import Failures
from app.gateway.emulation.emulation import add_field
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.fleet import Fleet
from app.gateway.request_translation.translated_request import TranslatedRequest
from app.gateway.state.request_faults import RequestFaults
from app.gateway.state.stages import Attempted
from app.gateway.upstream.call import UpstreamCall
from app.gateway.upstream.outbound_stream import OutboundStream
from app.gateway.upstream.progress import charge_response
from providers.canonical.errors import ConstraintViolation, UpstreamError, UpstreamFailed, UpstreamRejected
from providers.canonical.token_estimate import text_tokens
from providers.dialect import OutboundResponse


def record_failure(fleet: Fleet, attempted: Attempted, endpoint: Endpoint, model: str, error: UpstreamError) -> None:
    """Counts a failure of an endpoint. A 500 counts later, when it is known whether another endpoint answers: see RequestFaults."""
    if attempted.is_shadow:
        return
    if not isinstance(error, UpstreamFailed) or not error.counts_as_failure:
        fleet.record_failure(endpoint, model, error, team_id=attempted.planned.admitted.caller.team_id)
        return
    if attempted.faults is None:
        attempted.faults = RequestFaults(fleet, attempted.planned.admitted.caller.team_id)
    attempted.faults.add(endpoint, model, error)


def record_success(fleet: Fleet, attempted: Attempted, endpoint: Endpoint) -> None:
    """Counts a success of an endpoint, which tells what the failures of others before it were. A shadow's counts for nothing."""
    if attempted.planned.shadow is not None:
        return
    fleet.record_success(endpoint)
    if attempted.faults is not None:
        attempted.faults.settle()


def note_translation(attempted: Attempted, translated: TranslatedRequest, left_out: Sequence[str]) -> None:
    """Records what was emulated, what the response was made without, and how its constraint was kept."""
    attempted.emulation = translated.emulation
    if attempted.planned.admitted.read_as:
        attempted.emulation = add_field(translated.emulation, attempted.planned.admitted.read_as)
    attempted.dropped = [*attempted.planned.admitted.reserved_fields, *left_out, *translated.dropped]
    constraint_plan = translated.constraint_plan
    if attempted.progress.is_unvalidated:
        attempted.structured_output = "unvalidated"
    elif constraint_plan is not None:
        attempted.structured_output = constraint_plan.enforcement
    elif translated.is_checked:  # the calls of strict tools
        attempted.structured_output = "validated"


def discard_violation(attempted: Attempted, violation: ConstraintViolation) -> None:
    """No caller gets this response, but an engine wrote it: it is charged like one that broke off."""
    input_tokens = attempted.planned.admitted.request.input_tokens
    charge = None if attempted.call is None else attempted.call.charge_parts(attempted.planned.reserved_output)
    if charge is None:
        charge = charge_response(violation.usage, input_tokens, text_tokens(len(violation.response_text)))
    attempted.discard(attempted.attempts[-1], charge)


def discard_broken(attempted: Attempted, served: Attempt, call: UpstreamCall, error: UpstreamError) -> Attempt:
    """The served stream broke off: its attempt failed after all, and is charged as far as it came. Returns the attempt as it is now."""
    progress, planned = attempted.progress, attempted.planned
    failed = replace(
        served,
        duration_us=progress.elapsed_us() - served.started_us,
        error=type(error).__name__,
        message=error.message,
        code=error.upstream_code,
        request_id=call.request_id,
    )
    charge = progress.charge(planned.admitted.request.input_tokens, planned.reserved_output if call.may_continue else None)
    attempted.attempts[-1] = failed
    attempted.discard(failed, charge)
    attempted.served, attempted.broken_endpoint = None, call.endpoint
    return failed


def is_refused(response: OutboundResponse | OutboundStream) -> bool:
    """Whether the host refused to answer. Of a stream that is known too late: its first bytes go to the caller."""
    return isinstance(response, OutboundResponse) and response.finish_reason == "content_filter"


def discard_refused(attempted: Attempted, response: OutboundResponse | OutboundStream, failures: Failures) -> None:
    """Nobody gets this response, which is charged all the same."""
    assert isinstance(response, OutboundResponse)
    input_tokens = attempted.planned.admitted.request.input_tokens
    attempt = attempted.attempts[-1]
    attempted.served = None
    attempted.discard(attempt, charge_response(response.usage, input_tokens, text_tokens(len(response.raw))))
    failures.refuse("content_refused", UpstreamRejected(f"{attempt.provider} refused to answer this.", upstream_status=400))
