"""The exchange: what is recorded of a request that has a plan, however it ended."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from app.domain.exchange import Attempt, ChargeBasis, ChargedAttempt, Exchange, Origin, Outcome
from app.domain.experiments import Assignment
from app.domain.snapshot import Plan
from app.gateway.state.charges import Cost, cost_of, costs_of_iterations
from app.gateway.state.stages import Attempted, Planned
from app.gateway.upstream.progress import Charge, least_certain
from app.otel.trace_context import TraceContext
from providers.canonical.chat import Usage

# The end user is indexed and listed; what the caller sent in full is in the recorded request.
_MAX_END_USER_CHARS = 512
_NO_USAGE = Usage()
SKIPPED = "Skipped"


class EndedRequest(Protocol):
    """A request that has ended, with what is recorded of it whatever its stage; RequestContext is one.

    `status` is 499 if no response was begun. `error` is the class of the error, with its `message`; None
    means no error. `trace` is None if the request belongs to none. `own_request_id` is the caller's own id of
    it; None if it gave none. `origin` is None if a caller made it.
    """

    id: str
    route: str
    received_us: int
    status: int
    error: str | None
    message: str | None
    trace: TraceContext | None
    own_request_id: str | None
    origin: Origin | None


def build_exchange(planned: Planned, attempted: Attempted | None, ended: EndedRequest, duration_us: int, outcome: Outcome) -> Exchange:
    """Makes the record of a request that has ended.

    `attempted` is None for a request that reached no engine, which is charged nothing. `outcome` holds unless it ended with an error.
    """
    if ended.error is not None:
        outcome = "failed"
    admitted = planned.admitted
    request, caller, trace, origin = admitted.request, admitted.caller, ended.trace, ended.origin
    progress = None if attempted is None else attempted.progress
    served = None if attempted is None else attempted.served
    reported_model = None if attempted is None else attempted.reported_model
    usage = _NO_USAGE if progress is None or progress.usage is None else progress.usage
    charges: Sequence[_AttemptCharge] = ()
    price: str | None = None
    host_cost: int | None = None
    recorded_charges: tuple[ChargedAttempt, ...] = ()
    charge: Charge | None = None
    is_sampled = trace is not None and trace.sampled
    if attempted is not None and served is not None and len(attempted.attempts) == 1 and not attempted.discarded:
        charge = _charge_of_response(attempted, outcome)
    if attempted is None or (served is None and not attempted.discarded):
        input_tokens, output_tokens, cost, basis = 0, 0, 0, None
    elif served is not None and charge is not None and not charge.usage.iterations:  # as nearly always
        input_tokens, output_tokens, basis = charge.usage.input or 0, charge.usage.output or 0, charge.basis
        served_us = duration_us - served.started_us
        at_s = ended.received_us / 1e6
        cost, price = cost_of(planned.plan, served.provider, served.model, charge.usage, at_s, reported_model, served_us)
        host_cost = charge.usage.host_cost_microusd
        if charge.usage is not usage or outcome != "answered" or served.candidates is not None or is_sampled:
            charges = [_AttemptCharge(served, charge, Cost(cost, price), reported_model, served_us)]
            recorded_charges = () if charge.usage == usage else _recorded_charges(charges)
    else:
        charges = _charges(attempted, outcome, ended.received_us / 1e6, reported_model, duration_us)
        input_tokens, output_tokens, cost, basis = _sum(charges)
        price, host_cost, recorded_charges = _price_of(charges), _sum_host_costs(charges), _recorded_charges(charges)
    keeps_content = caller.content == "full"
    return Exchange(
        id=ended.id,
        episode_id=admitted.episode.id,
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
        usage=usage,
        served_provider=None if served is None else served.provider,
        served_model=None if served is None else served.model,
        endpoint=None if served is None else served.endpoint,
        error=ended.error,
        message=ended.message if keeps_content else None,
        attempts=() if attempted is None else _recorded_attempts(attempted, charges, outcome, keeps_content, is_sampled=is_sampled),
        dropped=() if attempted is None else tuple(attempted.dropped),
        tags=admitted.tags,
        end_user=request.end_user and request.end_user[:_MAX_END_USER_CHARS],
        function=planned.plan.function,
        variant=planned.plan.variant if planned.plan.assignment is None else planned.plan.assignment.arm,
        charged_input=input_tokens,
        charged_output=output_tokens,
        cost_microusd=cost,
        structured_output=None if attempted is None else attempted.structured_output,
        charge_basis=basis,
        reported_model=reported_model,
        emulated=() if attempted is None or attempted.emulation is None else tuple(attempted.emulation.report),
        trace_id=None if trace is None else trace.trace_id,
        parent_span_id=None if trace is None else trace.parent_span_id,
        sampled=is_sampled,
        request_id=ended.own_request_id,
        price=price,
        host_cost_microusd=host_cost,
        served_us=None if served is None else duration_us - served.started_us,
        charges=recorded_charges,
        episode_name=admitted.episode.name,
        assignment=planned.plan.assignment if origin is None else None,
        served_variant=None if attempted is None else attempted.served_variant,
        origin=None if origin is None else origin.kind,
        original_id=None if origin is None else origin.original_id,
        replay_id=None if origin is None else origin.replay_id,
        shadow=planned.shadow,
        content_team_id=None if origin is None else origin.content_team_id,
    )


class _AttemptCharge(NamedTuple):
    """The charge of one attempt. `duration_us` is how long the attempt took, until the end of its response.

    `continues` says that this is another part of the attempt of the charge before it; see ChargedAttempt.
    """

    attempt: Attempt
    charge: Charge
    cost: Cost
    reported_model: str | None
    duration_us: int
    continues: bool = False

    @property
    def input_tokens(self) -> int:
        return self.charge.usage.input or 0

    @property
    def output_tokens(self) -> int:
        return self.charge.usage.output or 0


def _sum(charges: Sequence[_AttemptCharge]) -> tuple[int, int, int | None, ChargeBasis | None]:
    """Input and output tokens, the cost (None: a price is missing), and how certain they are (None: nothing is charged)."""
    costs = [each.cost.microusd for each in charges]
    return (
        sum([each.input_tokens for each in charges]),
        sum([each.output_tokens for each in charges]),
        None if None in costs else sum([cost or 0 for cost in costs]),
        least_certain([each.charge.basis for each in charges]) if charges else None,
    )


def _sum_host_costs(charges: Sequence[_AttemptCharge]) -> int | None:
    """Returns the sum of what the hosts ask, or None if one of them does not say."""
    costs = [each.charge.usage.host_cost_microusd for each in charges if not each.continues]
    return None if None in costs else sum([cost or 0 for cost in costs])


def _recorded_charges(charges: Sequence[_AttemptCharge]) -> tuple[ChargedAttempt, ...]:
    return tuple(
        ChargedAttempt(
            each.attempt.provider,
            each.attempt.model,
            each.charge.usage,
            each.charge.basis,
            each.cost.microusd,
            each.cost.price,
            each.reported_model,
            each.duration_us,
            each.continues,
        )
        for each in charges
    )


def _price_of(charges: Sequence[_AttemptCharge]) -> str | None:
    """Returns the name of the price of the model that answered, or None if it has none."""
    return next(each.cost.price for each in reversed(charges) if not each.continues)


def _charges(attempted: Attempted, outcome: Outcome, at_s: float, reported_model: str | None, duration_us: int) -> list[_AttemptCharge]:
    """Returns the charges of each attempt that a host worked for, also of responses that nobody got.

    They are at the price of the target that wrote each response. There is at least one charge. `duration_us`
    is that of the request.
    """
    plan, served, discarded = attempted.planned.plan, attempted.served, attempted.discarded
    charges = [
        charge
        for each in discarded
        for charge in _attempt_charges(plan, each.attempt, each.charge, at_s, each.reported_model, each.attempt.duration_us)
    ]
    if served is not None and all([each.attempt is not served for each in discarded]):
        charge = _charge_of_response(attempted, outcome)
        charges += _attempt_charges(plan, served, charge, at_s, reported_model, duration_us - served.started_us)
    return charges


def _attempt_charges(
    plan: Plan, attempt: Attempt, charge: Charge, at_s: float, reported_model: str | None, duration_us: int
) -> list[_AttemptCharge]:
    """One, or several where the host says that other runs of models are billed for the response, too."""
    if charge.usage.iterations:
        parts = costs_of_iterations(plan, attempt.provider, attempt.model, charge.usage, at_s, reported_model, duration_us)
        return [
            _AttemptCharge(attempt, Charge(part.usage, charge.basis), part.cost, part.reported_model, duration_us, continues=at > 0)
            for at, part in enumerate(parts)
        ]
    cost = cost_of(plan, attempt.provider, attempt.model, charge.usage, at_s, reported_model, duration_us)
    return [_AttemptCharge(attempt, charge, cost, reported_model, duration_us)]


def _charge_of_response(attempted: Attempted, outcome: Outcome) -> Charge:
    """Returns the charge for the response that the caller got, or got a part of."""
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
    attempted: Attempted, charges: Sequence[_AttemptCharge], outcome: Outcome, keeps_content: bool, *, is_sampled: bool
) -> tuple[Attempt, ...]:
    """Empty if the only attempt answered, unless an explanation was requested, or the writer makes a span of it.

    Error messages count as content: an engine may repeat the prompt.
    """
    attempts = attempted.attempts
    skipped = None if attempted.planned.plan.assignment is None else _skipped_attempt(attempted, attempted.planned.plan.assignment)
    if skipped is None and len(attempts) == 1 and outcome == "answered" and attempts[0].candidates is None and not is_sampled:
        return ()
    recorded = [_recorded_attempt(attempt, [each for each in charges if each.attempt is attempt], keeps_content) for attempt in attempts]
    return (*recorded,) if skipped is None else (skipped, *recorded)


def _skipped_attempt(attempted: Attempted, assignment: Assignment) -> Attempt | None:
    """Returns an attempt at the assigned arm if another one answered before it was tried, else None.

    Its endpoints were in cooldown, or cannot do this request. That counts as its error, or an arm whose
    engine is down would fail only a few times an hour. Returns None too for an arm that was stopped.
    """
    plan, served_variant = attempted.planned.plan, attempted.served_variant
    if plan.variant != assignment.arm or served_variant is None or served_variant == plan.variant:
        return None
    if attempted.attempts[0].error is not None or plan.variant not in plan.variants:
        return None
    target = plan.targets[plan.variants.index(plan.variant)]
    return Attempt(provider=target.provider, model=target.model, endpoint="", started_us=0, duration_us=0, error=SKIPPED)


def _recorded_attempt(attempt: Attempt, charges: Sequence[_AttemptCharge], keeps_content: bool) -> Attempt:
    if not keeps_content:
        attempt = replace(attempt, message=None)
    if not charges:
        return attempt
    input_tokens, output_tokens, cost, _ = _sum(charges)
    return replace(attempt, input_tokens=input_tokens, output_tokens=output_tokens, cost_microusd=cost)
