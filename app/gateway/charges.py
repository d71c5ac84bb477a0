"""The bill: what a request is thought to need before it is answered, and what is charged for it afterwards."""

from typing import NamedTuple

from app.billing.cost import cost_microusd, reserved_microusd
from app.billing.price_index import find_named_price, find_price
from app.domain import Exchange, Plan
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from providers.canonical.chat import Usage
from providers.dialect import InboundRequest


def estimate_usage(request: InboundRequest, plan: Plan, default_output_tokens: int, at_s: float) -> UsageEstimate:
    """The estimate for the plan's own model. `default_output_tokens`: reserved if neither the request nor the model limits the response."""
    return estimate_model_usage(request, plan, plan.name, default_output_tokens, at_s)


def estimate_model_usage(request: InboundRequest, plan: Plan, name: str, default_output_tokens: int, at_s: float) -> UsageEstimate:
    """For one of the plan's models. Uses its most expensive target. The cost is None if any target has no price."""
    output = request.output_tokens
    if output is None:
        output = (plan.snapshot.models[name].output_tokens or default_output_tokens) * request.choices
    cost: int | None = None
    if plan.snapshot.prices:
        targets = [target for target, model in zip(plan.targets, plan.names, strict=True) if model == name]
        prices = [find_price(plan.snapshot, target.provider, target.model, at_s) for target in targets]
        costs = [None if price is None else reserved_microusd(request.input_tokens, output, price) for price in prices]
        cost = None if None in costs else max((each for each in costs if each is not None), default=None)
    return UsageEstimate(request.input_tokens, output, cost)


def estimate_highest_cost(request: InboundRequest, plan: Plan, default_output_tokens: int, at_s: float) -> int | None:
    """Of one attempt at whichever of the plan's models, fallbacks too. None: one of them has no price."""
    costs = [estimate_model_usage(request, plan, name, default_output_tokens, at_s).cost_microusd for name in dict.fromkeys(plan.names)]
    return None if None in costs else max((each for each in costs if each is not None), default=None)


class Cost(NamedTuple):
    """In millionths of a US dollar; None: unknown. `price`: the name of the price used; None: there is none."""

    microusd: int | None
    price: str | None


NO_PRICE = Cost(None, None)


def cost_of(
    plan: Plan, provider: str, model: str, usage: Usage, at_s: float, reported_model: str | None = None, duration_us: int | None = None
) -> Cost:
    """By the price at a Unix time. `reported_model`: see find_named_price(). `duration_us`: of the attempt."""
    found = find_named_price(plan.snapshot, provider, model, at_s, reported_model)
    return NO_PRICE if found is None else Cost(cost_microusd(usage, found.price, duration_us), found.name)


def actual_usage(exchange: Exchange) -> ActualUsage:
    return ActualUsage(exchange.charged_input, exchange.charged_output, exchange.cost_microusd)
