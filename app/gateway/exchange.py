"""The exchange: what is recorded of a request that has a plan, however it ended."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from app.domain import Attempt, ChargeBasis, Exchange, Outcome, Plan
from app.gateway.charges import cost_of
from app.gateway.stages import Attempted, Planned
from app.gateway.upstream.progress import Charge, least_certain
from providers.canonical.chat import Usage

# The end user is indexed and listed; what the caller sent in full is in the recorded request.
_MAX_END_USER_CHARS = 512


class EndedRequest(Protocol):
    """What is recorded of a request whatever its stage; RequestContext is one.

    `status`: 499 if no response was begun. `error`: the class of the error, with its `message`; None: no error.
    """

    id: str
    route: str
    received_us: int
    status: int
    error: str | None
    message: str | None


def build_exchange(planned: Planned, attempted: Attempted | None, ended: EndedRequest, duration_us: int, outcome: Outcome) -> Exchange:
    """`attempted`: None for a request that reached no engine, which is charged nothing. `outcome`: unless it ended with an error."""
    if ended.error is not None:
        outcome = "failed"
    admitted = planned.admitted
    request, caller = admitted.request, admitted.caller
    progress = None if attempted is None else attempted.progress
    served = None if attempted is None else attempted.served
    reported_model = None if attempted is None else attempted.reported_model
    charges = [] if attempted is None else list(_charges(attempted, outcome, ended.received_us / 1e6, reported_model))
    used = Usage(sum(each.input_tokens for each in charges), sum(each.output_tokens for each in charges))
    cost = None if any(each.cost_microusd is None for each in charges) else sum(each.cost_microusd or 0 for each in charges)
    basis = least_certain([each.basis for each in charges]) if charges else None
    keeps_content = caller.content == "full"
    return Exchange(
        id=ended.id,
        episode_id=admitted.episode_id,
        route=ended.route,
        model=request.model,
        key_id=caller.key_id,
        team_id=caller.team_id,
        snapshot=planned.plan.snapshot.hash,
        received_us=ended.received_us,
        duration_us=duration_us,
        streamed=request.stream,
        status=ended.status,
        outcome=outcome,
        content=caller.content,
        first_token_us=None if progress is None else progress.first_token_us,
        finish_reason=None if progress is None else progress.finish_reason,
        usage=Usage() if progress is None or progress.usage is None else progress.usage,
        served_provider=None if served is None else served.provider,
        served_model=None if served is None else served.model,
        endpoint=None if served is None else served.endpoint,
        error=ended.error,
        message=ended.message if keeps_content else None,
        attempts=() if attempted is None else _recorded_attempts(attempted, charges, outcome, keeps_content),
        dropped=() if attempted is None else tuple(attempted.dropped),
        tags=admitted.tags,
        end_user=request.end_user and request.end_user[:_MAX_END_USER_CHARS],
        charged_input=used.input or 0,
        charged_output=used.output or 0,
        cost_microusd=cost,
        structured_output=None if attempted is None else attempted.structured_output,
        charge_basis=basis,
        reported_model=reported_model,
        emulated=() if attempted is None or attempted.emulation is None else tuple(attempted.emulation.report),
    )


class _AttemptCharge(NamedTuple):
    """What one attempt is charged. `cost_microusd` None: a price is missing."""

    attempt: Attempt
    input_tokens: int
    output_tokens: int
    cost_microusd: int | None
    basis: ChargeBasis


def _charges(attempted: Attempted, outcome: Outcome, at_s: float, reported_model: str | None) -> Iterator[_AttemptCharge]:
    """Of each attempt that a host worked for, also of responses that nobody got, at the price of the target that wrote each."""
    plan, served = attempted.planned.plan, attempted.served
    if served is not None and all(each.attempt is not served for each in attempted.discarded):
        charge = _charge_of_response(attempted, outcome)
        yield _attempt_charge(plan, served, charge, at_s, reported_model)
    for each in attempted.discarded:
        yield _attempt_charge(plan, each.attempt, each.charge, at_s, each.reported_model)


def _attempt_charge(plan: Plan, attempt: Attempt, charge: Charge, at_s: float, reported_model: str | None) -> _AttemptCharge:
    cost = cost_of(plan, attempt.provider, attempt.model, charge.usage, at_s, reported_model)
    return _AttemptCharge(attempt, charge.usage.input or 0, charge.usage.output or 0, cost, charge.basis)


def _charge_of_response(attempted: Attempted, outcome: Outcome) -> Charge:
    """What is charged for the response that the caller got, or a part of it."""
    call, progress, reserved_output = attempted.call, attempted.progress, attempted.planned.reserved_output
    of_parts = None if call is None else call.charge_parts(reserved_output)
    if of_parts is not None:
        return of_parts
    is_cut = attempted.emulation is not None and attempted.emulation.has_cut
    has_ended = not is_cut and (
        outcome == "answered" or (progress.editor is not None and (progress.editor.done or progress.editor.failure is not None))
    )
    may_continue = not has_ended and call is not None and call.may_continue
    return progress.charge(attempted.planned.admitted.request.input_tokens, reserved_output if may_continue else None, is_cut=is_cut)


def _recorded_attempts(
    attempted: Attempted, charges: Sequence[_AttemptCharge], outcome: Outcome, keeps_content: bool
) -> tuple[Attempt, ...]:
    """Empty if the only attempt answered, unless an explanation was requested.

    Error messages count as content: an engine may repeat the prompt.
    """
    attempts = attempted.attempts
    if len(attempts) == 1 and outcome == "answered" and attempts[0].candidates is None:
        return ()
    charged = {id(each.attempt): each for each in charges}
    return tuple(_recorded_attempt(attempt, charged.get(id(attempt)), keeps_content) for attempt in attempts)


def _recorded_attempt(attempt: Attempt, charge: _AttemptCharge | None, keeps_content: bool) -> Attempt:
    if not keeps_content:
        attempt = replace(attempt, message=None)
    if charge is None:
        return attempt
    return replace(attempt, input_tokens=charge.input_tokens, output_tokens=charge.output_tokens, cost_microusd=charge.cost_microusd)
