"""The bill: what a request is thought to need before it is answered, and what is charged for it afterwards."""

from typing import NamedTuple

from msgspec.structs import replace

from app.billing.cost import UNITS_PER_MICROUSD, cost_units, reserved_microusd, round_together, step_of
from app.billing.price_index import find_named_price, find_price
from app.domain.exchange import Exchange
from app.domain.snapshot import Plan
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from providers.canonical.chat import Usage
from providers.canonical.usage_sums import sum_usage
from providers.dialect import InboundRequest


def estimate_usage(request: InboundRequest, plan: Plan, default_output_tokens: int, at_s: float) -> UsageEstimate:
    """The estimate for the plan's own model. If neither the request nor the model limits the response, `default_output_tokens` are
    reserved.
    """
    return estimate_model_usage(request, plan, plan.name, default_output_tokens, at_s)


def estimate_model_usage(request: InboundRequest, plan: Plan, name: str, default_output_tokens: int, at_s: float) -> UsageEstimate:
    """Estimates the usage of one of the plan's models at its most expensive target.

    The cost is None if any target has no price.
    """
    output = request.output_tokens
    if output is None:
        output = (plan.snapshot.models[name].output_tokens or default_output_tokens) * request.choices
    cost: int | None = None
    if plan.snapshot.prices:
        targets = [target for target, model in zip(plan.targets, plan.names, strict=True) if model == name]
        prices = [find_price(plan.snapshot, target.provider, target.model, at_s) for target in targets]
        costs = [None if price is None else reserved_microusd(request.input_tokens, output, price, at_s) for price in prices]
        cost = None if None in costs else max((each for each in costs if each is not None), default=None)
    return UsageEstimate(request.input_tokens, output, cost)


def estimate_highest_cost(request: InboundRequest, plan: Plan, default_output_tokens: int, at_s: float) -> int | None:
    """Estimates the cost of one attempt at the most expensive of the plan's models, fallbacks too.

    Returns None if one of them has no price.
    """
    costs = [estimate_model_usage(request, plan, name, default_output_tokens, at_s).cost_microusd for name in dict.fromkeys(plan.names)]
    return None if None in costs else max((each for each in costs if each is not None), default=None)


class Cost(NamedTuple):
    """A cost in millionths of a US dollar; None if it is unknown.

    `price` is the name of the price used; None if there is none.
    """

    microusd: int | None
    price: str | None


NO_PRICE = Cost(None, None)


def cost_of(
    plan: Plan, provider: str, model: str, usage: Usage, at_s: float, reported_model: str | None = None, duration_us: int | None = None
) -> Cost:
    """Returns the cost by the price at the Unix time `at_s`, without pricing iterations by themselves.

    For `reported_model` see find_named_price(). `duration_us` is that of the attempt.
    """
    found = find_named_price(plan.snapshot, provider, model, at_s, reported_model)
    if found is None:
        return NO_PRICE
    units = cost_units(usage, found.price, duration_us, at_s)
    return Cost(None if units is None else (units + UNITS_PER_MICROUSD // 2) // UNITS_PER_MICROUSD, found.name)


class PartCost(NamedTuple):
    """The cost of a part of a response that the host bills by itself: runs of one model.

    `reported_model` is the one that ran.
    """

    usage: Usage
    cost: Cost
    reported_model: str | None


def costs_of_iterations(
    plan: Plan, provider: str, model: str, usage: Usage, at_s: float, reported_model: str | None, duration_us: int
) -> list[PartCost]:
    """The costs of a response whose host made several runs of models for it: first of the model's own, then of each other one.

    Runs are billed as requests of their own, so each is priced by the step of its own input. What was used of tools is in the first.
    """
    own_names = {None, model, reported_model}
    own: tuple[str, str | None] = model, reported_model
    groups: dict[tuple[tuple[str, str | None], int], list[Usage]] = {}
    for iteration in usage.iterations:
        name = iteration.model
        served = own if name is None or name in own_names else (name, name)
        found = find_named_price(plan.snapshot, provider, served[0], at_s, served[1])
        step = 0 if found is None else step_of(iteration.usage, found.price)
        groups.setdefault((served, step), []).append(iteration.usage)
    ordered = sorted(groups, key=lambda group: group[0] != own)
    parts: list[tuple[tuple[str, str | None], Usage]] = []
    for at, group in enumerate(ordered):
        tool_uses, host_cost = (usage.tool_uses, usage.host_cost_microusd) if at == 0 else (None, None)
        summed = sum_usage(groups[group])
        parts.append((group[0], replace(summed, tier=usage.tier, region=usage.region, tool_uses=tool_uses, host_cost_microusd=host_cost)))
    found_prices = [find_named_price(plan.snapshot, provider, served[0], at_s, served[1]) for served, _ in parts]
    units = [
        None if found is None else cost_units(each, found.price, duration_us, at_s)
        for found, (_, each) in zip(found_prices, parts, strict=True)
    ]
    amounts = iter(round_together([each for each in units if each is not None]))
    return [
        PartCost(each, Cost(None if priced is None else next(amounts), None if found is None else found.name), served[1])
        for (served, each), found, priced in zip(parts, found_prices, units, strict=True)
    ]


def actual_usage(exchange: Exchange) -> ActualUsage:
    return ActualUsage(exchange.charged_input, exchange.charged_output, exchange.cost_microusd)
